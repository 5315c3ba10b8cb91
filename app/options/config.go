package options

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/keepalive"

	"nereid/app/certs"
	"nereid/app/listen"
	"nereid/app/logging"
	"nereid/app/newversion"
	"nereid/engine"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/backend/python"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/grpcapi"
	"nereid/engine/httpapi"
	"nereid/engine/instance"
	"nereid/engine/metrics"
	"nereid/engine/metrics/custom"
	"nereid/engine/trace"
)

// Requests says what is recorded of requests: only metadata.
type Requests struct {
	Record bool
	Keep   int // how many of them the history keeps
}

// History says what is recorded of the server.
type History struct {
	On       bool
	MaxBytes int64 // of the database
}

// Role is what the program is; the zero value: nereid.
type Role struct {
	// AsTriton: the program was started under the name tritonserver and has its defaults.
	AsTriton bool
	// Embedded: the server is inside another program. It opens no port and keeps no history unless the options say so.
	Embedded bool
}

// Config is what the command line and the environment say.
type Config struct {
	Help bool // the user asked for the usage text
	Role

	// RequestMemory is how many bytes requests and responses may use; 0: a quarter of the memory.
	RequestMemory int64
	ExitTimeout   time.Duration
	ExitOnError   bool
	OpenBrowser   bool
	History       History
	Requests      Requests
	DataDir       string // never empty, unless AsTriton
	// DefaultDataDir: the user did not choose DataDir.
	DefaultDataDir bool

	// Parts of the server. What is made at run time, such as Engine.Machine, is missing.
	Engine        engine.Options
	RateLimit     RateLimit
	ResponseCache ResponseCache
	Backends      Backends
	GPUs          device.Options
	GPUMemory     gpumem.Options
	Log           logging.Options
	Trace         trace.Options

	NewVersion newversion.Source // where the text about a new version is

	Access    Access
	Catalog   Catalog
	Listen    listen.Endpoints
	TLS       TLS
	HTTP      httpapi.Options
	GRPC      grpcapi.Options
	SageMaker SageMaker
	VertexAI  VertexAI
	Metrics   metrics.Options
	// LocalClientShm: --allow-client-shm is not given, so clients share memory only while just this machine is served.
	LocalClientShm bool
	// OmitGPUMetrics is --allow-gpu-metrics=false.
	OmitGPUMetrics bool

	sources
}

// sources says which options were given, and where.
type sources struct {
	// Args are the options with values as they were given, as --name=value with the first of their names.
	Args []string
	// WithoutEffect lists the options that were given and do nothing here.
	WithoutEffect []string

	given  map[string]string    // values by the first name of their option
	origin map[string][]setting // all values, and where they come from
	file   string               // the configuration file; "": none
	edge   bool                 // --edge; see preset
	again  func() (*Config, error)
}

// HasFile reports whether a configuration file is used.
func (s *sources) HasFile() bool { return s.file != "" }

// RateLimit is --rate-limit and --rate-limit-resource. Load makes the limiter of Config.Engine from it.
type RateLimit struct {
	On        bool // execution_count
	Resources []instance.Resource
}

// Backends are the options of the backends.
type Backends struct {
	Program     string           // runs as the processes of models; "": this program
	Metrics     *custom.Registry // takes the metrics that models make; nil: a new one
	Directory   string           // holds backends written in Python; "": none
	Agents      string           // holds libraries of repository agents; "": none
	ONNXRuntime onnxruntime.Options
	Python      python.Options
	Env         []string // variables that models' processes get in addition to the usual ones; see process.Environ
	CrashInputs string   // a folder for inputs that crash models; "": they are not saved
	// Frameworks are the settings of the backends that use a framework's own library, by backend name.
	Frameworks map[string]map[string]string
	// Libraries are all settings of --backend-config by the backend's name, "" for those of all backends. The libraries
	// of backends get them.
	Libraries map[string]map[string]string
}

// Interpreter is the Python with which environments are made.
func (b *Backends) Interpreter() string { return cmp.Or(b.Python.Settings["python"], "python3") }

// Access says who may use the server.
type Access struct {
	Token          string   // from the environment; "": none
	AllowAnonymous bool     // no token is needed
	AllowedHosts   []string // names that the Host header may have in addition to the server's own
	KioskModels    []string // that visitors of the public page may try; empty: all
}

// TLS are the certificate files of HTTP, which the metrics and the GUI share, and of gRPC.
type TLS struct{ HTTP, GRPC certs.Files }

