package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"nereid/engine"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/residency"
	"nereid/engine/restrict"
	"nereid/engine/shm"
	"nereid/engine/trace"
)

// Config is what the command line and the environment say.
type Config struct {
	Help bool
	// AsTriton: started under the name tritonserver, with its defaults.
	AsTriton bool

	ID           string
	Repositories []string
	Namespaces   bool // --model-namespacing
	ControlMode  string
	PollSecs     int
	LoadModels   []string
	ConfigName   string
	LoadThreads  int
	LoadRetries  int
	Residency    residency.Budget
	// ResourcesFirst: a reload closes the old before it loads the new.
	ResourcesFirst bool
	ExitTimeout    int // seconds
	ExitOnError    bool

	DisableAutoComplete bool
	StrictReadiness     bool
	// DefaultMaxBatchSizes are given to models that can batch and do not say how far, by backend; "": all others.
	DefaultMaxBatchSizes map[string]int
	BackendDirectory     string               // of backends written in Python; "": none
	Python               map[string]string    // settings of the Python backend
	PythonRequirements   string               // a requirements.txt for Python models; "": none
	ONNXRuntime          onnxruntime.Settings // --backend-config=onnxruntime,...
	// Frameworks are the settings of backends that run a framework's own library, by their names.
	Frameworks map[string]map[string]string

	LogVerbose                  int
	LogInfo, LogWarn, LogError  bool
	LogFormat, LogFile          string
	RawLog                      bool // messages are written as they are, without escapes
	Trace                       trace.Settings
	Telemetry                   trace.Telemetry
	CacheSize                   int               // bytes of the local response cache; 0: there is none
	CacheRedis                  map[string]string // settings of the response cache in a redis server; nil: there is none
	AllowHTTP, AllowGRPC        bool
	AllowMetrics, AllowUI       bool
	AllowCPUMetrics             bool
	AllowGPUMetrics             bool
	HTTPAddress, GRPCAddress    string
	MetricsAddress, UIAddress   string
	HTTPPort, GRPCPort          int
	ReuseHTTPPort               bool // other servers of the same user may listen there too
	ReuseGRPCPort               bool
	MetricsPort, UIPort         int
	HTTPMaxInput                int
	MetricsIntervalMs           int
	Metrics                     metricsConfig
	HTTPBasePath                string
	AllowedHosts                []string
	AllowedOrigins              []string
	HTTPV1                      bool
	GRPCReflection              bool
	GRPCCompression             string          // none, low, medium or high
	HTTPForward, GRPCForward    *regexp.Regexp  // nil: no headers become parameters
	HTTPRestricted              *restrict.Rules // nil: no group needs a header
	GRPCRestricted              *restrict.Rules
	Token                       string
	AllowAnonymous              bool
	HTTPTLS, GRPCTLS            TLSFiles
	MetricsSSL, UISSL           bool // with HTTP's files
	KeepaliveTime               int  // ms, as all below
	KeepaliveTimeout            int
	KeepaliveWithoutCalls       bool
	MinPingInterval             int
	MaxConnectionAge            int
	MaxConnectionAgeGrace       int
	DataDir, ONNXRuntimeLibrary string
	AllowClientShm              bool // where it was given; see sharedMemory
	ClientShmDirect             bool
	OpenBrowser                 bool
	History                     bool

	cloudConfig
	placementConfig

	// WithoutEffect lists the options that were given and do nothing here.
	WithoutEffect []string

	given       map[string]string
	args        []string // the options with values as they were given: --name=value, by their first names
	defaultData bool     // no data folder was asked for
}

// TLSFiles are the TLS options of an endpoint.
type TLSFiles struct {
	Use, Mutual     bool
	Cert, Key, Root string
}

// check says which files are missing; prefix is "http" or "grpc".
func (f TLSFiles) check(prefix string, used bool) error {
	var errs []error
	need := func(option, file, why string) {
		if file == "" {
			errs = append(errs, fmt.Errorf("--%s-%s is missing: %s needs it", prefix, option, why))
		}
	}
	if used {
		why := "--" + prefix + "-use-ssl"
		if !f.Use {
			why = "TLS of the metrics or the GUI"
		} else if f.Mutual {
			why += "-mutual"
		}
		need("server-cert", f.Cert, why)
		need("server-key", f.Key, why)
	}
	if f.Mutual {
		need("root-cert", f.Root, "--"+prefix+"-use-ssl-mutual")
	}
	return errors.Join(errs...)
}

