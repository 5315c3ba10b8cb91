package options

import (
	"time"

	"nereid/engine/grpcapi"
	"nereid/engine/lifecycle"
)

// table is every option, by group: first tritonserver's, in the order of its own usage text, then ours. The setters
// store into c.
func (c *Config) table() []group {
	return []group{
		{"Server", c.serverOptions()}, {"Models", c.modelOptions()}, {"Logging", c.logOptions()},
		{"HTTP", c.httpOptions()}, {"gRPC", c.grpcOptions()}, {"SageMaker and Vertex AI", c.cloudOptions()},
		{"Metrics", c.metricsOptions()}, {"Tracing", c.traceOptions()}, {"Backends", c.backendOptions()},
		{"Memory and placement", c.memoryOptions()}, {"Deprecated", c.deprecatedOptions()}, {"TLS", c.tlsOptions()},
		{"Nereid", c.ownOptions()}, {"Public page", c.kioskOptions()}, {"Catalog", c.catalogOptions()},
		{"ModelMesh", c.Catalog.ModelMesh.options()},
		{"Service", c.serviceOptions()},
	}
}

const allowClientShm = "allow-client-shm"

// WatchdogModel is the option of the model that the watchdog asks.
const WatchdogModel = "watchdog-model"

func (c *Config) serverOptions() []option {
	return []option{
		opt("help", "", "Prints this text.", flag(&c.Help)),
		opt("id", "string", "The server's name in its metadata. Default: triton.", text(&c.Engine.ID)),
		opt("exit-timeout-secs", "integer",
			"How many seconds the server may take to stop. Requests may finish until two seconds before, or until a "+
				"tenth before if that is less. Default: 30.",
			duration(0, maxInt, time.Second, &c.ExitTimeout)),
		opt("exit-on-error", "boolean",
			"Stops the server when a model fails to load at start. Default: false; true under the name tritonserver.",
			boolean(&c.ExitOnError)),
		opt("strict-readiness", "boolean",
			"Ready only if every model is. Default: true.", not(&c.Engine.LooseReadiness)),
	}
}

func (c *Config) modelOptions() []option {
	e := &c.Engine
	return []option{
		opt("model-repository model-store", "path",
			"A model repository: a folder of model folders, or one in s3://, gs://, as:// or hdfs://. May be given "+
				"several times; relative paths are fine.", list(&e.Repositories)),
		opt("model-control-mode", "none|poll|explicit",
			"none: all models at start. poll: follow the repositories. explicit: load requests decide. Default: "+
				"none; poll if only the data folder's models are served.", choice(&e.Mode, "none", "poll", "explicit")),
		opt("repository-poll-secs", "integer",
			"Seconds between looks at the repositories in poll mode; changes that the file system reports are found "+
				"at once. 0: changes are not looked for. Default: 15.",
			duration(0, 1<<20, time.Second, &e.PollInterval)),
		opt("load-model", "name",
			"A model to load at start in explicit mode; * loads all. May be given several times.",
			list(&e.StartupModels)),
		opt("model-config-name", "name",
			"Uses configs/<name>.pbtxt of a model instead of config.pbtxt, if it exists.", fileName(&e.ConfigName)),
		opt("disable-auto-complete-config", "",
			"Refuses models with an incomplete configuration; a Python model's is taken as it is.",
			flag(&e.DisableAutoComplete)),
		opt("model-load-thread-count", "integer",
			"How many models load at once. Default: 4.", integer(1, 1024, &e.LoadThreads)),
		opt("model-load-timeout-secs", "integer",
			"How many seconds the load of a model may take, with its download and its environment. Then it is "+
				"cancelled. 0: no limit. Default: 1800.", duration(0, 1<<30, time.Second, &e.LoadTimeout)),
		opt("model-load-retry-count", "integer",
			"How often a failed load is retried at once. A failed model is also retried when its files change. "+
				"Default: 0.", integer(0, 1000, &e.LoadRetries)),
		opt("model-memory-budget", "bytes",
			"How much of the machine's memory models may use, such as 8GiB. A model that does not fit is loaded by "+
				"its next request; the least recently used model is evicted for it. Default: no bound.",
			size(&e.Residency.Host)),
		opt("model-memory-budget-gpu", "gpu:bytes",
			"The same for the memory of one GPU, such as 0:20GiB. May be given for several GPUs.",
			byGPU(&e.Residency.GPU, "gpu:bytes, such as 0:20GiB", parseSize)),
		opt("model-idle-unload-secs", "seconds",
			"A model that gets no request for this long is evicted from memory; its next request loads it. Default: "+
				"0, never.", seconds(&e.Residency.Idle)),
		opt("model-reload-policy", "policy",
			"availability_first: a version serves until its successor is ready. resources_first: it is unloaded "+
				"first, and requests wait. Default: availability_first.",
			oneOf(&e.ResourcesFirst, lifecycle.ReloadAvailability, lifecycle.ReloadResources)),
		opt("model-namespacing", "boolean",
			"Lets several repositories have models of the same name. A request for such a name is refused; an "+
				"ensemble uses the model of the same repository. Default: false.", boolean(&e.Namespaces)),
		ignored("enable-peer-access", "boolean", "GPU peer access.", anyBool),
	}
}

