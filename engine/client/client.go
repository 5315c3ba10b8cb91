package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"nereid/engine/inferencepb"
)

// Client is what both protocols can. All errors that the server answers are *Error.
type Client interface {
	Live(ctx context.Context) (bool, error)
	Ready(ctx context.Context) (bool, error)
	// ModelReady asks for a version; "" asks for any.
	ModelReady(ctx context.Context, model, version string) (bool, error)

	ServerMetadata(ctx context.Context) (*inferencepb.ServerMetadataResponse, error)
	ModelMetadata(ctx context.Context, model, version string) (*inferencepb.ModelMetadataResponse, error)
	ModelConfig(ctx context.Context, model, version string) (*inferencepb.ModelConfig, error)
	// Statistics are of one model, or of all if model is "".
	Statistics(ctx context.Context, model, version string) (*inferencepb.ModelStatisticsResponse, error)

	// Index lists the models of the repositories; ready: only those that can be used.
	Index(ctx context.Context, ready bool) ([]*inferencepb.RepositoryIndexResponse_ModelIndex, error)
	Load(ctx context.Context, model string, o LoadOptions) error
	// Unload returns before the model is gone: requests that run are finished first.
	Unload(ctx context.Context, model string) error

	// RegisterMemory gives a name to a part of a POSIX shared memory object of the server's machine, whose key is as in
	// shm_open. The server may not allow it.
	RegisterMemory(ctx context.Context, region, key string, offset, byteSize uint64) error
	// UnregisterMemory forgets a region; "" forgets all.
	UnregisterMemory(ctx context.Context, region string) error

	// Infer waits for the answer. A decoupled model wants GRPC.Stream.
	Infer(ctx context.Context, r *Request) (*Response, error)

	Close() error
}

var (
	_ Client = (*HTTP)(nil)
	_ Client = (*GRPC)(nil)
)

// Request is one inference request. Only Model and Inputs are needed.
type Request struct {
	Model   string
	Version string // "": the server chooses
	ID      string // given back in the response
	Inputs  []Tensor
	Outputs []Output // empty: all

	Priority uint64        // 0: the model's default; 1 is highest
	Timeout  time.Duration // in the server's queue; 0: the model's default
	Sequence Sequence

	// Parameters reach the backend: bool, int64, string or float64.
	Parameters map[string]any

	// EmptyFinal asks a stream for a last response without outputs where the model sends none with its last one.
	EmptyFinal bool
}

// Output is one that is asked for.
type Output struct {
	Name    string
	Classes int     // above 0: the highest so many, as BYTES "value:index[:label]"
	Memory  *Memory // not nil: where the server is to write it
}

// Sequence says which sequence of requests a request belongs to: ID or Text is its correlation ID, none for neither.
type Sequence struct {
	ID         uint64
	Text       string
	Start, End bool
}

// LoadOptions are what a load may bring along.
type LoadOptions struct {
	Config string            // the model configuration as JSON, in place of the file
	Files  map[string][]byte // "1/model.onnx": contents, in place of the model's folder; they need Config
}

// Response is one answer.
type Response struct {
	Model, Version, ID string
	Outputs            []Tensor
	Parameters         map[string]any // bool, int64, uint64, string or float64

	// Final says that no further response to the request comes: always outside of streams, and in a stream with the last
	// one. A decoupled model may say so only in an answer to a request with EmptyFinal.
	Final bool
	// Err is, in a stream, what is wrong with one request, whose ID is the response's; the stream goes on.
	Err *Error
}

// Output returns the output of a name, nil if there is none.
func (r *Response) Output(name string) *Tensor {
	for i := range r.Outputs {
		if r.Outputs[i].Name == name {
			return &r.Outputs[i]
		}
	}
	return nil
}

// Error is what a server answered in place of a result.
type Error struct {
	Message string
	Code    codes.Code // of gRPC; over HTTP, the code that the status stands for
	Status  int        // of HTTP; 0 over gRPC
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP status %d)", e.Message, e.Status)
	}
	return fmt.Sprintf("%s (%v)", e.Message, e.Code)
}
