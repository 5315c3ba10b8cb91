package options

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/app/certs"
	"nereid/app/listen"
	"nereid/engine"
	"nereid/engine/instance"
	"nereid/engine/metrics"
	"nereid/engine/restrict"
	"nereid/engine/stats"
	"nereid/engine/trace"
)

func none(string) (string, bool) { return "", false }

func load(t *testing.T, args ...string) *Config {
	t.Helper()
	c, err := Load(false, append(args, "--data-dir="+t.TempDir()), none)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}

// Every option of tritonserver is known by its name, and its value is checked and stored. What it does on a running
// server is tested by build/conformance/test_options.py, which has the ids of the features.
func TestTritonserverOptions(t *testing.T) {
	for _, tt := range []struct {
		name    string
		args    []string
		check   func(c *Config) bool
		refused []string // a value that must be refused by name
	}{
		{name: "both forms", args: []string{"--id=a", "--http-port", "9"},
			check: func(c *Config) bool { return c.Engine.ID == "a" && c.Listen.HTTP.Port == 9 }},
		{name: "booleans", args: []string{"--allow-http=OFF", "--allow-metrics=0", "--log-info=False",
			"--log-warning=On"},
			check: func(c *Config) bool {
				return !c.Listen.HTTP.On && !c.Listen.Metrics.On && !c.Log.Settings.Info && c.Log.Settings.Warning
			},
			refused: []string{"--allow-http=yes"}},
		{name: "unknown option", refused: []string{"--no-such-option=1"}},
		{name: "repeated options", args: []string{"--model-repository=a", "--model-store=b",
			"--model-control-mode=explicit", "--load-model=x", "--load-model=y"},
			check: func(c *Config) bool {
				return slices.Equal(c.Engine.Repositories, []string{"a", "b"}) &&
					slices.Equal(c.Engine.StartupModels, []string{"x", "y"})
			}},
		{name: "port collision", refused: []string{"--http-port=8001"}},
		{name: "--help", args: []string{"--help"}, check: func(c *Config) bool { return c.Help }},
		{name: "--id", args: []string{"--id=x"}, check: func(c *Config) bool { return c.Engine.ID == "x" }},
		{name: "--exit-timeout-secs", args: []string{"--exit-timeout-secs=5"},
			check:   func(c *Config) bool { return c.ExitTimeout == 5*time.Second },
			refused: []string{"--exit-timeout-secs=-1"}},
		{name: "--model-repository", args: []string{"--model-repository=rel/path"},
			check:   func(c *Config) bool { return c.Engine.Repositories[0] == "rel/path" },
			refused: []string{"--model-repository="}},
		{name: "--exit-on-error", args: []string{"--exit-on-error=true"},
			check: func(c *Config) bool { return c.ExitOnError }},
		{name: "--disable-auto-complete-config", args: []string{"--disable-auto-complete-config"},
			check:   func(c *Config) bool { return c.Engine.DisableAutoComplete },
			refused: []string{"--disable-auto-complete-config=true"}},
		{name: "--strict-readiness", args: []string{"--strict-readiness=false"},
			check: func(c *Config) bool { return c.Engine.LooseReadiness }},
		{name: "--model-control-mode", args: []string{"--model-control-mode=poll"},
			check:   func(c *Config) bool { return c.Engine.Mode == "poll" },
			refused: []string{"--model-control-mode=sometimes"}},
		{name: "--repository-poll-secs", args: []string{"--repository-poll-secs=3"},
			check: func(c *Config) bool { return c.Engine.PollInterval.Seconds() == 3 }},
		{name: "--repository-poll-secs=0", args: []string{"--model-control-mode=poll", "--repository-poll-secs=0"},
			check:   func(c *Config) bool { return c.Engine.PollInterval < 0 },
			refused: []string{"--repository-poll-secs=-1"}},
		{name: "--load-model", args: []string{"--model-control-mode=explicit", "--load-model=*"},
			check:   func(c *Config) bool { return c.Engine.StartupModels[0] == "*" },
			refused: []string{"--load-model=x"}},
		{name: "--model-config-name", args: []string{"--model-config-name=a"},
			check:   func(c *Config) bool { return c.Engine.ConfigName == "a" },
			refused: []string{"--model-config-name=../x"}},
		{name: "--model-config-name in a folder", refused: []string{"--model-config-name=a/x"}},
		{name: "--model-config-name of a folder", refused: []string{"--model-config-name=.."}},
		{name: "--model-config-name without one", refused: []string{"--model-config-name="}},
		{name: "--model-load-thread-count", args: []string{"--model-load-thread-count=2"},
			check: func(c *Config) bool { return c.Engine.LoadThreads == 2 }},
		{name: "--model-memory-budget", args: []string{"--model-memory-budget=1.5GiB",
			"--model-memory-budget-gpu=0:500MB", "--model-memory-budget-gpu", "3:7"}, check: func(c *Config) bool {
			return c.Engine.Residency.Host == 3<<29 && c.Engine.Residency.GPU[0] == 500e6 &&
				c.Engine.Residency.GPU[3] == 7
		}, refused: []string{"--model-memory-budget=much", "--model-memory-budget=nan"}},
		{name: "--model-memory-budget-gpu", refused: []string{"--model-memory-budget-gpu=8GiB"}},
		{name: "--model-idle-unload-secs", args: []string{"--model-idle-unload-secs=1.5"},
			check:   func(c *Config) bool { return c.Engine.Residency.Idle == 1500*time.Millisecond },
			refused: []string{"--model-idle-unload-secs=-1", "--model-idle-unload-secs=nan"}},
		{name: "D12 --model-load-timeout-secs", args: []string{"--model-load-timeout-secs=5"},
			check:   func(c *Config) bool { return c.Engine.LoadTimeout == 5*time.Second },
			refused: []string{"--model-load-timeout-secs=-1"}},
		{name: "D19 --model-env", args: []string{"--model-env=A, B_*", "--model-env=C"},
			check:   func(c *Config) bool { return slices.Equal(c.Backends.Env, []string{"A", "B_*", "C"}) },
			refused: []string{"--model-env=A=1", "--model-env="}},
		{name: "D18 --crash-inputs-dir", args: []string{"--crash-inputs-dir=."},
			check:   func(c *Config) bool { return c.Backends.CrashInputs == "." },
			refused: []string{"--crash-inputs-dir=/no/such/folder"}},
		{name: "--model-reload-policy", args: []string{"--model-reload-policy=Resources_First"},
			check:   func(c *Config) bool { return c.Engine.ResourcesFirst },
			refused: []string{"--model-reload-policy=some"}},
		{name: "--model-load-retry-count", args: []string{"--model-load-retry-count=3"},
			check:   func(c *Config) bool { return c.Engine.LoadRetries == 3 },
			refused: []string{"--model-load-retry-count=-1"}},
		{name: "--model-namespacing", args: []string{"--model-namespacing=true"},
			check:   func(c *Config) bool { return c.Engine.Namespaces },
			refused: []string{"--model-namespacing=perhaps"}},
		{name: "--enable-peer-access", args: []string{"--enable-peer-access=true"},
			check: withoutEffect("enable-peer-access")},
		{name: "--log-verbose", args: []string{"--log-verbose=2"},
			check:   func(c *Config) bool { return c.Log.Settings.Verbose == 2 },
			refused: []string{"--log-verbose=x"}},
		{name: "--log-info", args: []string{"--log-info=false"},
			check: func(c *Config) bool { return !c.Log.Settings.Info }},
		{name: "--log-warning", args: []string{"--log-warning=false"},
			check: func(c *Config) bool { return !c.Log.Settings.Warning }},
		{name: "--log-error", args: []string{"--log-error=false"},
			check: func(c *Config) bool { return !c.Log.Settings.Error }},
		{name: "--log-format", args: []string{"--log-format=ISO8601"},
			check:   func(c *Config) bool { return c.Log.Settings.Format == "ISO8601" },
			refused: []string{"--log-format=xml"}},
		{name: "--log-file-max-bytes", args: []string{"--log-file-max-bytes=1MiB", "--log-file-max-bytes=0"},
			check:   func(c *Config) bool { return c.Log.FileMaxBytes == 0 },
			refused: []string{"--log-file-max-bytes=-1"}},
		{name: "--log-file", args: []string{"--log-file=x.log"},
			check: func(c *Config) bool { return c.Log.Settings.File == "x.log" }},
		{name: "--allow-http", args: []string{"--allow-http=false"},
			check: func(c *Config) bool { return !c.Listen.HTTP.On }},
		{name: "--http-address", args: []string{"--http-address=::1"},
			check: func(c *Config) bool { return c.Listen.HTTP.Address == "::1" && c.Listen.Metrics.Address == "::1" }},
		{name: "--http-port", args: []string{"--http-port=0"},
			check:   func(c *Config) bool { return c.Listen.HTTP.Port == 0 },
			refused: []string{"--http-port=70000"}},
		{name: "--reuse-http-port", args: []string{"--reuse-http-port=true"},
			check:   func(c *Config) bool { return c.Listen.HTTP.Shared && !c.Listen.GRPC.Shared },
			refused: []string{"--reuse-http-port=maybe"}},
		{name: "--http-header-forward-pattern", args: []string{"--http-header-forward-pattern=x_.*"},
			check: func(c *Config) bool {
				return c.HTTP.ForwardHeaders.MatchString("aX_b") && c.GRPC.ForwardMetadata == nil
			}, refused: []string{"--http-header-forward-pattern=("}},
		{name: "--http-thread-count", args: []string{"--http-thread-count=8"},
			check: withoutEffect("http-thread-count")},
		{name: "--http-max-input-size", args: []string{"--http-max-input-size=100"},
			check: func(c *Config) bool { return c.HTTP.MaxBody == 100 }},
		{name: "--http-restricted-api", args: []string{"--http-restricted-api=model-repository,trace:K=v",
			"--http-restricted-api=health:k=w"},
			check: func(c *Config) bool {
				return c.HTTP.Restricted.Header(restrict.Trace) == "K" &&
					c.HTTP.Restricted.Opens(restrict.Health, "w") && c.GRPC.Restricted == nil
			}, refused: []string{"--http-restricted-api=models:k=v", "--http-restricted-api=health",
				"--http-restricted-api="}},
		{name: "--allow-grpc", args: []string{"--allow-grpc=false"},
			check: func(c *Config) bool { return !c.Listen.GRPC.On }},
		{name: "--grpc-address", args: []string{"--grpc-address=localhost"},
			check: func(c *Config) bool { return c.Listen.GRPC.Address == "localhost" }},
		{name: "--grpc-port", args: []string{"--grpc-port=7"},
			check: func(c *Config) bool { return c.Listen.GRPC.Port == 7 }},
		{name: "--reuse-grpc-port", args: []string{"--reuse-grpc-port=true"},
			check:   func(c *Config) bool { return c.Listen.GRPC.Shared && !c.Listen.HTTP.Shared },
			refused: []string{"--reuse-grpc-port=maybe"}},
		{name: "--grpc-header-forward-pattern", args: []string{"--grpc-header-forward-pattern=(?-i)x_.*"},
			check: func(c *Config) bool {
				return c.GRPC.ForwardMetadata.MatchString("x_") && !c.GRPC.ForwardMetadata.MatchString("X_")
			}, refused: []string{"--grpc-header-forward-pattern=["}},
		{name: "--grpc-infer-thread-count", args: []string{"--grpc-infer-thread-count=4"},
			check: withoutEffect("grpc-infer-thread-count")},
		{name: "--grpc-infer-allocation-pool-size", args: []string{"--grpc-infer-allocation-pool-size=4"},
			check: withoutEffect("grpc-infer-allocation-pool-size")},
		{name: "--grpc-max-response-pool-size", args: []string{"--grpc-max-response-pool-size=4"},
			check: withoutEffect("grpc-max-response-pool-size")},
		{name: "--grpc-use-ssl", args: []string{"--grpc-use-ssl=1", "--grpc-server-cert=c", "--grpc-server-key=k"},
			check: func(c *Config) bool {
				return c.Listen.GRPC.TLS && reflect.DeepEqual(c.TLS.GRPC, certs.Files{Cert: "c", Key: "k"})
			}, refused: []string{"--grpc-use-ssl=true"}},
		{name: "--grpc-use-ssl-mutual", args: []string{"--grpc-use-ssl-mutual=1", "--grpc-server-cert=c",
			"--grpc-server-key=k", "--grpc-root-cert=r"},
			check:   func(c *Config) bool { return c.Listen.GRPC.TLS && c.TLS.GRPC.Mutual },
			refused: []string{"--grpc-use-ssl-mutual=true"}},
		{name: "--grpc-server-cert --grpc-server-key --grpc-root-cert",
			args: []string{"--grpc-server-cert=c", "--grpc-server-key=k", "--grpc-root-cert=r"},
			check: func(c *Config) bool {
				return !c.Listen.GRPC.TLS &&
					reflect.DeepEqual(c.TLS.GRPC, certs.Files{Cert: "c", Key: "k", Root: "r"}) &&
					slices.Equal(c.WithoutEffect, []string{"grpc-server-cert (without --grpc-use-ssl)",
						"grpc-server-key (without --grpc-use-ssl)", "grpc-root-cert (without --grpc-use-ssl-mutual)"})
			}},
		{name: "--http-root-cert without --http-use-ssl-mutual",
			args: []string{"--metrics-use-ssl=true", "--http-server-cert=c", "--http-server-key=k",
				"--http-root-cert=r"},
			check: func(c *Config) bool {
				return slices.Equal(c.WithoutEffect, []string{"http-root-cert (without --http-use-ssl-mutual)"})
			}},
		{name: "--grpc-infer-response-compression-level",
			args:    []string{"--grpc-infer-response-compression-level=high"},
			check:   func(c *Config) bool { return c.GRPC.CompressResponses },
			refused: []string{"--grpc-infer-response-compression-level=best"}},
		{name: "--grpc-infer-response-compression-level=None",
			args:  []string{"--grpc-infer-response-compression-level=None"},
			check: func(c *Config) bool { return !c.GRPC.CompressResponses }},
		{name: "--http-allowed-origins",
			args: []string{"--http-allowed-origins=https://a.example,http://localhost:3000"},
			check: func(c *Config) bool {
				return slices.Equal(c.HTTP.AllowedOrigins, []string{"https://a.example", "http://localhost:3000"})
			},
			refused: []string{"--http-allowed-origins=*", "--http-allowed-origins=https://*.example",
				"--http-allowed-origins=https://a.example/", "--http-allowed-origins=null"}},
		{name: "--allow-kserve-v1", args: []string{"--allow-kserve-v1=true"},
			check: func(c *Config) bool { return c.HTTP.V1 }},
		{name: "--request-memory-limit", args: []string{"--request-memory-limit=2GiB"},
			check:   func(c *Config) bool { return c.RequestMemory == 2<<30 },
			refused: []string{"--request-memory-limit=0", "--request-memory-limit=much"}},
		{name: "--history-max-bytes", args: []string{"--history-max-bytes=2MiB"},
			check:   func(c *Config) bool { return c.History.MaxBytes == 2<<20 },
			refused: []string{"--history-max-bytes=0", "--history-max-bytes=much"}},
		{name: "--edge", args: []string{"--edge", "--keep-requests=5"}, check: func(c *Config) bool {
			return c.Engine.Residency.Host == 1<<30 && c.RequestMemory == 256<<20 && c.Engine.LoadThreads == 1 &&
				c.Requests.Keep == 5 && c.History.MaxBytes == 64<<20
		}},
		{name: "--keep-requests", args: []string{"--keep-requests=5"},
			check:   func(c *Config) bool { return c.Requests.Keep == 5 },
			refused: []string{"--keep-requests=-1", "--keep-requests=many"}},
		{name: "--grpc-max-decompressed-size", args: []string{"--grpc-max-decompressed-size=1000"},
			check:   func(c *Config) bool { return c.GRPC.MaxInflatedBytes == 1000 },
			refused: []string{"--grpc-max-decompressed-size=0"}},
		{name: "--grpc-reflection", args: []string{"--grpc-reflection=true"},
			check: func(c *Config) bool { return c.GRPC.Reflection }},
		{name: "--grpc-keepalive-time", args: []string{"--grpc-keepalive-time=1000"},
			check: func(c *Config) bool { return c.GRPC.Keepalive.Time.Seconds() == 1 }},
		{name: "--grpc-keepalive-timeout", args: []string{"--grpc-keepalive-timeout=2000"},
			check: func(c *Config) bool { return c.GRPC.Keepalive.Timeout.Seconds() == 2 }},
		{name: "--grpc-keepalive-permit-without-calls",
			args:  []string{"--grpc-keepalive-permit-without-calls=true"},
			check: func(c *Config) bool { return c.GRPC.Enforcement.PermitWithoutStream }},
		{name: "--grpc-http2-max-pings-without-data", args: []string{"--grpc-http2-max-pings-without-data=3"},
			check: withoutEffect("grpc-http2-max-pings-without-data")},
		{name: "--grpc-http2-min-recv-ping-interval-without-data",
			args:  []string{"--grpc-http2-min-recv-ping-interval-without-data=1000"},
			check: func(c *Config) bool { return c.GRPC.Enforcement.MinTime.Seconds() == 1 }},
		{name: "--grpc-http2-max-ping-strikes", args: []string{"--grpc-http2-max-ping-strikes=3"},
			check: withoutEffect("grpc-http2-max-ping-strikes")},
		{name: "--grpc-max-connection-age", args: []string{"--grpc-max-connection-age=1000"},
			check: func(c *Config) bool { return c.GRPC.Keepalive.MaxConnectionAge.Seconds() == 1 }},
		{name: "--grpc-max-connection-age-grace", args: []string{"--grpc-max-connection-age-grace=1000"},
			check: func(c *Config) bool { return c.GRPC.Keepalive.MaxConnectionAgeGrace.Seconds() == 1 }},
		{name: "--grpc-restricted-protocol", args: []string{"--grpc-restricted-protocol=model-repository:Key=V"},
			check: func(c *Config) bool {
				return c.GRPC.Restricted.Header(restrict.ModelRepository) == "triton-grpc-protocol-key" &&
					c.GRPC.Restricted.Opens(restrict.ModelRepository, "V")
			}, refused: []string{"--grpc-restricted-protocol=model-repository:k"}},
		{name: "--allow-sagemaker", args: []string{"--allow-sagemaker=true"},
			check: func(c *Config) bool {
				return c.Listen.SageMaker.On && c.SageMaker.Model != "" && c.SageMaker.Kind == "infer"
			}},
		{name: "--sagemaker-port", args: []string{"--sagemaker-port=1"},
			check: func(c *Config) bool { return c.Listen.SageMaker.Port == 1 }},
		{name: "--sagemaker-safe-port-range",
			args:    []string{"--allow-sagemaker=1", "--sagemaker-safe-port-range=8000-8010"},
			check:   func(c *Config) bool { return *c.SageMaker.Ports == [2]int{8000, 8010} },
			refused: []string{"--sagemaker-safe-port-range=2-1", "--sagemaker-safe-port-range=x"}},
		{name: "--sagemaker-thread-count", args: []string{"--sagemaker-thread-count=1"},
			check: withoutEffect("sagemaker-thread-count")},
		{name: "--allow-vertex-ai without the routes", args: []string{"--allow-vertex-ai=false"},
			check:   func(c *Config) bool { return !c.Listen.VertexAI.On && c.Listen.HTTP.On },
			refused: []string{"--allow-vertex-ai=true"}},
		{name: "--vertex-ai-port", args: []string{"--vertex-ai-port=1"},
			check: func(c *Config) bool { return c.Listen.VertexAI.Port == 1 }},
		{name: "--vertex-ai-thread-count", args: []string{"--vertex-ai-thread-count=1"},
			check: withoutEffect("vertex-ai-thread-count")},
		{name: "--vertex-ai-default-model", args: []string{"--vertex-ai-default-model=m"},
			check: func(c *Config) bool { return c.VertexAI.DefaultModel == "m" }},
		{name: "--allow-metrics", args: []string{"--allow-metrics=false"},
			check: func(c *Config) bool { return !c.Listen.Metrics.On }},
		{name: "--allow-gpu-metrics", args: []string{"--allow-gpu-metrics=false"},
			check:   func(c *Config) bool { return c.OmitGPUMetrics },
			refused: []string{"--allow-gpu-metrics=maybe"}},
		{name: "--min-supported-compute-capability", args: []string{"--min-supported-compute-capability=7.5"},
			check:   func(c *Config) bool { return c.GPUs.MinCapability == 7.5 },
			refused: []string{"--min-supported-compute-capability=x", "--min-supported-compute-capability=-1"}},
		{name: "--model-load-gpu-limit", args: []string{"--model-load-gpu-limit=0:0.5",
			"--model-load-gpu-limit=1:1"},
			check: func(c *Config) bool {
				return len(c.Engine.GPULimits) == 2 && c.Engine.GPULimits[0] == 0.5 && c.Engine.GPULimits[1] == 1
			},
			refused: []string{"--model-load-gpu-limit=0", "--model-load-gpu-limit=0:2", "--model-load-gpu-limit=x:0.5",
				"--model-load-gpu-limit=0:-1"}},
		{name: "--allow-cpu-metrics", args: []string{"--allow-cpu-metrics=false"},
			check: func(c *Config) bool { return c.Metrics.OmitCPU }},
		{name: "--metrics-address", args: []string{"--metrics-address=::1"},
			check: func(c *Config) bool { return c.Listen.Metrics.Address == "::1" }},
		{name: "--metrics-port", args: []string{"--metrics-port=7"},
			check: func(c *Config) bool { return c.Listen.Metrics.Port == 7 }},
		{name: "--metrics-interval-ms", args: []string{"--metrics-interval-ms=500"},
			check: func(c *Config) bool { return c.Metrics.Interval == 500*time.Millisecond }},
		{name: "--metrics-config", args: []string{"--metrics-config=counter_latencies=false",
			"--metrics-config", "histogram_latencies=true",
			"--metrics-config=summary_latencies=TRUE", "--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01"},
			check: func(c *Config) bool {
				m := c.Metrics
				return m.OmitCounterLatencies && c.Engine.Latencies == stats.Detail{Summaries: true,
					Histograms: true} &&
					slices.Equal(m.Quantiles, []metrics.Quantile{{Share: 0.5, Error: 0.05}, {Share: 0.9, Error: 0.01}})
			},
			refused: []string{"--metrics-config=summary_latencies", "--metrics-config=a,summary_latencies=true",
				"--metrics-config=summary_latencies=", "--metrics-config=nosuch=1",
				"--metrics-config=counter_latencies=perhaps", "--metrics-config=summary_quantiles=0.5",
				"--metrics-config=summary_quantiles=x:y",
				"--metrics-config=summary_quantiles=0.9:0.01:7", "--metrics-config=summary_quantiles=1.5:0.1",
				"--metrics-config=summary_quantiles=0.5:NaN", "--metrics-config=summary_quantiles=0.5:0.05,0.5:0.01",
				"--metrics-config=summary_quantiles=.9:0.05,1:0,0.90:0.05",
				"--metrics-config=summary_quantiles=0:0,-0:0"}},
		{name: "E017 DV75 --metrics-config by default", args: []string{"--id=x"}, check: func(c *Config) bool {
			return !c.Metrics.OmitCounterLatencies && c.Engine.Latencies == stats.Detail{} && c.Metrics.Quantiles == nil
		}, refused: []string{"--metrics-config=summary_latency=true"}},
		{name: "--trace-config", args: []string{"--trace-config=level=TIMESTAMPS", "--trace-config",
			"level=TENSORS", "--trace-config=rate=5",
			"--trace-config=count=9", "--trace-config=triton,file=t.json", "--trace-config=triton,log-frequency=3"},
			check: func(c *Config) bool {
				return c.Trace.Settings == trace.Settings{Level: trace.Timestamps | trace.Tensors, Rate: 5, Count: 9,
					LogFrequency: 3, File: "t.json", Mode: "triton"}
			},
			refused: []string{"--trace-config=level=MOST", "--trace-config=rate=-1", "--trace-config=count=-2",
				"--trace-config=mode=x", "--trace-config=nosuch=1", "--trace-config=level"}},
		{name: "--trace-config opentelemetry", args: []string{"--trace-config=mode=opentelemetry",
			"--trace-config=rate=0", "--trace-config=level=TIMESTAMPS",
			"--trace-config=opentelemetry,url=http://c:4318/v1/traces",
			"--trace-config=opentelemetry,resource=service.name=x=y",
			"--trace-config=opentelemetry,bsp_max_queue_size=7", "--trace-config=opentelemetry,bsp_schedule_delay=8",
			"--trace-config=opentelemetry,bsp_max_export_batch_size=9"},
			check: func(c *Config) bool {
				tel := c.Trace.Telemetry
				return c.Trace.Settings.Mode == "opentelemetry" && c.Trace.Settings.Rate == 0 &&
					tel.URL == "http://c:4318/v1/traces" && slices.Equal(tel.Resource,
					[][2]string{{"service.name", "x=y"}}) &&
					tel.MaxQueueSize == 7 && *tel.ScheduleDelay == 8*time.Millisecond && tel.MaxExportBatchSize == 9
			}, refused: []string{"--trace-config=opentelemetry,resource=x",
				"--trace-config=opentelemetry,bsp_schedule_delay=x", "--trace-config=opentelemetry,nosuch=1"}},
		{name: "--backend-directory", args: []string{"--backend-directory=/x"},
			check: func(c *Config) bool { return c.Backends.Directory == "/x" }},
		{name: "--backend-config", args: []string{"--backend-config=default-max-batch-size=7",
			"--backend-config=onnxruntime,default-max-batch-size=9"},
			check: func(c *Config) bool {
				n := c.Engine.DefaultMaxBatchSize
				return n != nil && *n == 7 && c.Engine.DefaultMaxBatchSizes["onnxruntime"] == 9 &&
					len(c.Engine.DefaultMaxBatchSizes) == 1 && len(c.WithoutEffect) == 0
			},
			refused: []string{"--backend-config=x", "--backend-config=x,y",
				"--backend-config=default-max-batch-size=-1",
				"--backend-config=onnxruntime,default-max-batch-size=16777217",
				"--backend-config=default-max-batch-size=4294967302", "--backend-config=tensorflow,version=1"}},
		{name: "D002 settings of all backends", args: []string{"--backend-config=,backend-directory=/b",
			"--backend-config=min-compute-capability=7.5",
			"--backend-config=auto-complete-config=false", "--backend-config=model-load-gpu-limit-device-1=0.5"},
			check: func(c *Config) bool {
				return c.Backends.Directory == "/b" && c.GPUs.MinCapability == 7.5 && c.Engine.DisableAutoComplete &&
					c.Engine.GPULimits[1] == 0.5 && len(c.WithoutEffect) == 0
			},
			refused: []string{"--backend-config=min-compute-capability=x",
				"--backend-config=auto-complete-config=perhaps", "--backend-config=model-load-gpu-limit-device-x=0.5",
				"--backend-config=model-load-gpu-limit-device-0=2"}},
		{name: "D002 a setting that a backend has not, or one of another backend",
			args: []string{"--backend-config=onnxruntime,nosuch=1", "--backend-config=tensorrt,plugins=/x.so",
				"--backend-config=resnet,backend-directory=/b", "--backend-config=shade=grey",
				"--backend-config=python,memory-limit-byte-size=1000000000"},
			check: func(c *Config) bool {
				return c.Backends.Directory == "" && c.Backends.Libraries["tensorrt"]["plugins"] == "/x.so" &&
					c.Backends.Libraries["resnet"]["backend-directory"] == "/b" &&
					c.Backends.Libraries[""]["shade"] == "grey" &&
					c.Backends.Libraries["python"]["memory-limit-byte-size"] == "1000000000" &&
					slices.Equal(c.WithoutEffect, []string{"backend-config onnxruntime,nosuch",
						"backend-config shade (beyond the libraries of backends, which get it)"})
			}},
		{name: "--backend-config of onnxruntime",
			args: []string{"--backend-config=onnxruntime,enable-global-threadpool=1",
				"--backend-config=onnxruntime,intra_op_thread_count=3",
				"--backend-config=onnxruntime,op-library-directory=/opt/ops"},
			check: func(c *Config) bool {
				s := c.Backends.ONNXRuntime.Settings
				return s.GlobalThreadPool && s.IntraOpThreads == 3 &&
					slices.Equal(s.OpLibraryFolders, []string{"/opt/ops"})
			},
			refused: []string{"--backend-config=onnxruntime,enable-global-threadpool=maybe",
				"--backend-config=onnxruntime,intra_op_thread_count=-1"}},
		{name: "--repoagent-directory", args: []string{"--repoagent-directory=/x"},
			check: func(c *Config) bool { return c.Backends.Agents == "/x" }},
		{name: "--cache-config", args: []string{"--cache-config=local,size=1048576"},
			check: func(c *Config) bool { return c.ResponseCache.Size == 1<<20 },
			refused: []string{"--cache-config=,host=x", "--cache-config=memcached", "--cache-config=redis,hots=x",
				"--cache-config=redis,port=x", "--cache-config=local,size=0", "--cache-config=local,size=x",
				"--cache-config=local,nosuch=1", "--cache-config=local"}},
		{name: "--cache-config of redis", args: []string{"--cache-config=redis,host=x",
			"--cache-config=redis,port=7"},
			check: func(c *Config) bool {
				return c.ResponseCache.Size == 0 && c.ResponseCache.Redis["host"] == "x" &&
					c.ResponseCache.Redis["port"] == "7"
			}},
		{name: "--cache-directory", args: []string{"--cache-directory=/x", "--cache-config=own,size=7"},
			check: func(c *Config) bool {
				r := c.ResponseCache
				return r.Directory == "/x" && r.Library == "own" && r.Settings["size"] == "7" && r.On()
			}},
		{name: "--rate-limit", args: []string{"--rate-limit=EXECUTION_COUNT"},
			check:   func(c *Config) bool { return c.RateLimit.On && c.Engine.RateLimiter != nil },
			refused: []string{"--rate-limit=on"}},
		{name: "--rate-limit=off", args: []string{"--rate-limit=off"},
			check: func(c *Config) bool { return c.Engine.RateLimiter == nil }},
		{name: "--rate-limit-resource", args: []string{"--rate-limit-resource=R:1", "--rate-limit-resource=S:2:3",
			"--rate-limit-resource=T:4:global"},
			check: func(c *Config) bool {
				return slices.Equal(c.RateLimit.Resources, []instance.Resource{{Name: "R", Count: 1,
					Device: instance.EveryDevice}, {Name: "S", Count: 2, Device: 3},
					{Name: "T", Count: 4, Device: instance.GlobalDevice}})
			},
			refused: []string{"--rate-limit-resource=R", "--rate-limit-resource=R:-1", "--rate-limit-resource=R:1:x",
				"--rate-limit-resource=:1", "--rate-limit-resource=R:1:2:3"}},
		{name: "--pinned-memory-pool-byte-size", args: []string{"--pinned-memory-pool-byte-size=1"},
			check:   func(c *Config) bool { return c.GPUMemory.PinnedBytes == 1 && len(c.WithoutEffect) == 0 },
			refused: []string{"--pinned-memory-pool-byte-size=-1", "--pinned-memory-pool-byte-size=1M"}},
		{name: "--pinned-memory-pool-byte-size is 256 MiB by default",
			args:  []string{"--cuda-memory-pool-byte-size=0:5"},
			check: func(c *Config) bool { return c.GPUMemory.PinnedBytes == 256<<20 }},
		{name: "--cuda-memory-pool-byte-size", args: []string{"--cuda-memory-pool-byte-size=0:1",
			"--cuda-memory-pool-byte-size=2:3"},
			check: func(c *Config) bool {
				return maps.Equal(c.GPUMemory.DeviceBytes, map[int]int64{0: 1, 2: 3}) && len(c.WithoutEffect) == 0
			},
			refused: []string{"--cuda-memory-pool-byte-size=1", "--cuda-memory-pool-byte-size=0:x"}},
		{name: "--cuda-virtual-address-size", args: []string{"--cuda-virtual-address-size=0:1"},
			check:   withoutEffect("cuda-virtual-address-size"),
			refused: []string{"--cuda-virtual-address-size=a:1"}},
		{name: "--buffer-manager-thread-count", args: []string{"--buffer-manager-thread-count=1"},
			check: withoutEffect("buffer-manager-thread-count")},
		{name: "--host-policy", args: []string{"--host-policy=p,numa-node=0", "--host-policy=p,cpu-cores=0-0",
			"--host-policy=gpu_1,cpu-cores=0"},
			check: func(c *Config) bool {
				return c.Engine.HostPolicies["p"].String() == "cpu-cores=0 numa-node=0" &&
					c.Engine.HostPolicies["gpu_1"].String() == "cpu-cores=0" && len(c.Engine.HostPolicies) == 2
			},
			refused: []string{"--host-policy=p", "--host-policy=p,cpu-cores", "--host-policy=,cpu-cores=0",
				"--host-policy=p,cores=1", "--host-policy=p,cpu-cores=0-8100", "--host-policy=p,numa-node=900"}},
		{name: "--allow-client-shm", args: []string{"--allow-client-shm=false"},
			check:   func(c *Config) bool { return c.Engine.SharedMemory.Disabled },
			refused: []string{"--allow-client-shm=maybe"}},
		{name: "--strict-model-config", args: []string{"--strict-model-config=true"},
			check: func(c *Config) bool { return c.Engine.DisableAutoComplete }},
		{name: "--response-cache-byte-size", args: []string{"--response-cache-byte-size=1000"},
			check:   func(c *Config) bool { return c.ResponseCache.Size == 1000 },
			refused: []string{"--response-cache-byte-size=-1"}},
		{name: "--response-cache-byte-size=0", args: []string{"--response-cache-byte-size=0"},
			check: func(c *Config) bool { return c.ResponseCache.Size == 0 }},
		{name: "H089 old trace options", args: []string{"--trace-file=x", "--trace-rate=1", "--trace-count=2",
			"--trace-log-frequency=3", "--trace-level=MAX"},
			check: func(c *Config) bool {
				return c.Trace.Settings == trace.Settings{Level: trace.Timestamps, Rate: 1, Count: 2, LogFrequency: 3,
					File: "x", Mode: "triton"}
			}, refused: []string{"--trace-level=MUCH", "--trace-rate=x", "--trace-count=x", "--trace-log-frequency=x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args != nil {
				if c := load(t, tt.args...); tt.check != nil && !tt.check(c) {
					t.Errorf("%q does not do what it should: %+v", tt.args, c)
				}
			}
			for _, bad := range tt.refused {
				_, err := Load(false, []string{bad, "--data-dir=x"}, none)
				option, _, _ := strings.Cut(strings.TrimPrefix(bad, "--"), "=")
				if err == nil || !strings.Contains(err.Error(), option) {
					t.Errorf("%s is answered with %v, want a refusal that names it", bad, err)
				}
			}
			if tt.args == nil && tt.refused == nil {
				t.Error("nothing is checked")
			}
		})
	}
}