func (c *Config) logOptions() []option {
	l := &c.Log.Settings
	return []option{
		opt("log-verbose", "integer", "Verbose messages: 0 or false for none. Default: 0.", c.logVerbose),
		opt("log-info", "boolean", "Information messages. Default: true.", boolean(&l.Info)),
		opt("log-warning", "boolean", "Warnings. Default: true.", boolean(&l.Warning)),
		opt("log-error", "boolean", "Errors. Default: true.", boolean(&l.Error)),
		opt("log-format", "default|ISO8601",
			"The form of the time. Default: default.", choice(&l.Format, "default", "ISO8601")),
		opt("log-file", "path", "Appends the log to a file. Default: standard error.", text(&l.File)),
		opt("log-file-max-bytes", "bytes",
			"How large the file of --log-file may be, such as 16MiB. A full one is renamed, with the time in its "+
				"name, and an older one is removed. 0: any size. Default: 0.", sizeOrZero(&c.Log.FileMaxBytes)),
	}
}

func (c *Config) httpOptions() []option {
	at, h := &c.Listen.HTTP, &c.HTTP
	return []option{
		opt("allow-http", "boolean", "Serves HTTP. Default: true.", boolean(&at.On)),
		opt("http-address", "address",
			"Default: 127.0.0.1; 0.0.0.0 under the name tritonserver. An address that others can reach needs a "+
				"token or --allow-anonymous.", text(&at.Address)),
		opt("http-port", "port", "Default: 8000. 0 takes a free one.", port(&at.Port)),
		opt("reuse-http-port", "boolean",
			"Shares the port with other servers of the same user that have the option too; the kernel distributes "+
				"the connections. Default: false.", sharedPort(&at.Shared)),
		opt("http-header-forward-pattern", "regex",
			"Headers whose names match become parameters of inference requests, as strings. Case is ignored unless "+
				"the pattern has (?-i).", headerPattern(&h.ForwardHeaders)),
		ignored("http-thread-count", "integer", "Every connection has its own goroutine.", anyInt),
		opt("http-max-input-size", "bytes",
			"The largest request body, both as sent and decompressed. Default: 67108864.",
			integer(1, 1<<46, &h.MaxBody)),
		opt("http-restricted-api", "groups:key=value",
			"Serves groups of endpoints (health, metadata, inference, shared-memory, model-config, model-repository, "+
				"statistics, trace, logging; several with commas) only to requests with the header key: value. May be "+
				"given several times.", restriction("", &h.Restricted)),
	}
}

