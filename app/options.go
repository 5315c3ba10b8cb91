package app

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nereid/engine/backend/onnxruntime"
	"nereid/engine/backend/runtime"
	"nereid/engine/grpcapi"
	"nereid/engine/restrict"
)

const maxInt = 1<<31 - 1

// options lists every option: tritonserver's by its own names, then ours.
func options() []option {
	var all []option
	for _, part := range [][]option{serverOptions(), modelOptions(), logOptions(), httpOptions(), grpcOptions(), cloudOptions(),
		metricsOptions(), traceOptions(), backendOptions(), memoryOptions(), deprecatedOptions(), secureOptions(), ourOptions()} {
		all = append(all, part...)
	}
	return all
}

func serverOptions() []option {
	const g = "Server"
	return []option{
		{names: []string{"help"}, group: g, flag: true, row: "H006", help: "Prints this text.",
			set: func(c *Config, _ string) error { c.Help = true; return nil }},
		{names: []string{"id"}, group: g, arg: "string", row: "H007", help: "The server's name in its metadata. Default: triton.",
			set: text(func(c *Config) *string { return &c.ID })},
		{names: []string{"exit-timeout-secs"}, group: g, arg: "integer", row: "H008",
			help: "How many seconds requests may take to finish when the server stops. Default: 30.",
			set:  integer(0, maxInt, func(c *Config) *int { return &c.ExitTimeout })},
		{names: []string{"exit-on-error"}, group: g, arg: "boolean", row: "H010",
			help: "Stops the server when a model fails to load at start. Default: false; true under the name tritonserver.",
			set:  boolean(func(c *Config) *bool { return &c.ExitOnError })},
		{names: []string{"strict-readiness"}, group: g, arg: "boolean", row: "H012",
			help: "Ready only if every model is. Default: true.", set: boolean(func(c *Config) *bool { return &c.StrictReadiness })},
	}
}

func modelOptions() []option {
	const g = "Models"
	return []option{
		{names: []string{"model-repository", "model-store"}, group: g, arg: "path", row: "H009",
			help: "A model repository: a folder of model folders, or one in s3://, gs:// or as://. May be given several times; relative paths are fine.",
			set:  list(func(c *Config) *[]string { return &c.Repositories })},
		{names: []string{"model-control-mode"}, group: g, arg: "none|poll|explicit", row: "H013",
			help: "none: all models at start. poll: follow the repositories. explicit: what load requests say. Default: none.",
			set:  text(func(c *Config) *string { return &c.ControlMode })},
		{names: []string{"repository-poll-secs"}, group: g, arg: "integer", row: "H014",
			help: "Seconds between looks at the repositories in poll mode; changes that the file system tells of are found at once. Default: 15.",
			set:  integer(0, 1<<20, func(c *Config) *int { return &c.PollSecs })},
		{names: []string{"load-model"}, group: g, arg: "name", row: "H015",
			help: "A model to load at start in explicit mode; * loads all. May be given several times.",
			set:  list(func(c *Config) *[]string { return &c.LoadModels })},
		{names: []string{"model-config-name"}, group: g, arg: "name", row: "H016",
			help: "Uses configs/<name>.pbtxt of a model in place of config.pbtxt where it is there.",
			set:  text(func(c *Config) *string { return &c.ConfigName })},
		{names: []string{"disable-auto-complete-config"}, group: g, flag: true, row: "H011",
			help: "Refuses models whose configuration is not complete.",
			set:  func(c *Config, _ string) error { c.DisableAutoComplete = true; return nil }},
		{names: []string{"model-load-thread-count"}, group: g, arg: "integer", row: "H017",
			help: "How many models load at once. Default: 4.", set: integer(1, 1024, func(c *Config) *int { return &c.LoadThreads })},
		{names: []string{"model-load-retry-count"}, group: g, arg: "integer", row: "H018",
			help: "How often a load that failed is tried again at once. A failed model is retried when its files change, too. Default: 0.",
			set:  integer(0, 1000, func(c *Config) *int { return &c.LoadRetries })},
		{names: []string{"model-memory-budget"}, group: g, class: ours, arg: "bytes",
			help: "How much of the machine's memory models may take, such as 8GiB. Those that do not fit are loaded by their next request, and the one used longest ago leaves. Default: no bound.",
			set:  func(c *Config, v string) (err error) { c.Residency.Host, err = parseBytes(v); return err }},
		{names: []string{"model-memory-budget-gpu"}, group: g, class: ours, arg: "gpu:bytes",
			help: "The same for the memory of one GPU, such as 0:20GiB; may be given for several.", set: gpuBudget},
		{names: []string{"model-idle-unload-secs"}, group: g, class: ours, arg: "seconds",
			help: "After how long without a request a model leaves memory; its next request loads it. Default: 0, never.",
			set:  seconds(func(c *Config) *time.Duration { return &c.Residency.Idle })},
		{names: []string{"model-reload-policy"}, group: g, class: ours, arg: "policy",
			help: "availability_first: a version serves until its successor is ready. resources_first: it gives its memory back before, and requests wait. Default: availability_first.",
			set:  reloadPolicy},
		{names: []string{"model-namespacing"}, group: g, arg: "boolean", row: "H019",
			help: "Lets repositories have models of the same name: a request whose name several have is refused, an ensemble runs its own repository's. Default: false.",
			set:  boolean(func(c *Config) *bool { return &c.Namespaces })},
		{names: []string{"enable-peer-access"}, group: g, arg: "boolean", class: noEffect, row: "H020",
			help: "GPU peer access.", set: ignored(anyBool)},
	}
}