func withoutEffect(name string) func(*Config) bool {
	return func(c *Config) bool { return slices.Contains(c.WithoutEffect, name) }
}

func TestAllOptionErrorsAreReportedAtOnce(t *testing.T) {
	_, err := Load(false, []string{"--http-prot=1", "--http-port=x", "--model-namespacing=x", "stray",
		"--metrics-port"}, none)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"did you mean --http-port?", `"x" is not a whole number`, "--model-namespacing",
		`unexpected argument "stray"`, "--metrics-port needs a value"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// Under the name tritonserver an option may be abbreviated, as getopt does it there.
func TestAbbreviatedOptions(t *testing.T) {
	c, err := Load(true, []string{"--log-warn=false", "--model-rep=/m", "--http-po", "8100"}, none)
	if err != nil || c.given["log-warning"] != "false" || c.given["http-port"] != "8100" {
		t.Errorf("given %v, %v", c.given, err)
	}
	if c, err = Load(true, []string{"--model-control-mode=EXPLICIT"}, none); err != nil ||
		c.Engine.Mode != engine.ModeExplicit {
		t.Errorf("control mode in capitals: %v", err)
	}
	for args, asTriton := range map[string]bool{"--log=1": true, "--=1": true, "--log-warn=1": false} {
		if _, err := Load(asTriton, []string{args}, none); err == nil {
			t.Errorf("%s was accepted (as tritonserver: %v)", args, asTriton)
		}
	}
}

// Two services that share an address are refused before anything is loaded. A default of the GUI gives way instead.
func TestPortCollisions(t *testing.T) {
	peer := func(address string) []string {
		return []string{"--catalog=https://platform.example", "--catalog-token-file=t", "--catalog-peer=" + address}
	}
	for _, tt := range []struct {
		name   string
		args   []string
		option string // that is refused; "": none
	}{
		{"HTTP and gRPC", []string{"--http-port=8001"}, "--http-port"},
		{"one port of two addresses", []string{"--http-port=8001", "--grpc-address=127.0.0.2"}, ""},
		{"one of all addresses", []string{"--http-port=8001", "--grpc-address=0.0.0.0", "--allow-anonymous"},
			"--http-port"},
		{"one of all IPv6 addresses", []string{"--http-port=8001", "--grpc-address=[::]"}, "--http-port"},
		{"all IPv4 addresses and one IPv6 address", []string{"--http-port=8001", "--http-address=0.0.0.0",
			"--grpc-address=::1", "--metrics-address=::1"}, ""},
		{"localhost", []string{"--http-port=8001", "--grpc-address=localhost"}, "--http-port"},
		{"any free port", []string{"--http-port=0", "--grpc-port=0"}, ""},
		{"SageMaker", []string{"--allow-sagemaker=true", "--sagemaker-port=8002"}, "--metrics-port"},
		{"the public page has the default of the GUI", []string{"--kiosk", "--kiosk-port=8003"}, ""},
		{"the public page has the port of the GUI", []string{"--kiosk", "--kiosk-port=8003", "--ui-port=8003"},
			"--ui-port"},
		{"peers", peer("127.0.0.1:8000"), "--catalog-peer"},
		{"peers on another address", peer("10.0.0.7:8000"), ""},
		{"peers have the default of the GUI", peer("0.0.0.0:8003"), ""},
		{"ModelMesh", []string{"--modelmesh-address=127.0.0.1:8001"}, "--modelmesh-address"},
		{"ModelMesh on a socket", []string{"--modelmesh-address=unix:/tmp/8001"}, ""},
	} {
		_, err := Load(false, append(tt.args, "--data-dir=x"), none)
		if (err == nil) != (tt.option == "") || err != nil && !strings.HasPrefix(err.Error(), tt.option+": ") {
			t.Errorf("%s: %v, want a refusal of %q", tt.name, err, tt.option)
		}
	}
}

func TestDefaultsAreSafe(t *testing.T) {
	c := load(t)
	for _, e := range c.Listen.All() {
		if !listen.IsLoopback(e.Address) {
			t.Errorf("%s listens on %s by default", e.Title, e.Address)
		}
	}
	if c.ExitOnError || c.Access.AllowAnonymous {
		t.Errorf("exit on error %v, anonymous %v; want neither", c.ExitOnError, c.Access.AllowAnonymous)
	}
}

// Clients that share memory run on the server's machine. If other machines can connect, shared memory is off by
// default.
func TestClientSharedMemory(t *testing.T) {
	for _, tt := range []struct {
		name         string
		asTriton     bool
		args         []string
		allowed, raw bool // raw: direct mapping
		owners       bool // objects of all users
	}{
		{name: "B053 loopback", allowed: true},
		{name: "B053 C10 DV44 HTTP on all addresses", args: []string{"--http-address=0.0.0.0", "--allow-anonymous"}},
		{name: "B053 C10 gRPC on all addresses", args: []string{"--grpc-address=::", "--allow-anonymous"}},
		{name: "B053 C10 metrics on all addresses", args: []string{"--metrics-address=0.0.0.0", "--allow-anonymous"},
			allowed: true},
		{name: "B053 C10 a listener that is off", args: []string{"--http-address=0.0.0.0", "--allow-http=false",
			"--metrics-address=::1"}, allowed: true},
		{name: "B053 C10 Vertex AI on all addresses", args: []string{"--http-address=0.0.0.0", "--allow-anonymous",
			"--allow-http=false", "--allow-grpc=false", "--allow-vertex-ai=true"}},
		{name: "B053 C10 Vertex AI on loopback", args: []string{"--allow-http=false", "--allow-grpc=false",
			"--allow-vertex-ai=true"}, allowed: true},
		{name: "B053 C10 SageMaker on all addresses", args: []string{"--http-address=0.0.0.0", "--allow-anonymous",
			"--allow-http=false", "--allow-sagemaker=true"}},
		{name: "B053 C10 asked for", args: []string{"--http-address=0.0.0.0", "--allow-anonymous",
			"--allow-client-shm=true"}, allowed: true},
		{name: "B053 refused on loopback", args: []string{"--allow-client-shm=off"}},
		{name: "B053 C10 under the name tritonserver", asTriton: true},
		{name: "B053 under the name tritonserver, asked for", asTriton: true, args: []string{"--allow-client-shm", "1"},
			allowed: true},
		{name: "direct mapping", args: []string{"--client-shm-direct=true"}, allowed: true, raw: true},
		{name: "C11 objects of all users", args: []string{"--client-shm-any-owner=true"}, allowed: true, owners: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			routes := func(name string) (string, bool) {
				return "/", name == "AIP_PREDICT_ROUTE" || name == "AIP_HEALTH_ROUTE"
			}
			c, err := Load(tt.asTriton, append(tt.args, "--data-dir=x"), routes)
			if err != nil {
				t.Fatal(err)
			}
			if o := c.Engine.SharedMemory; o.Disabled == tt.allowed || o.Direct != tt.raw ||
				o.AnyOwner != tt.owners {
				t.Errorf("allowed %v, direct %v, any owner %v; want %v, %v, %v", !o.Disabled, o.Direct, o.AnyOwner,
					tt.allowed, tt.raw, tt.owners)
			}
		})
	}
}