func (c *Config) grpcOptions() []option {
	at, g, files := &c.Listen.GRPC, &c.GRPC, &c.TLS.GRPC
	return []option{
		opt("allow-grpc", "boolean", "Serves gRPC. Default: true.", boolean(&at.On)),
		opt("grpc-address", "address", "As --http-address.", text(&at.Address)),
		opt("grpc-port", "port", "Default: 8001. 0 takes a free one.", port(&at.Port)),
		opt("reuse-grpc-port", "boolean", "As --reuse-http-port.", sharedPort(&at.Shared)),
		opt("grpc-header-forward-pattern", "regex",
			"As --http-header-forward-pattern, for metadata.", headerPattern(&g.ForwardMetadata)),
		ignored("grpc-infer-thread-count", "integer", "Threads.", anyInt),
		ignored("grpc-infer-allocation-pool-size", "integer", "A pool size.", anyInt),
		ignored("grpc-max-response-pool-size", "integer", "A pool size.", anyInt),
		opt("grpc-use-ssl", "boolean", "TLS 1.2 or newer. Default: false.", boolean(&at.TLS)),
		opt("grpc-use-ssl-mutual", "boolean",
			"TLS, and clients must show a certificate. Default: false.", mutual(&at.TLS, files)),
		opt("grpc-server-cert", "path",
			"The certificate with its chain, PEM. Renewed files are used without a restart.", text(&files.Cert)),
		opt("grpc-server-key", "path", "Its private key, PEM.", text(&files.Key)),
		opt("grpc-root-cert", "path", "The authorities of clients' certificates, PEM.", text(&files.Root)),
		opt("grpc-infer-response-compression-level", "none|low|medium|high",
			"Compresses inference responses as the request was, else with gzip, else with deflate, whichever the "+
				"client accepts; all levels above none are the same here. Default: none.", c.grpcCompression),
		opt("grpc-keepalive-time", "ms", "At least a second: less counts as 1000. Default: 7200000.",
			milliseconds(1, &g.Keepalive.Time)),
		opt("grpc-keepalive-timeout", "ms", "Default: 20000.", milliseconds(1, &g.Keepalive.Timeout)),
		opt("grpc-keepalive-permit-without-calls", "boolean",
			"Default: false.", boolean(&g.Enforcement.PermitWithoutStream)),
		ignored("grpc-http2-max-pings-without-data", "integer", "A limit on the server's own pings.", anyInt),
		opt("grpc-http2-min-recv-ping-interval-without-data", "ms",
			"Default: 300000. 0: as often as clients like.", pingInterval(&g.Enforcement.MinTime)),
		ignored("grpc-http2-max-ping-strikes", "integer", "It is 2.", anyInt),
		opt("grpc-max-connection-age", "ms", "Default: no limit.", milliseconds(0, &g.Keepalive.MaxConnectionAge)),
		opt("grpc-max-connection-age-grace", "ms",
			"Default: no limit.", milliseconds(0, &g.Keepalive.MaxConnectionAgeGrace)),
		opt("grpc-restricted-protocol", "groups:key=value",
			"As --http-restricted-api; triton-grpc-protocol- is put before the metadata key.",
			restriction(grpcapi.RestrictedPrefix, &g.Restricted)),
	}
}

