package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"nereid/engine/inferencepb"
)

// Client has the calls that both protocols have. An error that the server answers is an *Error.
type Client interface {
	Live(ctx context.Context) (bool, error)
	Ready(ctx context.Context) (bool, error)
	// ModelReady asks for a version; "" asks for any.
	ModelReady(ctx context.Context, model, version string) (bool, error)

	ServerMetadata(ctx context.Context) (*inferencepb.ServerMetadataResponse, error)
	ModelMetadata(ctx context.Context, model, version string) (*inferencepb.ModelMetadataResponse, error)
	ModelConfig(ctx context.Context, model, version string) (*inferencepb.ModelConfig, error)
	// Statistics returns those of one model, or of all models if model is "".
	Statistics(ctx context.Context, model, version string) (*inferencepb.ModelStatisticsResponse, error)

	// Index lists the models of the repositories, or only those that are ready.
	Index(ctx context.Context, ready bool) ([]*inferencepb.RepositoryIndexResponse_ModelIndex, error)
	Load(ctx context.Context, model string, o LoadOptions) error
	// Unload may return before the model is unloaded: requests in progress are finished first.
	Unload(ctx context.Context, model string) error

	// RegisterMemory gives a name to a part of a POSIX shared memory object on the server's machine. key is the name
	// as in shm_open. Servers may forbid it.
	RegisterMemory(ctx context.Context, region, key string, offset, byteSize uint64) error
	// UnregisterMemory removes a region, or all regions if region is "".
	UnregisterMemory(ctx context.Context, region string) error

	// Infer waits for the response. Use GRPC.Stream or HTTP.InferStream for a decoupled model.
	Infer(ctx context.Context, r *Request) (*Response, error)

	Close() error
}

var (
	_ Client = (*HTTP)(nil)
	_ Client = (*GRPC)(nil)
)

// Request is one inference request. Only Model and Inputs are required.
type Request struct {
	Model   string
	Version string // "": the server chooses
	ID      string // repeated in the response
	Inputs  []Tensor
	Outputs []Output // empty: all

	Priority uint64        // 0: the model's default; 1 is highest
	Timeout  time.Duration // in the server's queue; 0: the model's default
	Sequence Sequence

	// Parameters are for the model: bool, int64, string or float64.
	Parameters map[string]any

	// EmptyFinal asks a stream for a final response without outputs if the model does not mark its last response as
	// final.
	EmptyFinal bool
}

// Output is a requested output.
type Output struct {
	Name    string
	Classes int     // if above 0, only that many highest values, as BYTES "value:index[:label]"
	Memory  *Memory // if not nil, the server writes the output there
}

// Sequence is the sequence that a request belongs to. ID or Text is its correlation ID; if both are zero, there is
// none.
type Sequence struct {
	ID         uint64
	Text       string
	Start, End bool
}

// LoadOptions replace files of a model when it is loaded.
type LoadOptions struct {
	Config string            // the model configuration as JSON, instead of the file
	Files  map[string][]byte // contents by path ("1/model.onnx"), instead of the model's folder; they need Config
}

// Response is one response.
type Response struct {
	Model, Version, ID string
	Outputs            []Tensor
	Parameters         map[string]any // bool, int64, uint64, string or float64

	// Final: no further response to the request follows. It is always true outside of streams. A decoupled model may
	// set it only for requests with EmptyFinal.
	Final bool
	// Err is the error of one request in a stream. ID is that of the request. The stream goes on.
	Err *Error
}

// Output returns the output with a name, nil if there is none.
func (r *Response) Output(name string) *Tensor {
	for i := range r.Outputs {
		if r.Outputs[i].Name == name {
			return &r.Outputs[i]
		}
	}
	return nil
}

// Error is an error that a server answered.
type Error struct {
	Message string
	Code    codes.Code // of gRPC; over HTTP, the code that corresponds to the status
	Status  int        // of HTTP; 0 over gRPC
}

// Error returns the message in one line, and the status or code. Triton ends the message of a failed load with a
// semicolon and a line feed.
func (e *Error) Error() string {
	message := strings.TrimRight(e.Message, ";\n ")
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP status %d)", message, e.Status)
	}
	return fmt.Sprintf("%s (%v)", message, e.Code)
}