func logOptions() []option {
	const g = "Logging"
	return []option{
		{names: []string{"log-verbose"}, group: g, arg: "integer", row: "H021", help: "Verbose messages: 0 or false for none. Default: 0.",
			set: func(c *Config, v string) error {
				if b, err := parseBool(v); err == nil {
					c.LogVerbose = 0
					if b {
						c.LogVerbose = 1
					}
					return nil
				}
				return integer(0, maxInt, func(c *Config) *int { return &c.LogVerbose })(c, v)
			}},
		{names: []string{"log-info"}, group: g, arg: "boolean", row: "H022", help: "Information messages. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.LogInfo })},
		{names: []string{"log-warning"}, group: g, arg: "boolean", row: "H023", help: "Warnings. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.LogWarn })},
		{names: []string{"log-error"}, group: g, arg: "boolean", row: "H024", help: "Errors. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.LogError })},
		{names: []string{"log-format"}, group: g, arg: "default|ISO8601", row: "H025", help: "The form of the time. Default: default.",
			set: text(func(c *Config) *string { return &c.LogFormat })},
		{names: []string{"log-file"}, group: g, arg: "path", row: "H026", help: "Appends the log to a file. Default: standard error.",
			set: text(func(c *Config) *string { return &c.LogFile })},
	}
}

func port(field func(*Config) *int) func(*Config, string) error { return integer(0, 65535, field) }

func httpOptions() []option {
	const g = "HTTP"
	return []option{
		{names: []string{"allow-http"}, group: g, arg: "boolean", row: "H027", help: "Serves HTTP. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.AllowHTTP })},
		{names: []string{"http-address"}, group: g, arg: "address", row: "H028",
			help: "Default: 127.0.0.1; 0.0.0.0 under the name tritonserver. An address that others can reach needs a token or --allow-anonymous.",
			set:  text(func(c *Config) *string { return &c.HTTPAddress })},
		{names: []string{"http-port"}, group: g, arg: "port", row: "H029", help: "Default: 8000. 0 takes a free one.",
			set: port(func(c *Config) *int { return &c.HTTPPort })},
		{names: []string{"reuse-http-port"}, group: g, arg: "boolean", row: "H030",
			help: "Shares the port with other servers of the same user that say so too; the kernel spreads the connections. Default: false.",
			set:  sharedPort(func(c *Config) *bool { return &c.ReuseHTTPPort })},
		{names: []string{"http-header-forward-pattern"}, group: g, arg: "regex", row: "H031",
			help: "Headers whose names this finds itself in become parameters of inference requests, as strings. Case does not count; (?-i) makes it.",
			set:  headerPattern(func(c *Config) **regexp.Regexp { return &c.HTTPForward })},
		{names: []string{"http-thread-count"}, group: g, arg: "integer", class: noEffect, row: "H032",
			help: "Every connection has its own goroutine.", set: ignored(anyInt)},
		{names: []string{"http-max-input-size"}, group: g, arg: "bytes", row: "H033",
			help: "The largest request body, as sent and decompressed. Default: 67108864.",
			set:  integer(1, 1<<46, func(c *Config) *int { return &c.HTTPMaxInput })},
		{names: []string{"http-restricted-api"}, group: g, arg: "groups:key=value", row: "H034",
			help: "Serves groups of endpoints (health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging; " +
				"several with commas) only to requests with the header key: value. May be given several times.",
			set: restriction("", func(c *Config) **restrict.Rules { return &c.HTTPRestricted })},
	}
}

// headerPattern reads a pattern that header names are looked up with. As in Triton, it finds itself anywhere in a name
// and case does not count.
func headerPattern(field func(*Config) **regexp.Regexp) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		*field(c) = nil
		if v != "" {
			if *field(c), err = regexp.Compile("(?i)" + v); err != nil {
				return fmt.Errorf("%q is no regular expression: %w", v, err)
			}
		}
		return nil
	}
}

// restriction reads one rule that guards groups of calls with a header.
func restriction(prefix string, field func(*Config) **restrict.Rules) func(*Config, string) error {
	return func(c *Config, v string) error {
		f := field(c)
		if *f == nil {
			*f = &restrict.Rules{}
		}
		if prefix != "" { // metadata keys are in small letters on the wire
			groups, rule, _ := strings.Cut(v, ":")
			key, value, ok := strings.Cut(rule, "=")
			if ok {
				v = groups + ":" + strings.ToLower(key) + "=" + value
			}
		}
		return (*f).Add(v, prefix)
	}
}

func grpcOptions() []option {
	const g = "gRPC"
	return []option{
		{names: []string{"allow-grpc"}, group: g, arg: "boolean", row: "H035", help: "Serves gRPC. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.AllowGRPC })},
		{names: []string{"grpc-address"}, group: g, arg: "address", row: "H036", help: "As --http-address.",
			set: text(func(c *Config) *string { return &c.GRPCAddress })},
		{names: []string{"grpc-port"}, group: g, arg: "port", row: "H037", help: "Default: 8001. 0 takes a free one.",
			set: port(func(c *Config) *int { return &c.GRPCPort })},
		{names: []string{"reuse-grpc-port"}, group: g, arg: "boolean", row: "H038",
			help: "As --reuse-http-port.", set: sharedPort(func(c *Config) *bool { return &c.ReuseGRPCPort })},
		{names: []string{"grpc-header-forward-pattern"}, group: g, arg: "regex", row: "H039",
			help: "As --http-header-forward-pattern, for metadata.",
			set:  headerPattern(func(c *Config) **regexp.Regexp { return &c.GRPCForward })},
		{names: []string{"grpc-infer-thread-count"}, group: g, arg: "integer", class: noEffect, row: "H040", help: "Threads.", set: ignored(anyInt)},
		{names: []string{"grpc-infer-allocation-pool-size"}, group: g, arg: "integer", class: noEffect, row: "H041", help: "A pool size.", set: ignored(anyInt)},
		{names: []string{"grpc-max-response-pool-size"}, group: g, arg: "integer", class: noEffect, row: "H042", help: "A pool size.", set: ignored(anyInt)},
		{names: []string{"grpc-use-ssl"}, group: g, arg: "boolean", row: "H043", help: "TLS 1.2 or newer. Default: false.",
			set: boolean(func(c *Config) *bool { return &c.GRPCTLS.Use })},
		{names: []string{"grpc-use-ssl-mutual"}, group: g, arg: "boolean", row: "H044", help: "TLS, and clients must show a certificate. Default: false.",
			set: mutual(func(c *Config) *TLSFiles { return &c.GRPCTLS })},
		{names: []string{"grpc-server-cert"}, group: g, arg: "path", row: "H045", help: "The certificate with its chain, PEM. Renewed files are used without a restart.",
			set: text(func(c *Config) *string { return &c.GRPCTLS.Cert })},
		{names: []string{"grpc-server-key"}, group: g, arg: "path", row: "H045", help: "Its private key, PEM.",
			set: text(func(c *Config) *string { return &c.GRPCTLS.Key })},
		{names: []string{"grpc-root-cert"}, group: g, arg: "path", row: "H045", help: "The authorities of clients' certificates, PEM.",
			set: text(func(c *Config) *string { return &c.GRPCTLS.Root })},
		{names: []string{"grpc-infer-response-compression-level"}, group: g, arg: "none|low|medium|high", row: "H046",
			help: "Compresses the responses of inferences with gzip for clients that take it; the levels above none are the same here. Default: none.",
			set:  text(func(c *Config) *string { return &c.GRPCCompression })},
		{names: []string{"grpc-keepalive-time"}, group: g, arg: "ms", row: "H047", help: "Default: 7200000.",
			set: integer(1, maxInt, func(c *Config) *int { return &c.KeepaliveTime })},
		{names: []string{"grpc-keepalive-timeout"}, group: g, arg: "ms", row: "H048", help: "Default: 20000.",
			set: integer(1, maxInt, func(c *Config) *int { return &c.KeepaliveTimeout })},
		{names: []string{"grpc-keepalive-permit-without-calls"}, group: g, arg: "boolean", row: "H049", help: "Default: false.",
			set: boolean(func(c *Config) *bool { return &c.KeepaliveWithoutCalls })},
		{names: []string{"grpc-http2-max-pings-without-data"}, group: g, arg: "integer", class: noEffect, row: "H050", help: "A limit on the server's own pings.", set: ignored(anyInt)},
		{names: []string{"grpc-http2-min-recv-ping-interval-without-data"}, group: g, arg: "ms", row: "H051", help: "Default: 300000.",
			set: integer(0, maxInt, func(c *Config) *int { return &c.MinPingInterval })},
		{names: []string{"grpc-http2-max-ping-strikes"}, group: g, arg: "integer", class: noEffect, row: "H052", help: "It is 2.", set: ignored(anyInt)},
		{names: []string{"grpc-max-connection-age"}, group: g, arg: "ms", row: "H053", help: "Default: no limit.",
			set: integer(0, maxInt, func(c *Config) *int { return &c.MaxConnectionAge })},
		{names: []string{"grpc-max-connection-age-grace"}, group: g, arg: "ms", row: "H054", help: "Default: no limit.",
			set: integer(0, maxInt, func(c *Config) *int { return &c.MaxConnectionAgeGrace })},
		{names: []string{"grpc-restricted-protocol"}, group: g, arg: "groups:key=value", row: "H055",
			help: "As --http-restricted-api; the metadata key has triton-grpc-protocol- before it.",
			set:  restriction(grpcapi.RestrictedPrefix, func(c *Config) **restrict.Rules { return &c.GRPCRestricted })},
	}
}

func cloudOptions() []option {
	const g = "SageMaker and Vertex AI"
	return []option{
		{names: []string{"allow-sagemaker"}, group: g, arg: "boolean", row: "H056",
			help: "Serves Amazon SageMaker's /ping and /invocations, and /models with --model-control-mode=explicit, at --http-address. Default: false.",
			set:  boolean(func(c *Config) *bool { return &c.AllowSageMaker })},
		{names: []string{"sagemaker-port"}, group: g, arg: "port", row: "H057", help: "Default: 8080.", set: port(func(c *Config) *int { return &c.SageMakerPort })},
		{names: []string{"sagemaker-safe-port-range"}, group: g, arg: "low-high", row: "H058", help: "Where the ports of the other services must lie beside SageMaker's. Default: anywhere.",
			set: portRange},
		{names: []string{"sagemaker-thread-count"}, group: g, arg: "integer", class: noEffect, row: "H059", help: "Every connection has its own goroutine.", set: ignored(anyInt)},
		{names: []string{"allow-vertex-ai"}, group: g, arg: "boolean", row: "H060",
			help: "Serves Google Vertex AI's routes, AIP_PREDICT_ROUTE and AIP_HEALTH_ROUTE, at --http-address. Default: false; true if AIP_MODE is PREDICTION, and HTTP and gRPC are off then.",
			set:  boolean(func(c *Config) *bool { return &c.AllowVertexAI })},
		{names: []string{"vertex-ai-port"}, group: g, arg: "port", row: "H061", help: "Default: AIP_HTTP_PORT, else 8080.", set: port(func(c *Config) *int { return &c.VertexAIPort })},
		{names: []string{"vertex-ai-thread-count"}, group: g, arg: "integer", class: noEffect, row: "H062", help: "Every connection has its own goroutine.", set: ignored(anyInt)},
		{names: []string{"vertex-ai-default-model"}, group: g, arg: "name", row: "H063", help: "The model of predictions. Default: the only one.",
			set: text(func(c *Config) *string { return &c.VertexAIModel })},
	}
}

func metricsOptions() []option {
	const g = "Metrics"
	return []option{
		{names: []string{"allow-metrics"}, group: g, arg: "boolean", row: "H064", help: "Serves Prometheus metrics. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.AllowMetrics })},
		{names: []string{"allow-gpu-metrics"}, group: g, arg: "boolean", row: "H065", help: "GPU metrics, where there are GPUs. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.AllowGPUMetrics })},
		{names: []string{"allow-cpu-metrics"}, group: g, arg: "boolean", row: "H066", help: "CPU and memory metrics. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.AllowCPUMetrics })},
		{names: []string{"metrics-address"}, group: g, arg: "address", row: "H067", help: "Default: that of HTTP.",
			set: text(func(c *Config) *string { return &c.MetricsAddress })},
		{names: []string{"metrics-port"}, group: g, arg: "port", row: "H068", help: "Default: 8002. 0 takes a free one.",
			set: port(func(c *Config) *int { return &c.MetricsPort })},
		{names: []string{"metrics-interval-ms"}, group: g, arg: "ms", row: "H069", help: "How old CPU figures may be. Default: 2000.",
			set: integer(1, maxInt, func(c *Config) *int { return &c.MetricsIntervalMs })},
		{names: []string{"metrics-config"}, group: g, arg: "setting=value", row: "H070",
			help: "Which latency metrics there are: counter_latencies (default: true), histogram_latencies (false), summary_latencies (false), " +
				"summary_quantiles=<quantile>:<error>,... (0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001). May be given several times.",
			set: setMetrics},
	}
}

func backendOptions() []option {
	const g = "Backends"
	return []option{
		{names: []string{"backend-directory"}, group: g, arg: "path", row: "H072",
			help: "A folder of backends written in Python, each a folder with a model.py. The others are built in.", set: text(func(c *Config) *string { return &c.BackendDirectory })},
		{names: []string{"backend-config"}, group: g, arg: "[backend,]key=value", row: "H073",
			help: "A setting for a backend, or for all: default-max-batch-size, backend-directory, min-compute-capability, auto-complete-config, model-load-gpu-limit-device-<gpu>; onnxruntime,enable-global-threadpool, intra_op_thread_count, inter_op_thread_count, op-library-directory, optimized-model-cache; tensorflow,library, op-library-directory, allow-soft-placement, gpu-memory-fraction; openvino,library. May be given several times.",
			set:  backendConfig},
		{names: []string{"repoagent-directory"}, group: g, arg: "path", class: noEffect, row: "H074", help: "The repository agents are built in; libraries of Triton's agent interface are not loaded.", set: ignored(anyText)},
		{names: []string{"cache-config"}, group: g, arg: "cache,key=value", row: "H075",
			help: "The response cache of the models that ask for one in their configuration: local,size=<bytes>, or redis with host, port, user, password, db, connect_timeout, socket_timeout, pool_size, wait_timeout, tls_enabled, cert, key, cacert, cacert_dir, sni (several times). Default: none.", set: cacheConfig},
		{names: []string{"cache-directory"}, group: g, arg: "path", class: noEffect, row: "H076", help: "Caches are built in.", set: ignored(anyText)},
		{names: []string{"rate-limit"}, group: g, arg: "off|execution_count", row: "H077",
			help: "execution_count: instances wait for the resources of their rate_limiter, by priority. Default: off.", set: rateLimit},
		{names: []string{"rate-limit-resource"}, group: g, arg: "name:count[:device]", row: "H078",
			help: "How much of a resource there is, on every device, on one, or with the device global. Default: as much as the neediest instance takes. May be given several times.",
			set:  rateLimitResource},
	}
}

func backendConfig(c *Config, v string) error {
	name, setting, ok := strings.Cut(v, ",")
	if !ok {
		name, setting = "", v
	}
	key, value, ok := strings.Cut(setting, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not of the form [backend,]key=value", v)
	}
	if key == "default-max-batch-size" {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a batch size", value)
		}
		if c.DefaultMaxBatchSizes == nil {
			c.DefaultMaxBatchSizes = map[string]int{}
		}
		c.DefaultMaxBatchSizes[name] = n
		return nil
	}
	switch name {
	case "":
		return globalBackendConfig(c, key, value)
	case "onnxruntime":
		if err := c.ONNXRuntime.Set(key, value); !errors.Is(err, onnxruntime.ErrUnknownSetting) {
			return err
		}
	case "python":
		return c.setPython(key, value)
	}
	if runtime.Known(name, key) {
		return c.setFramework(name, key, value)
	}
	c.WithoutEffect = append(c.WithoutEffect, "backend-config "+name+","+key)
	return nil
}

// gpuLimitPrefix begins the name that --model-load-gpu-limit has among the settings of all backends.
const gpuLimitPrefix = "model-load-gpu-limit-device-"

// globalBackendConfig takes a setting of all backends, most of which have an option of their own too. Source of the names:
// Triton's core, src/backend_config.cc.
func globalBackendConfig(c *Config, key, value string) error {
	switch key {
	case "backend-directory":
		c.BackendDirectory = value
		return nil
	case "min-compute-capability":
		return minCapability(c, value)
	case "auto-complete-config":
		complete, err := parseBool(value)
		c.DisableAutoComplete = !complete
		return err
	}
	if gpu, ok := strings.CutPrefix(key, gpuLimitPrefix); ok {
		return gpuLimit(c, gpu+":"+value)
	}
	c.WithoutEffect = append(c.WithoutEffect, "backend-config "+key)
	return nil
}

func memoryOptions() []option {
	const g = "Memory and placement"
	return []option{
		{names: []string{"pinned-memory-pool-byte-size"}, group: g, arg: "bytes", row: "H079",
			help: "Page-locked host memory in which models on GPUs gather inputs and take outputs. It is allocated with the first need; what does not fit goes through ordinary memory. " +
				"0: none. Default: 268435456.", set: pinnedBytes},
		{names: []string{"cuda-memory-pool-byte-size"}, group: g, arg: "gpu:bytes", row: "H080",
			help: "Memory on a GPU in which inputs from clients' CUDA regions are put together to batches. It is allocated with the first need; what does not fit goes through " +
				"the host. What models compute in is not of it: that bounds gpu_mem_limit per model. Default: 67108864 on each GPU. May be given several times.", set: cudaBytes},
		{names: []string{"cuda-virtual-address-size"}, group: g, arg: "gpu:bytes", class: noEffect, row: "H081",
			help: "States of sequences are kept in host memory, which grows as they do.", set: ignored(gpuBytes)},
		{names: []string{"min-supported-compute-capability"}, group: g, arg: "number", row: "H082",
			help: "GPUs below this CUDA compute capability are left alone. Default: 6.0.", set: minCapability},
		{names: []string{"buffer-manager-thread-count"}, group: g, arg: "integer", class: noEffect, row: "H083", help: "Threads.", set: ignored(anyInt)},
		{names: []string{"host-policy"}, group: g, arg: "policy,key=value", row: "H084",
			help: "What instances of groups of that host_policy keep to: cpu-cores=<cores and ranges, such as 0-3,8> or numa-node=<number>, for memory. " +
				"The policies cpu, model and gpu_<id> are those of groups that name none. May be given several times.",
			set: hostPolicy},
		{names: []string{"model-load-gpu-limit"}, group: g, arg: "gpu:fraction", row: "H085",
			help: "No model is loaded onto a GPU of whose memory more than this fraction is in use. May be given several times.", set: gpuLimit},
		{names: []string{allowClientShm}, group: g, arg: "boolean", row: "H086",
			help: "Lets clients share memory with the server. Default: true while HTTP and gRPC listen on loopback addresses only, else false.",
			set:  boolean(func(c *Config) *bool { return &c.AllowClientShm })},
	}
}

func deprecatedOptions() []option {
	const g = "Deprecated"
	return []option{
		{names: []string{"strict-model-config"}, group: g, arg: "boolean", row: "H087", help: "true is --disable-auto-complete-config.",
			set: boolean(func(c *Config) *bool { return &c.DisableAutoComplete })},
		{names: []string{"response-cache-byte-size"}, group: g, arg: "bytes", row: "H088", help: "Old form of --cache-config=local,size; 0 for none.",
			set: responseCacheSize},
	}
}

// origins reads web sites as browsers name them: scheme, host and port, nothing behind them.
func origins(c *Config, v string) error {
	for o := range strings.SplitSeq(v, ",") {
		o = strings.TrimSpace(o)
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme == "" || u.Scheme+"://"+u.Host != o {
			return fmt.Errorf("%q is not the origin of a web site; write it as https://app.example or http://localhost:3000 (there is no wildcard)", o)
		}
		if strings.Contains(u.Host, "*") {
			return fmt.Errorf("%q: there is no wildcard; name each site", o)
		}
		c.AllowedOrigins = append(c.AllowedOrigins, o)
	}
	return nil
}

// mutual is Triton's switch for mutual TLS: whatever its value, it turns TLS on.
func mutual(field func(*Config) *TLSFiles) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		f := field(c)
		f.Mutual, err = parseBool(v)
		f.Use = f.Use || err == nil
		return err
	}
}

// secureOptions are ours: tritonserver has TLS on gRPC only.
func secureOptions() []option {
	const g = "TLS"
	return []option{
		{names: []string{"http-use-ssl"}, group: g, class: ours, arg: "boolean", row: "B043", help: "HTTPS, TLS 1.2 or newer. Default: false.",
			set: boolean(func(c *Config) *bool { return &c.HTTPTLS.Use })},
		{names: []string{"http-use-ssl-mutual"}, group: g, class: ours, arg: "boolean", row: "B043", help: "HTTPS, and clients must show a certificate. Default: false.",
			set: mutual(func(c *Config) *TLSFiles { return &c.HTTPTLS })},
		{names: []string{"http-server-cert"}, group: g, class: ours, arg: "path", row: "B043", help: "The certificate with its chain, PEM. Renewed files are used without a restart.",
			set: text(func(c *Config) *string { return &c.HTTPTLS.Cert })},
		{names: []string{"http-server-key"}, group: g, class: ours, arg: "path", row: "B043", help: "Its private key, PEM.",
			set: text(func(c *Config) *string { return &c.HTTPTLS.Key })},
		{names: []string{"http-root-cert"}, group: g, class: ours, arg: "path", row: "B043", help: "The authorities of clients' certificates, PEM.",
			set: text(func(c *Config) *string { return &c.HTTPTLS.Root })},
		{names: []string{"metrics-use-ssl"}, group: g, class: ours, arg: "boolean", row: "B043",
			help: "Metrics over HTTPS with the files of HTTP, mutual if that is. Default: false.", set: boolean(func(c *Config) *bool { return &c.MetricsSSL })},
		{names: []string{"ui-use-ssl"}, group: g, class: ours, arg: "boolean", row: "B043",
			help: "The GUI over HTTPS with the files of HTTP; browsers are not asked for a certificate. Default: false.", set: boolean(func(c *Config) *bool { return &c.UISSL })},
	}
}

func ourOptions() []option {
	const g = "Nereid"
	return []option{
		{names: []string{"allow-ui"}, group: g, class: ours, arg: "boolean", help: "Serves the GUI. Default: true.",
			set: boolean(func(c *Config) *bool { return &c.AllowUI })},
		{names: []string{"ui-address"}, group: g, class: ours, arg: "address", help: "A loopback address. Default: 127.0.0.1.",
			set: text(func(c *Config) *string { return &c.UIAddress })},
		{names: []string{"ui-port"}, group: g, class: ours, arg: "port", help: "Default: 8003. 0 takes a free one.",
			set: port(func(c *Config) *int { return &c.UIPort })},
		{names: []string{"open"}, group: g, class: ours, flag: true, help: "Opens the GUI in the browser.",
			set: func(c *Config, _ string) error { c.OpenBrowser = true; return nil }},
		{names: []string{"history"}, group: g, class: ours, arg: "boolean",
			help: "Records what happens second by second into the data folder. Default: true.",
			set:  boolean(func(c *Config) *bool { return &c.History })},
		{names: []string{"data-dir"}, group: g, class: ours, arg: "path",
			help: "Where everything is kept: history, revisions, trash, the first repository. Default: NEREID_DATA_DIR, else ~/.local/share/nereid.",
			set:  text(func(c *Config) *string { return &c.DataDir })},
		{names: []string{"allow-anonymous"}, group: g, class: ours, flag: true,
			help: "Serves everybody who can reach the address, without a token.",
			set:  func(c *Config, _ string) error { c.AllowAnonymous = true; return nil }},
		{names: []string{"allowed-hosts"}, group: g, class: ours, arg: "name[,name...]",
			help: "Host names that requests may be addressed to besides addresses and localhost, as behind a gateway; * for any.",
			set: func(c *Config, v string) error {
				for h := range strings.SplitSeq(v, ",") {
					if h = strings.TrimSpace(h); h != "" {
						c.AllowedHosts = append(c.AllowedHosts, h)
					}
				}
				return nil
			}},
		{names: []string{"http-allowed-origins"}, group: g, class: ours, arg: "origin[,origin...]",
			help: "Web sites, such as https://app.example, whose pages may use the server from a browser (CORS). Default: none.",
			set:  origins},
		{names: []string{"allow-kserve-v1"}, group: g, class: ours, arg: "boolean",
			help: "Serves KServe's v1 protocol, which is TensorFlow Serving's REST API, below /v1/models on the HTTP port. Default: false.",
			set:  boolean(func(c *Config) *bool { return &c.HTTPV1 })},
		{names: []string{"grpc-reflection"}, group: g, class: ours, arg: "boolean",
			help: "Serves gRPC server reflection, which tools such as grpcurl ask for. Default: false.",
			set:  boolean(func(c *Config) *bool { return &c.GRPCReflection })},
		{names: []string{"http-base-path"}, group: g, class: ours, arg: "/path", help: "What a gateway puts before /v2; requests without it are served too.",
			set: func(c *Config, v string) error {
				if v != "" && !strings.HasPrefix(v, "/") {
					return fmt.Errorf("%q does not begin with a slash", v)
				}
				c.HTTPBasePath = v
				return nil
			}},
		{names: []string{"client-shm-direct"}, group: g, class: ours, arg: "boolean",
			help: "Uses inputs where they lie in clients' shared memory, without a copy. A client that shrinks such memory while a request uses it ends the server. Default: false.",
			set:  boolean(func(c *Config) *bool { return &c.ClientShmDirect })},
		{names: []string{"onnxruntime-library"}, group: g, class: ours, arg: "path",
			help: "libonnxruntime to use in place of the built-in one, or the folder that it is in: for GPUs one made by pip install --target=<folder> \"onnxruntime-gpu[cuda,cudnn]\". Default: NEREID_ONNXRUNTIME_LIBRARY, then <data-dir>/runtime/onnxruntime.",
			set:  text(func(c *Config) *string { return &c.ONNXRuntimeLibrary })},
		{names: []string{"python-requirements"}, group: g, class: ours, arg: "file",
			help: "A requirements.txt for the Python models that bring no environment of their own; it is installed once, into an environment under --data-dir. Default: none.",
			set:  text(func(c *Config) *string { return &c.PythonRequirements })},
	}
}