// A platform's own service is enough; without any service the server does not start.
func TestSomethingCanBeAsked_G015_H060(t *testing.T) {
	off := []string{"--data-dir=x", "--allow-http=false", "--allow-grpc=false", "--allow-ui=false"}
	environment := func(mode string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			value, ok := map[string]string{"AIP_MODE": mode, "AIP_PREDICT_ROUTE": "/p", "AIP_HEALTH_ROUTE": "/h"}[name]
			return value, ok && value != ""
		}
	}
	for _, tt := range []struct {
		name, mode string
		args       []string
		refused    bool
	}{
		{name: "SageMaker", args: append(off, "--allow-sagemaker=true")},
		{name: "Vertex AI", args: append(off, "--allow-vertex-ai=true")},
		{name: "Vertex AI by its environment", mode: "PREDICTION", args: []string{"--data-dir=x", "--allow-ui=false"}},
		{name: "nothing", args: off, refused: true},
		{name: "metrics only", args: append(off, "--allow-metrics=true"), refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(false, tt.args, environment(tt.mode))
			if got := err != nil && strings.Contains(err.Error(), "nothing could be asked"); got != tt.refused ||
				!tt.refused && err != nil {
				t.Errorf("error %v; want it refused: %v", err, tt.refused)
			}
		})
	}
}