// Default returns tritonserver's defaults, except where this server's design differs: it listens on loopback addresses,
// and a model that fails to load does not stop it. asTriton chooses Triton's behaviour there too.
func Default(asTriton bool) *Config {
	address := "127.0.0.1"
	if asTriton {
		address = "0.0.0.0"
	}
	c := &Config{
		Role: Role{AsTriton: asTriton}, ExitTimeout: 30 * time.Second, ExitOnError: asTriton,
		History:  History{On: true, MaxBytes: 1 << 30},
		Requests: Requests{Record: true, Keep: 1_000_000},
		Trace:    trace.Options{Settings: trace.Default()},
		Log: logging.Options{
			Settings: engine.LogSettings{Info: true, Warning: true, Error: true, Format: "default"},
		},
		GPUs:      device.Options{MinCapability: device.DefaultMinCapability},
		GPUMemory: gpumem.Options{PinnedBytes: gpumem.DefaultPinnedBytes},
		Access:    Access{AllowAnonymous: asTriton},
		Listen: listen.Endpoints{
			GRPC:      listen.Endpoint{On: true, Address: address, Port: 8001},
			HTTP:      listen.Endpoint{On: true, Address: address, Port: 8000},
			Metrics:   listen.Endpoint{On: true, Port: 8002},
			UI:        listen.Endpoint{On: true, Address: "127.0.0.1", Port: 8003},
			Kiosk:     listen.Endpoint{Address: "127.0.0.1", Port: 8004},
			SageMaker: listen.Endpoint{Port: 8080}, VertexAI: listen.Endpoint{Port: 8080},
		},
		Catalog: Catalog{Interval: 10 * time.Second},
		HTTP:    httpapi.Options{MaxBody: 64 << 20},
		Metrics: metrics.Options{Interval: 2 * time.Second},
		sources: sources{given: map[string]string{}, origin: map[string][]setting{}},
	}
	c.Engine.ID, c.Engine.PollInterval, c.Engine.LoadThreads = "triton", 15*time.Second, 4
	c.Engine.LoadTimeout = 30 * time.Minute
	c.GRPC.Keepalive = keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}
	c.GRPC.Enforcement.MinTime = 5 * time.Minute
	return c
}

// Load reads a command line over the environment, over the configuration file, over --edge, over the defaults. It
// completes and checks the result, and returns all faults at once. lookup reads the environment, as os.LookupEnv does.
func Load(asTriton bool, args []string, lookup func(string) (string, bool)) (*Config, error) {
	return read(Default(asTriton), args, lookup)
}

// LoadEmbedded is Load for a server inside another program, with tritonserver's answer to models that do not load.
func LoadEmbedded(args []string, lookup func(string) (string, bool)) (*Config, error) {
	c := Default(false)
	c.Embedded, c.ExitOnError, c.History.On, c.Requests.Record = true, true, false, false
	for _, e := range c.Listen.All() {
		e.On = false
	}
	c, err := read(c, args, lookup)
	for _, name := range notEmbedded {
		if _, ok := c.given[name]; ok {
			c.WithoutEffect = append(c.WithoutEffect, name)
		}
	}
	return c, err
}

// notEmbedded are the options without effect in a server inside another program, which uses no GPUs and has no service
// manager.
var notEmbedded = []string{
	"allow-gpu-metrics", "cuda-memory-pool-byte-size", "min-supported-compute-capability", "model-load-gpu-limit",
	"model-memory-budget-gpu", "pinned-memory-pool-byte-size", WatchdogModel,
}

// read is Load over the defaults in c.
func read(c *Config, args []string, lookup func(string) (string, bool)) (*Config, error) {
	byName := byName(c.table())
	line, help, lineErr := byName.scan(args, c.AsTriton)
	c.Help = help
	c.readEnvironment(lookup)
	for _, s := range line {
		if s.name == FileOption {
			c.file = s.value
		}
	}
	var file []setting
	var fileErr error
	if c.file != "" {
		file, fileErr = byName.readFile(c.file)
		file = notInEnvironment(byName.overridden(file, line), lookup)
	}
	c.again = func() (*Config, error) { return Load(c.AsTriton, args, lookup) }
	preset := byName.preset(slices.Concat(file, line))
	// In this order, because the later ones have precedence.
	err := errors.Join(fileErr, c.apply(byName, preset), c.apply(byName, file), c.readCloud(lookup), lineErr,
		c.apply(byName, line))
	if c.Help {
		return c, nil
	}
	return c, errors.Join(err, c.complete(lookup))
}

// environment lists the variables that set an option, by the name of the option.
var environment = map[string]string{
	FileOption: "NEREID_CONFIG", "data-dir": "NEREID_DATA_DIR", "onnxruntime-library": "NEREID_ONNXRUNTIME_LIBRARY",
}

// readEnvironment reads variables other than those of clouds.
func (c *Config) readEnvironment(lookup func(string) (string, bool)) {
	if v, ok := lookup("NEREID_TOKEN"); ok {
		c.Access.Token = strings.TrimSpace(v) // the file it was read from may end with a line break
	}
	if v, ok := lookup("TRITON_SERVER_ESCAPE_LOG_MESSAGES"); ok {
		escape, err := parseBool(v)
		c.Log.Raw = err == nil && !escape
	}
	for option, field := range map[string]*string{
		FileOption: &c.file, "data-dir": &c.DataDir, "onnxruntime-library": &c.Backends.ONNXRuntime.Library,
	} {
		if v, ok := lookup(environment[option]); ok && v != "" {
			*field = v
			c.origin[option] = []setting{{option, v, environment[option]}}
		}
	}
}