func (c *Config) cloudOptions() []option {
	l := &c.Listen
	return []option{
		opt("allow-sagemaker", "boolean",
			"Serves Amazon SageMaker's /ping and /invocations, and /models with --model-control-mode=explicit, at "+
				"--http-address. Default: false.", boolean(&l.SageMaker.On)),
		opt("sagemaker-port", "port", "Default: 8080.", port(&l.SageMaker.Port)),
		opt("sagemaker-safe-port-range", "low-high",
			"The range in which the ports of the other services must lie. Default: anywhere.",
			portRange(&c.SageMaker.Ports)),
		ignored("sagemaker-thread-count", "integer", "Every connection has its own goroutine.", anyInt),
		opt("allow-vertex-ai", "boolean",
			"Serves Google Vertex AI's routes, AIP_PREDICT_ROUTE and AIP_HEALTH_ROUTE, at --http-address. Default: "+
				"false; true if AIP_MODE is PREDICTION; HTTP and gRPC are then off.", boolean(&l.VertexAI.On)),
		opt("vertex-ai-port", "port", "Default: AIP_HTTP_PORT, else 8080.", port(&l.VertexAI.Port)),
		ignored("vertex-ai-thread-count", "integer", "Every connection has its own goroutine.", anyInt),
		opt("vertex-ai-default-model", "name",
			"The model of predictions. Default: the only one.", text(&c.VertexAI.DefaultModel)),
	}
}

func (c *Config) metricsOptions() []option {
	at := &c.Listen.Metrics
	return []option{
		opt("allow-metrics", "boolean", "Serves Prometheus metrics. Default: true.", boolean(&at.On)),
		opt("allow-gpu-metrics", "boolean",
			"GPU metrics, where there are GPUs. Default: true.", not(&c.OmitGPUMetrics)),
		opt("allow-cpu-metrics", "boolean", "CPU and memory metrics. Default: true.", not(&c.Metrics.OmitCPU)),
		opt("metrics-address", "address", "Default: that of HTTP.", text(&at.Address)),
		opt("metrics-port", "port", "Default: 8002. 0 takes a free one.", port(&at.Port)),
		opt("metrics-interval-ms", "ms",
			"The maximum age of figures of GPUs, and how often the use of the CPU is measured. "+
				"Default: 2000.", milliseconds(1, &c.Metrics.Interval)),
		opt("metrics-config", "setting=value",
			"Which latency metrics are exported: counter_latencies (default: true), histogram_latencies (false), "+
				"summary_latencies (false), summary_quantiles=<quantile>:<error>,... "+
				"(0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001). May be given several times.",
			c.metricsConfig),
	}
}

func (c *Config) traceOptions() []option {
	old := func(key string) setter { return func(v string) error { return c.setTrace(key, v) } }
	return []option{
		opt("trace-config", "[mode,]key=value",
			"Request tracing: level=OFF|TIMESTAMPS|TENSORS, rate, count, mode=triton|opentelemetry; triton,file and "+
				"triton,log-frequency; opentelemetry,url, resource=<key>=<value>, bsp_max_queue_size, "+
				"bsp_schedule_delay, bsp_max_export_batch_size. May be given several times.", c.traceConfig),
		opt("trace-level", "OFF|TIMESTAMPS|TENSORS", "Old form of --trace-config=level.", old("level")),
		opt("trace-file", "path", "Old form of --trace-config=triton,file.", old("triton,file")),
		opt("trace-rate", "integer", "Old form of --trace-config=rate.", old("rate")),
		opt("trace-count", "integer", "Old form of --trace-config=count.", old("count")),
		opt("trace-log-frequency", "integer",
			"Old form of --trace-config=triton,log-frequency.", old("triton,log-frequency")),
	}
}

