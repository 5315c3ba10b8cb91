package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"nereid/engine"
	"nereid/engine/httpapi/compat"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/refusals"
	"nereid/engine/requests"
	"nereid/engine/restrict"
	"nereid/engine/shm"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// Engine is what this package needs of the engine. Errors carry Triton's code and the text that clients see.
type Engine interface {
	Infer(ctx context.Context, r *infer.Request) error
	Live() bool
	Ready() bool
	ServerMetadata() *inferencepb.ServerMetadataResponse
	ModelReady(name string, version int64) (bool, error)
	ModelMetadata(name string, version int64) (*inferencepb.ModelMetadataResponse, error)
	ModelConfig(name string, version int64) (*inferencepb.ModelConfig, error)
	ModelStatistics(name string, version int64) (*inferencepb.ModelStatisticsResponse, error)
	RepositoryIndex(ready bool) []*inferencepb.RepositoryIndexResponse_ModelIndex
	LoadModel(ctx context.Context, name string, p engine.LoadParameters) error
	UnloadModel(ctx context.Context, name string, dependents bool) error
	UnloadVersion(ctx context.Context, name string, version int64) error
	// SharedMemory returns the regions of memory that clients share with the server; nil: they cannot.
	SharedMemory() *shm.Registry
}

// Options of a server.
type Options struct {
	// Engine answers. Required.
	Engine Engine
	// Log; default: nothing is logged.
	Log *slog.Logger
	// Trace samples inferences; the trace extension shows it. nil: there is no tracing.
	Trace *trace.Tracer
	// LogControl is what the logging extension shows; nil: there is none.
	LogControl engine.LogControl
	// BasePath is what a proxy puts before /v2, for example "/api/predict/svc". Requests without it are served as well.
	BasePath string
	// ServerName is the Server header; "": none, as Triton.
	ServerName string

	// AllowedHosts are the names that the Host header may have in addition to addresses and localhost; "*" allows all.
	// nil: the header is not checked. Ports do not count.
	AllowedHosts []string
	// AllowedOrigins are the foreign origins ("https://app.example") whose pages may use the server: their requests are
	// served and the replies have CORS headers. There is no wildcard.
	AllowedOrigins []string
	// Authorize decides on every request, known path or not, before its body is read; nil allows all. An error that
	// is a *Denied chooses the status, others give 403. It is called from many goroutines.
	Authorize func(*Access) error

	// Metrics appends the server's metrics as Prometheus text, for load reports. nil: there are none.
	Metrics func(dst []byte) []byte
	// Refusals counts refused requests; nil: they are not counted.
	Refusals *refusals.Log
	// Requests records inferences and refused requests; nil: they are not recorded.
	Requests *requests.Log
	// Restricted are the groups of routes that need a header: Triton's --http-restricted-api. nil: none.
	Restricted *restrict.Rules
	// ForwardHeaders, if not nil, matches the names of the headers that become parameters of the inference request,
	// with string values: Triton's --http-header-forward-pattern.
	ForwardHeaders *regexp.Regexp

	// V1 serves KServe's v1 protocol, which is TensorFlow Serving's, below /v1/models in addition to v2.
	V1 bool
	// SageMaker or VertexAI, not both: the server answers that service's routes instead of the v2 ones.
	SageMaker *compat.SageMaker
	VertexAI  *compat.VertexAI

	// Memory bounds the requests and responses under way; nil: no bound.
	Memory *tensor.Budget
	// MaxBody bounds a request's body in bytes, as sent and decompressed. Default 64 MiB, as Triton's
	// --http-max-input-size.
	MaxBody int64
	// MaxHeader bounds a request's line and header together, in bytes. Default 8 KiB.
	MaxHeader int
	// MaxConnections bounds the open connections; more get 503. Default 65536.
	MaxConnections int
	// HeaderTimeout is how long a header may take. Default 10 s.
	HeaderTimeout time.Duration
	// StallTimeout is how long a body or a reply may make no progress at all. Default 60 s.
	StallTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request. Default 10 min.
	IdleTimeout time.Duration

	pollAfter time.Duration // how long a connection has no request before it is polled; tests shorten it
}

func (o *Options) complete() error {
	var errs []error
	if o.Engine == nil {
		errs = append(errs, errors.New("httpapi: Options.Engine is missing"))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.BasePath = strings.TrimSuffix(o.BasePath, "/")
	if o.BasePath != "" && o.BasePath[0] != '/' {
		errs = append(errs, fmt.Errorf("httpapi: base path %q does not begin with a slash", o.BasePath))
	}
	if o.MaxBody < 0 || o.MaxHeader < 0 || o.MaxConnections < 0 {
		errs = append(errs, errors.New("httpapi: a limit is negative; use 0 for the default"))
	}
	setDefault(&o.MaxBody, 64<<20)
	setDefault(&o.MaxHeader, 8<<10)
	setDefault(&o.MaxConnections, 65536)
	setDefault(&o.HeaderTimeout, 10*time.Second)
	setDefault(&o.StallTimeout, time.Minute)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.pollAfter, defaultPollAfter)
	return errors.Join(errs...)
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