func TestDefaultsUnderTheNameTritonserver(t *testing.T) {
	c, err := Load(true, []string{"--data-dir=x"}, none)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen.HTTP.Address != "0.0.0.0" || c.Listen.GRPC.Address != "0.0.0.0" ||
		c.Listen.Metrics.Address != "0.0.0.0" || !c.Access.AllowAnonymous || !c.ExitOnError {
		t.Errorf("defaults = %+v, want Triton's", c)
	}
	if !listen.IsLoopback(c.Listen.UI.Address) {
		t.Errorf("the console listens on %s", c.Listen.UI.Address)
	}
}

func TestH7_AddressesOpenToTheNetworkNeedATokenOrConsent(t *testing.T) {
	env := func(k string) (string, bool) { return "secret", k == "NEREID_TOKEN" }
	for _, args := range [][]string{{"--http-address=0.0.0.0"}, {"--grpc-address=192.168.1.2"},
		{"--metrics-address=::"}, {"--http-address=[::]"}} {
		for _, tt := range []struct {
			name   string
			more   []string
			lookup func(string) (string, bool)
			stored bool
			passes bool
		}{
			{name: "nothing guards", lookup: none},
			{name: "--allow-anonymous", more: []string{"--allow-anonymous"}, lookup: none, passes: true},
			{name: "NEREID_TOKEN", lookup: env, passes: true},
			{name: "a token in the store", lookup: none, stored: true, passes: true},
		} {
			c, err := Load(false, append(slices.Concat(args, tt.more), "--data-dir=x"), tt.lookup)
			if err != nil {
				t.Fatal(err)
			}
			err = c.CheckAccess(Tokens{Any: tt.stored})
			if (err == nil) != tt.passes || err != nil && (!strings.Contains(err.Error(), "--allow-anonymous") ||
				!strings.Contains(err.Error(), "nereid token create")) {
				t.Errorf("%q, %s: %v, want pass %v", args, tt.name, err, tt.passes)
			}
		}
	}
}