func (c *Config) backendOptions() []option {
	return []option{
		opt("backend-directory", "path",
			"A folder of backends, each of them a folder with a model.py, or with a library libtriton_<name>.so of "+
				"Triton's. The others are built in.", text(&c.Backends.Directory)),
		opt("backend-config", "[backend,]key=value",
			"A setting for a backend, or for all: default-max-batch-size, backend-directory, min-compute-capability, "+
				"auto-complete-config, model-load-gpu-limit-device-<gpu>; onnxruntime,enable-global-threadpool, "+
				"intra_op_thread_count, inter_op_thread_count, op-library-directory, optimized-model-cache, "+
				"memory-limit-byte-size, open-files-limit, processes-limit, execute-timeout-seconds, "+
				"abandoned-timeout-seconds, unload-timeout-seconds; "+
				"tensorflow,library, op-library-directory, allow-soft-placement, gpu-memory-fraction; "+
				"openvino,library. May be given several times.", c.backendConfig),
		opt("model-env", "name[,name...]",
			"Variables of the server's environment that the processes of models and installers of packages see, in "+
				"addition to a fixed list without secrets. A star at the end stands for any text; * alone passes all. "+
				"May be given several times. Default: none.", c.Backends.addModelEnv),
		opt("crash-inputs-dir", "path",
			"A folder where an input is saved that has crashed the process of a model twice. It has the data of "+
				"clients. At most 32 files and 256 MiB. Default: none is saved.", c.Backends.setCrashInputs),
		opt("repoagent-directory", "path",
			"A folder with a folder for each repository agent: <name>/libtritonrepoagent_<name>.so. The agent "+
				"checksum is built in.", text(&c.Backends.Agents)),
		opt("cache-config", "cache,key=value",
			"The response cache of the models that enable it in their configuration: local,size=<bytes>, a library "+
				"of --cache-directory with its settings, or redis with host, port, user, password, db, "+
				"connect_timeout, socket_timeout, pool_size, wait_timeout, "+
				"tls_enabled, cert, key, cacert, cacert_dir, sni (several times). Default: none.", c.cacheConfig),
		opt("cache-directory", "path",
			"A folder with a folder for each cache library: <name>/libtritoncache_<name>.so. The caches local and "+
				"redis are built in.", text(&c.ResponseCache.Directory)),
		opt("rate-limit", "off|execution_count",
			"execution_count: instances wait for the resources of their rate_limiter, by priority. Default: off.",
			oneOf(&c.RateLimit.On, "off", "execution_count")),
		opt("rate-limit-resource", "name:count[:device]",
			"How much of a resource exists on every device, on one device, or with the device global. Default: as "+
				"much as the instance that needs most. May be given several times.", c.RateLimit.addResource),
	}
}

func (c *Config) memoryOptions() []option {
	return []option{
		opt("pinned-memory-pool-byte-size", "bytes",
			"Page-locked host memory for inputs and outputs of models on GPUs. It is allocated on first use; what "+
				"does not fit goes through ordinary memory. 0: none. Default: 268435456.",
			byteCount(&c.GPUMemory.PinnedBytes)),
		opt("cuda-memory-pool-byte-size", "gpu:bytes",
			"Memory on a GPU in which inputs from clients' CUDA regions are gathered into batches. It is allocated "+
				"on first use; what does not fit goes through the host. The memory in which models compute is "+
				"separate: gpu_mem_limit bounds it per model. Default: 67108864 on each GPU. May be given several "+
				"times.", byGPU(&c.GPUMemory.DeviceBytes, gpuBytesForm, parseByteCount)),
		ignored("cuda-virtual-address-size", "gpu:bytes",
			"Sequence states are kept in host memory, which grows with them.",
			byGPU(new(map[int]int64), gpuBytesForm, parseByteCount)),
		opt("min-supported-compute-capability", "number",
			"GPUs below this CUDA compute capability are not used. Default: 6.0.", capability(&c.GPUs.MinCapability)),
		ignored("buffer-manager-thread-count", "integer", "Threads.", anyInt),
		opt("host-policy", "policy,key=value",
			"Where instances of groups with that host_policy run: cpu-cores=<cores and ranges, such as 0-3,8> or "+
				"numa-node=<number>, for memory. The policies cpu, model and gpu_<id> apply to groups that name none. "+
				"May be given several times.", c.hostPolicy),
		opt("model-load-gpu-limit", "gpu:fraction",
			"No model is loaded onto a GPU on which more than this fraction of the memory is in use. May be given "+
				"several times.", c.gpuLimit()),
		opt(allowClientShm, "boolean",
			"Lets clients share memory with the server. Default: true if HTTP, gRPC, SageMaker and Vertex AI listen "+
				"on loopback addresses only, otherwise false. While the GUI opens the server to the network, it is "+
				"false too.", not(&c.Engine.SharedMemory.Disabled)),
	}
}