// defaults returns tritonserver's defaults, with ours where the design differs: loopback addresses, and a model that
// fails does not stop the server.
func defaults(asTriton bool) *Config {
	c := &Config{
		AsTriton: asTriton, ID: "triton", PollSecs: 15, LoadThreads: 4, ExitTimeout: 30, ExitOnError: asTriton,
		StrictReadiness: true, LogInfo: true, LogWarn: true, LogError: true, LogFormat: "default", GRPCCompression: "none",
		Trace:     trace.Default(),
		AllowHTTP: true, AllowGRPC: true, AllowMetrics: true, AllowUI: true, AllowCPUMetrics: true, AllowGPUMetrics: true,
		placementConfig: placementConfig{MinCapability: device.DefaultMinCapability, PinnedBytes: gpumem.DefaultPinnedBytes},
		HTTPAddress:     "127.0.0.1", GRPCAddress: "127.0.0.1", UIAddress: "127.0.0.1",
		HTTPPort: 8000, GRPCPort: 8001, MetricsPort: 8002, UIPort: 8003, HTTPMaxInput: 64 << 20, MetricsIntervalMs: 2000,
		KeepaliveTime: 7200000, KeepaliveTimeout: 20000, MinPingInterval: 300000,
		AllowAnonymous: asTriton, History: true, given: map[string]string{},
	}
	if asTriton {
		c.HTTPAddress, c.GRPCAddress = "0.0.0.0", "0.0.0.0"
	}
	return c
}

// Load reads a command line over the defaults and the environment (see os.LookupEnv), completes and checks it. It
// returns every fault at once.
func Load(asTriton bool, args []string, lookup func(string) (string, bool)) (*Config, error) {
	c := defaults(asTriton)
	if v, ok := lookup("NEREID_TOKEN"); ok {
		c.Token = strings.TrimSpace(v) // a file's last line break is no part of it
	}
	if v, ok := lookup("NEREID_ONNXRUNTIME_LIBRARY"); ok {
		c.ONNXRuntimeLibrary = v
	}
	if v, ok := lookup("NEREID_DATA_DIR"); ok {
		c.DataDir = v
	}
	if v, ok := lookup("TRITON_SERVER_ESCAPE_LOG_MESSAGES"); ok {
		escape, err := parseBool(v)
		c.RawLog = err == nil && !escape
	}
	err := errors.Join(c.readCloud(lookup), parse(c, args))
	if c.Help {
		return c, nil
	}
	return c, errors.Join(err, c.complete(lookup))
}

func (c *Config) complete(lookup func(string) (string, bool)) error {
	var errs []error
	c.MetricsAddress = cmp.Or(c.MetricsAddress, c.HTTPAddress)
	if c.DataDir == "" {
		c.defaultData = true
		dir, err := defaultDataDir(lookup)
		if !c.AsTriton { // which does without
			errs = append(errs, err)
		}
		c.DataDir = dir
	}
	if !slices.Contains([]string{"", "none", "poll", "explicit"}, c.ControlMode) {
		errs = append(errs, fmt.Errorf("--model-control-mode: %q is none of none, poll, explicit", c.ControlMode))
	}
	if len(c.LoadModels) > 0 && c.ControlMode != "explicit" {
		errs = append(errs, errors.New("--load-model: works only with --model-control-mode=explicit"))
	}
	if slices.Contains(c.LoadModels, "*") && len(c.LoadModels) > 1 {
		errs = append(errs, errors.New("--load-model: * loads all models and cannot be given together with names"))
	}
	if c.PollSecs == 0 && c.given["repository-poll-secs"] != "" && c.ControlMode == "poll" {
		errs = append(errs, errors.New("--repository-poll-secs: must be over 0 in poll mode"))
	}
	if !slices.Contains([]string{"none", "low", "medium", "high"}, c.GRPCCompression) {
		errs = append(errs, fmt.Errorf("--grpc-infer-response-compression-level: %q is none of none, low, medium, high", c.GRPCCompression))
	}
	if c.LogFormat != "default" && c.LogFormat != "ISO8601" {
		errs = append(errs, fmt.Errorf("--log-format: %q is neither default nor ISO8601", c.LogFormat))
	}
	if c.Trace.Level != 0 && c.Trace.Rate == 0 && c.Trace.Mode == trace.ModeTriton {
		errs = append(errs, errors.New("--trace-config: rate=0 traces nothing in mode triton; say how many requests one in is traced"))
	}
	if !c.AllowHTTP && !c.AllowGRPC && !c.AllowUI {
		errs = append(errs, errors.New("HTTP, gRPC and the GUI are all turned off: nothing could be asked of the server"))
	}
	errs = append(errs, c.GRPCTLS.check("grpc", c.GRPCTLS.Use), c.HTTPTLS.check("http", c.HTTPTLS.Use || c.MetricsSSL || c.UISSL))
	errs = append(errs, c.checkCloud(), c.checkPorts(), c.checkPolicies())
	return errors.Join(errs...)
}