func TestH7_TheGUIOnTheNetworkNeedsTLSAndAnAdminToken(t *testing.T) {
	env := func(k string) (string, bool) { return "secret", k == "NEREID_TOKEN" }
	for _, tt := range []struct {
		name   string
		more   []string
		lookup func(string) (string, bool)
		has    Tokens
		passes bool
	}{
		{name: "nothing", lookup: none},
		{name: "--allow-anonymous", more: []string{"--allow-anonymous", "--ui-use-ssl=1"}, lookup: none},
		{name: "TLS only", more: []string{"--ui-use-ssl=1"}, lookup: none},
		{name: "a token without admin", more: []string{"--ui-use-ssl=1"}, lookup: none, has: Tokens{Any: true}},
		{name: "a token without TLS", lookup: none, has: Tokens{Any: true, Admin: true}},
		{name: "NEREID_TOKEN without TLS", lookup: env},
		{name: "both", more: []string{"--ui-use-ssl=1"}, lookup: none, has: Tokens{Any: true, Admin: true},
			passes: true},
		{name: "NEREID_TOKEN and TLS", more: []string{"--ui-use-ssl=1"}, lookup: env, passes: true},
	} {
		args := append([]string{"--ui-address=0.0.0.0", "--http-server-cert=c", "--http-server-key=k", "--data-dir=x"},
			tt.more...)
		c, err := Load(false, args, tt.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckAccess(tt.has); (err == nil) != tt.passes {
			t.Errorf("%s: %v, want pass %v", tt.name, err, tt.passes)
		}
	}
}

func TestUsageNamesEveryOption(t *testing.T) {
	text := Usage("nereid serve")
	for _, g := range Default(false).table() {
		for _, o := range g.options {
			for _, n := range o.names {
				if !strings.Contains(text, "--"+n) {
					t.Errorf("--%s is not in the usage text", n)
				}
			}
			if o.help == "" || o.set == nil || g.title == "" {
				t.Errorf("option %v is not whole", o.names)
			}
		}
	}
}

func TestTheResponseCacheIsSetOnce_H088(t *testing.T) {
	for _, args := range [][]string{
		{"--cache-config=local,size=1000", "--response-cache-byte-size=1000"},
		{"--cache-config=local,size=1000", "--cache-config=redis,host=x"},
		{"--cache-config=redis,host=x", "--cache-config=local,size=1000"},
		{"--cache-config=redis,host=x", "--cache-config=own,size=1000"},
		{"--cache-config=own,size=1000", "--cache-config=local,size=1000"},
		{"--cache-config=own,size=1000", "--cache-config=other,size=1000"},
		{"--response-cache-byte-size=1000", "--cache-config=local,size=1000"},
	} {
		if _, err := Load(false, append(args, "--data-dir="+t.TempDir()), none); err == nil ||
			!strings.Contains(err.Error(), "leave one of the two out") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestSizesOfTheCacheHaveBounds_C079(t *testing.T) {
	for size, ok := range map[string]bool{"1": true, "35184372088831": true, "35184372088832": false, "0": false,
		"-1": false, "1MiB": false} {
		_, err := Load(false, []string{"--cache-config=local,size=" + size, "--data-dir=" + t.TempDir()}, none)
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(),
			"size "+strconv.Quote(size)+" is not a number of bytes from 1 to 35184372088831") {
			t.Errorf("size=%s: %v", size, err)
		}
	}
}

// The last value counts, but 0 does not turn off what --cache-config made.
func TestTheResponseCacheIsTurnedOffAgain_H088(t *testing.T) {
	const own, other = "--response-cache-byte-size=", "--cache-config=local,size=1000"
	for args, want := range map[[2]string]int64{{own + "1000", own + "0"}: 0, {own + "0", own + "1000"}: 1000,
		{other, own + "0"}: 1000, {own + "0", other}: 1000} {
		c, err := Load(false, append(args[:], "--data-dir="+t.TempDir()), none)
		if err != nil || c.ResponseCache.Size != want {
			t.Errorf("%q: %v, %+v; want a size of %d", args, err, c.ResponseCache, want)
		}
	}
}

func TestSplitFiles(t *testing.T) {
	line, files := SplitFiles([]string{"a.onnx", "--http-port", "9", "--id=x", "--allow-ui", "false", "b c.zip", "-h",
		"--help", "d", "--nosuch", "e", "--http-port"})
	wantLine := []string{"--http-port", "9", "--id=x", "--allow-ui", "false", "-h", "--help", "--nosuch", "--http-port"}
	if want := []string{"a.onnx", "b c.zip", "d", "e"}; !slices.Equal(line, wantLine) || !slices.Equal(files, want) {
		t.Errorf("SplitFiles = %q and %q, want %q and %q", line, files, wantLine, want)
	}
}