func (c *Config) deprecatedOptions() []option {
	return []option{
		opt("strict-model-config", "boolean",
			"true is --disable-auto-complete-config.", boolean(&c.Engine.DisableAutoComplete)),
		opt("response-cache-byte-size", "bytes",
			"Old form of --cache-config=local,size; 0 for none.", c.responseCacheSize),
	}
}

func (c *Config) tlsOptions() []option {
	l, files := &c.Listen, &c.TLS.HTTP
	return []option{
		opt("http-use-ssl", "boolean", "HTTPS, TLS 1.2 or newer. Default: false.", boolean(&l.HTTP.TLS)),
		opt("http-use-ssl-mutual", "boolean",
			"HTTPS, and clients must show a certificate. Default: false.", mutual(&l.HTTP.TLS, files)),
		opt("http-server-cert", "path",
			"The certificate with its chain, PEM. Renewed files are used without a restart.", text(&files.Cert)),
		opt("http-server-key", "path", "Its private key, PEM.", text(&files.Key)),
		opt("http-root-cert", "path", "The authorities of clients' certificates, PEM.", text(&files.Root)),
		opt("metrics-use-ssl", "boolean",
			"Metrics over HTTPS with the files of HTTP, mutual if HTTP is. Default: false.", boolean(&l.Metrics.TLS)),
		opt("ui-use-ssl", "boolean",
			"The GUI over HTTPS with the files of HTTP; browsers are not asked for a certificate. Default: false.",
			boolean(&l.UI.TLS)),
	}
}

func (c *Config) kioskOptions() []option {
	at := &c.Listen.Kiosk
	return []option{
		opt("kiosk", "", "Serves a public page, where visitors try models and can change nothing.", flag(&at.On)),
		opt("kiosk-address", "address",
			"Everybody who reaches this address may try the models, without a token. Default: 127.0.0.1.",
			text(&at.Address)),
		opt("kiosk-port", "port", "Default: 8004. 0 takes a free one.", port(&at.Port)),
		opt("kiosk-models", "name[,name...]", "The models on the public page. Default: all that are ready.",
			commaList(&c.Access.KioskModels)),
	}
}