// endpoint is one of the listeners.
type endpoint struct {
	what, option string
	on           bool
	address      string
	port         int
	reuse        bool // the port is shared with other servers
}

func (c *Config) endpoints() []endpoint {
	return []endpoint{ // in the order in which Triton binds them, then ours
		{"GRPC service", "grpc", c.AllowGRPC, c.GRPCAddress, c.GRPCPort, c.ReuseGRPCPort},
		{"HTTP service", "http", c.AllowHTTP, c.HTTPAddress, c.HTTPPort, c.ReuseHTTPPort},
		{"SageMaker service", "sagemaker", c.AllowSageMaker, c.HTTPAddress, c.SageMakerPort, false},
		{"Vertex AI service", "vertex-ai", c.AllowVertexAI, c.HTTPAddress, c.VertexAIPort, false},
		{"Metrics service", "metrics", c.AllowMetrics, c.MetricsAddress, c.MetricsPort, false},
		{"GUI", "ui", c.AllowUI, c.UIAddress, c.UIPort, false},
	}
}

func (c *Config) checkPorts() error {
	var errs []error
	used := map[int]string{}
	for _, e := range c.endpoints() {
		if !e.on || e.port == 0 {
			continue
		}
		if other := used[e.port]; other != "" {
			errs = append(errs, fmt.Errorf("--%s-port: %d is the port of the %s too; every service needs its own", e.option, e.port, other))
		}
		used[e.port] = e.what
	}
	return errors.Join(errs...)
}

// checkAccess refuses an address that others can reach when nothing guards it: no token in the environment and, as
// tokens says, none in the store.
func (c *Config) checkAccess(tokens bool) error {
	var errs []error
	for _, e := range c.endpoints() {
		if !e.on || loopback(e.address) {
			continue
		}
		switch {
		case e.option == "ui":
			errs = append(errs, fmt.Errorf("--ui-address: %s can be reached from other machines, and the GUI answers on this machine only; "+
				"use 127.0.0.1 and a tunnel such as ssh -L %d:127.0.0.1:%d", e.address, c.UIPort, c.UIPort))
		case c.Token == "" && !tokens && !c.AllowAnonymous:
			option := e.option
			if option == "sagemaker" || option == "vertex-ai" {
				option = "http" // whose address they have
			}
			errs = append(errs, fmt.Errorf("--%s-address: %s can be reached from other machines and nothing guards it; make a token with "+
				"nereid token create, or set one in the environment variable NEREID_TOKEN, or say --allow-anonymous to serve everybody", option, e.address))
		}
	}
	return errors.Join(errs...)
}

// sharedMemory says whether clients may share memory with the server: as they were told to, else only where all clients
// are on this machine, as those who can share memory are.
func (c *Config) sharedMemory() shm.Options {
	allowed := c.AllowClientShm
	if _, ok := c.given[allowClientShm]; !ok {
		allowed = (!c.AllowHTTP || loopback(c.HTTPAddress)) && (!c.AllowGRPC || loopback(c.GRPCAddress))
	}
	return shm.Options{Disabled: !allowed, Direct: c.ClientShmDirect}
}

const allowClientShm = "allow-client-shm"

func loopback(address string) bool {
	if address == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(address, "[]"))
	return ip != nil && ip.IsLoopback()
}

func defaultDataDir(lookup func(string) (string, bool)) (string, error) {
	if dir, ok := lookup("XDG_DATA_HOME"); ok && dir != "" {
		return filepath.Join(dir, "nereid"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("cannot tell where to keep data: %w; say --data-dir=<folder>", err)
	}
	return filepath.Join(home, ".local", "share", "nereid"), nil
}

func (c *Config) mode() engine.ControlMode {
	return engine.ControlMode(cmp.Or(c.ControlMode, "none"))
}

func (c *Config) pollInterval() time.Duration { return time.Duration(c.PollSecs) * time.Second }

// defaultMaxBatchSize is the backend option of that name for all backends, nil if it is not given.
func (c *Config) defaultMaxBatchSize() *int {
	n, ok := c.DefaultMaxBatchSizes[""]
	if !ok {
		return nil
	}
	return &n
}