// notInEnvironment returns the settings of a file without those that a variable sets.
func notInEnvironment(file []setting, lookup func(string) (string, bool)) []setting {
	return slices.DeleteFunc(file, func(s setting) bool {
		v, ok := lookup(environment[s.name])
		return ok && v != ""
	})
}

// complete fills in what depends on other options, and checks what concerns several of them.
func (c *Config) complete(lookup func(string) (string, bool)) error {
	var errs []error
	fault := func(is bool, text string) {
		if is {
			errs = append(errs, errors.New(text))
		}
	}
	c.Listen.Complete()
	c.Listen.UI.OrFree = c.given["ui-port"] == "" // the GUI keeps no second server from starting
	if c.DataDir == "" {
		c.DefaultDataDir = true
		dir, err := DefaultDataDir(lookup)
		if !c.AsTriton && !c.Embedded { // which can do without a data folder
			errs = append(errs, err)
		}
		c.DataDir = dir
	}
	if c.RateLimit.On {
		c.Engine.RateLimiter = instance.NewLimiter(c.RateLimit.Resources)
	}
	if _, ok := c.given[allowClientShm]; !ok {
		c.LocalClientShm = true
		c.Engine.SharedMemory.Disabled = c.Listen.InferenceReachable()
	}
	e, all := &c.Engine, slices.Contains(c.Engine.StartupModels, "*")
	fault(len(e.StartupModels) > 0 && e.Mode != engine.ModeExplicit,
		"--load-model: works only with --model-control-mode=explicit")
	fault(all && len(e.StartupModels) > 1, "--load-model: * loads all models and cannot be given together with names")
	if e.PollInterval == 0 {
		e.PollInterval = -1 // Triton accepts 0, and looks at the repositories only at the start
	}
	t := c.Trace.Settings
	fault(t.Level != 0 && t.Rate == 0 && t.Mode == trace.ModeTriton,
		"--trace-config: rate=0 traces nothing in mode triton; say how many requests one in is traced")
	l := &c.Listen
	fault(!c.Embedded && !l.HTTP.On && !l.GRPC.On && !l.SageMaker.On && !l.VertexAI.On && !l.UI.On,
		"HTTP, gRPC and the GUI are all turned off: nothing could be asked of the server")
	fault(c.Listen.Kiosk.On && !c.Listen.HTTP.On,
		"--kiosk: visitors try models over HTTP; leave out --allow-http=false")
	errs = append(errs, c.checkTLS(), c.checkCloud(), c.checkCatalog(),
		c.Catalog.ModelMesh.check(c.Catalog.URL != nil), c.Listen.CheckPorts(c.Catalog.endpoints()...),
		checkPolicies(c.Engine.HostPolicies))
	return errors.Join(errs...)
}

// checkTLS reports which certificate files are missing. It notes those that have no effect.
func (c *Config) checkTLS() error {
	var errs []error
	for _, e := range []struct {
		prefix    string
		files     certs.Files
		own, used bool // by the endpoint itself, by any
	}{
		{"grpc", c.TLS.GRPC, c.Listen.GRPC.TLS, c.Listen.GRPC.TLS},
		{"http", c.TLS.HTTP, c.Listen.HTTP.TLS, c.Listen.HTTP.TLS || c.Listen.Metrics.TLS || c.Listen.UI.TLS},
	} {
		need := func(option, file, why string) {
			if file == "" {
				errs = append(errs, fmt.Errorf("--%s-%s is missing: %s needs it", e.prefix, option, why))
			}
		}
		idle := func(option, file, without string) {
			if file != "" {
				c.WithoutEffect = append(c.WithoutEffect, fmt.Sprintf("%s-%s (without --%s-%s)", e.prefix, option,
					e.prefix, without))
			}
		}
		why := "--" + e.prefix + "-use-ssl"
		if !e.own {
			why = "TLS of the metrics or the GUI"
		} else if e.files.Mutual {
			why += "-mutual"
		}
		if e.used {
			need("server-cert", e.files.Cert, why)
			need("server-key", e.files.Key, why)
		} else {
			idle("server-cert", e.files.Cert, "use-ssl")
			idle("server-key", e.files.Key, "use-ssl")
		}
		if e.files.Mutual {
			need("root-cert", e.files.Root, "--"+e.prefix+"-use-ssl-mutual")
		} else {
			idle("root-cert", e.files.Root, "use-ssl-mutual")
		}
	}
	return errors.Join(errs...)
}

// DefaultDataDir is the data folder of a user who chooses none.
func DefaultDataDir(lookup func(string) (string, bool)) (string, error) {
	if dir, ok := lookup("XDG_DATA_HOME"); ok && dir != "" {
		return filepath.Join(dir, "nereid"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("cannot tell where to keep data: %w; say --data-dir=<folder>", err)
	}
	return filepath.Join(home, ".local", "share", "nereid"), nil
}

// CommandDataDir is the data folder of a command: the one that was given, or else the server's.
func CommandDataDir(given string, lookup func(string) (string, bool)) (string, error) {
	if dir, ok := lookup("NEREID_DATA_DIR"); ok && given == "" {
		given = dir
	}
	if given == "" {
		return DefaultDataDir(lookup)
	}
	return given, nil
}