func (c *Config) ownOptions() []option {
	at := &c.Listen.UI
	return []option{
		opt(FileOption, "path",
			"A YAML file of options, such as http-port: 8000. A variable or an option of the command line has "+
				"precedence. nereid config show prints the result. Default: NEREID_CONFIG, else none.", text(&c.file)),
		opt(edgeOption, "",
			"Sets options for a box with 2 GiB of memory and a slow disk, and logs which. An option that is given too "+
				"keeps its own value.", flag(&c.edge)),
		opt("allow-ui", "boolean", "Serves the GUI. Default: true.", boolean(&at.On)),
		opt("ui-address", "address",
			"An address that other machines reach needs --ui-use-ssl=true and a token with the scope admin. Default: "+
				"127.0.0.1.", text(&at.Address)),
		opt("ui-port", "port", "Default: 8003, or a free one if 8003 is in use. 0 takes a free one.", port(&at.Port)),
		opt("open", "", "Opens the GUI in the browser.", flag(&c.OpenBrowser)),
		opt("history", "boolean",
			"Records statistics every second in the data folder. Default: true.", boolean(&c.History.On)),
		opt("history-max-bytes", "bytes",
			"How large the database of the history may be, such as 64MiB; the oldest rows are removed. Default: 1GiB.",
			size(&c.History.MaxBytes)),
		opt("record-requests", "boolean",
			"Records the metadata of requests for the page: the last 8192 in memory, and with history those that "+
				"failed, were refused or slow, and a sample of the others in the data folder. Default: true.",
			boolean(&c.Requests.Record)),
		opt("keep-requests", "count",
			"How many requests the history keeps, in about 250 bytes each; the oldest are removed. 0 keeps none. "+
				"Default: 1000000.", integer(0, 100_000_000, &c.Requests.Keep)),
		opt("data-dir", "path",
			"Where the server keeps its data: history, revisions, trash, the first repository. Default: "+
				"NEREID_DATA_DIR, else ~/.local/share/nereid.", text(&c.DataDir)),
		opt("allow-anonymous", "",
			"Starts also if others can reach an address and there is no token, and serves them. Once there is a "+
				"token, clients need one, and this has no effect.", flag(&c.Access.AllowAnonymous)),
		opt("allowed-hosts", "name[,name...]",
			"Host names that requests may be addressed to in addition to IP addresses and localhost, such as those "+
				"of a gateway; * for any.", commaList(&c.Access.AllowedHosts)),
		opt("http-allowed-origins", "origin[,origin...]",
			"Web sites, such as https://app.example, whose pages may use the server from a browser (CORS). Default: "+
				"none.", c.allowedOrigins),
		opt("allow-kserve-v1", "boolean",
			"Serves KServe's v1 protocol, which is TensorFlow Serving's REST API, below /v1/models on the HTTP "+
				"port. Default: false.", boolean(&c.HTTP.V1)),
		opt("grpc-reflection", "boolean",
			"Serves gRPC server reflection, which tools such as grpcurl use. Default: false.",
			boolean(&c.GRPC.Reflection)),
		opt("request-memory-limit", "bytes",
			"How much memory requests and responses may use at one time, such as 2GiB. Requests beyond it get 503 or "+
				"RESOURCE_EXHAUSTED. Default: a quarter of the memory of the machine or the container.",
			size(&c.RequestMemory)),
		opt("grpc-max-decompressed-size", "bytes",
			"The largest content of a compressed gRPC message. Content that is compressed more than 200 times "+
				"may have 16 MiB at most. Default: 268435456.",
			integer(1, 1<<31-1, &c.GRPC.MaxInflatedBytes)),
		opt("http-base-path", "/path",
			"A prefix that a gateway puts before /v2; requests without it are served too.", c.basePath),
		opt("client-shm-any-owner", "boolean",
			"Lets all clients register shared memory of every user, also those in other containers and on other "+
				"machines. Default: false; it must belong to the client's user, on this machine.",
			boolean(&c.Engine.SharedMemory.AnyOwner)),
		opt("client-shm-direct", "boolean",
			"Uses inputs directly in clients' shared memory, without a copy. A client that shrinks such memory "+
				"while a request uses it crashes the server. Default: false.",
			boolean(&c.Engine.SharedMemory.Direct)),
		opt("onnxruntime-library", "path",
			"libonnxruntime to use instead of the built-in one, or its folder. For GPUs, make one with pip install "+
				"--target=<folder> \"onnxruntime-gpu[cuda,cudnn]\". Default: NEREID_ONNXRUNTIME_LIBRARY, then "+
				"<data-dir>/runtime/onnxruntime.", text(&c.Backends.ONNXRuntime.Library)),
		opt("python-requirements", "file",
			"A requirements.txt for Python models without a separate environment. It is installed once, into "+
				"an environment under --data-dir. Default: none.", text(&c.Backends.Python.Requirements)),
	}
}

func (c *Config) serviceOptions() []option {
	return []option{
		opt(WatchdogModel, "name",
			"The first golden request of this model must be answered before the server reports to the watchdog of the "+
				"service manager that it is alive. Default: none.", text(&c.Engine.Probed)),
		opt("new-version-from", "path|url",
			"A text that is read at the start and once a day: the newest version, and on a second line a URL for "+
				"people. The log and the GUI tell of a version above the server's own. A relative path begins at the "+
				"program's folder. Default: none, nothing is read.", c.newVersionFrom),
	}
}
