package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// GRPCOptions are options of a gRPC client. The zero value is for a server without TLS and access rules.
type GRPCOptions struct {
	Credentials credentials.TransportCredentials // default: none, h2c
	Metadata    map[string]string                // sent with every call
	Token       string                           // sent as authorization: Bearer
	MaxBytes    int                              // the largest message in either direction; default 2 GiB
	Dial        []grpc.DialOption                // applied after those of the other fields
}

// GRPC is a client over gRPC. See Client for its methods.
type GRPC struct {
	conn *grpc.ClientConn
	stub inferencepb.GRPCInferenceServiceClient
	md   metadata.MD
}

// NewGRPC returns a client of the server at an address such as "localhost:8001". It does not wait for a connection.
func NewGRPC(address string, o GRPCOptions) (*GRPC, error) {
	if o.Credentials == nil {
		o.Credentials = insecure.NewCredentials()
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = math.MaxInt32
	}
	opts := append([]grpc.DialOption{
		grpc.WithTransportCredentials(o.Credentials),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxBytes), grpc.MaxCallSendMsgSize(o.MaxBytes)),
	}, o.Dial...)
	conn, err := grpc.NewClient(address, opts...)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", address, err)
	}
	md := metadata.New(o.Metadata)
	if o.Token != "" {
		md.Set("authorization", "Bearer "+o.Token)
	}
	return &GRPC{conn: conn, stub: inferencepb.NewGRPCInferenceServiceClient(conn), md: md}, nil
}

// Close closes the connections; calls in progress fail.
func (c *GRPC) Close() error { return c.conn.Close() }

// with adds the metadata of the options.
func (c *GRPC) with(ctx context.Context) context.Context {
	if len(c.md) == 0 {
		return ctx
	}
	own, _ := metadata.FromOutgoingContext(ctx)
	return metadata.NewOutgoingContext(ctx, metadata.Join(own, c.md))
}

// serverError turns the error of a call into an *Error if it has a status.
func serverError(err error) error {
	if s, ok := status.FromError(err); err != nil && ok {
		return &Error{Message: s.Message(), Code: s.Code()}
	}
	return err
}

// Live implements Client.
func (c *GRPC) Live(ctx context.Context) (bool, error) {
	m, err := c.stub.ServerLive(c.with(ctx), &inferencepb.ServerLiveRequest{})
	return m.GetLive(), serverError(err)
}

// Ready implements Client.
func (c *GRPC) Ready(ctx context.Context) (bool, error) {
	m, err := c.stub.ServerReady(c.with(ctx), &inferencepb.ServerReadyRequest{})
	return m.GetReady(), serverError(err)
}

// ModelReady implements Client.
func (c *GRPC) ModelReady(ctx context.Context, model, version string) (bool, error) {
	m, err := c.stub.ModelReady(c.with(ctx), &inferencepb.ModelReadyRequest{Name: model, Version: version})
	return m.GetReady(), serverError(err)
}

// ServerMetadata implements Client.
func (c *GRPC) ServerMetadata(ctx context.Context) (*inferencepb.ServerMetadataResponse, error) {
	m, err := c.stub.ServerMetadata(c.with(ctx), &inferencepb.ServerMetadataRequest{})
	return m, serverError(err)
}

// ModelMetadata implements Client.
func (c *GRPC) ModelMetadata(ctx context.Context, model, version string) (*inferencepb.ModelMetadataResponse, error) {
	m, err := c.stub.ModelMetadata(c.with(ctx), &inferencepb.ModelMetadataRequest{Name: model, Version: version})
	return m, serverError(err)
}

// ModelConfig implements Client.
func (c *GRPC) ModelConfig(ctx context.Context, model, version string) (*inferencepb.ModelConfig, error) {
	m, err := c.stub.ModelConfig(c.with(ctx), &inferencepb.ModelConfigRequest{Name: model, Version: version})
	return m.GetConfig(), serverError(err)
}

// Statistics implements Client.
func (c *GRPC) Statistics(ctx context.Context, model, version string) (*inferencepb.ModelStatisticsResponse, error) {
	m, err := c.stub.ModelStatistics(c.with(ctx), &inferencepb.ModelStatisticsRequest{Name: model, Version: version})
	return m, serverError(err)
}

// Index implements Client.
func (c *GRPC) Index(ctx context.Context, ready bool) ([]*inferencepb.RepositoryIndexResponse_ModelIndex, error) {
	m, err := c.stub.RepositoryIndex(c.with(ctx), &inferencepb.RepositoryIndexRequest{Ready: ready})
	return m.GetModels(), serverError(err)
}

// Load implements Client.
func (c *GRPC) Load(ctx context.Context, model string, o LoadOptions) error {
	r := &inferencepb.RepositoryModelLoadRequest{ModelName: model,
		Parameters: map[string]*inferencepb.ModelRepositoryParameter{}}
	if o.Config != "" {
		r.Parameters["config"] = &inferencepb.ModelRepositoryParameter{
			ParameterChoice: &inferencepb.ModelRepositoryParameter_StringParam{StringParam: o.Config}}
	}
	for name, data := range o.Files {
		r.Parameters["file:"+name] = &inferencepb.ModelRepositoryParameter{
			ParameterChoice: &inferencepb.ModelRepositoryParameter_BytesParam{BytesParam: data}}
	}
	_, err := c.stub.RepositoryModelLoad(c.with(ctx), r)
	return serverError(err)
}

// Unload implements Client.
func (c *GRPC) Unload(ctx context.Context, model string) error {
	_, err := c.stub.RepositoryModelUnload(c.with(ctx), &inferencepb.RepositoryModelUnloadRequest{ModelName: model})
	return serverError(err)
}

// RegisterMemory implements Client.
func (c *GRPC) RegisterMemory(ctx context.Context, region, key string, offset, byteSize uint64) error {
	_, err := c.stub.SystemSharedMemoryRegister(c.with(ctx), &inferencepb.SystemSharedMemoryRegisterRequest{
		Name: region, Key: key, Offset: offset, ByteSize: byteSize})
	return serverError(err)
}

// UnregisterMemory implements Client.
func (c *GRPC) UnregisterMemory(ctx context.Context, region string) error {
	_, err := c.stub.SystemSharedMemoryUnregister(c.with(ctx),
		&inferencepb.SystemSharedMemoryUnregisterRequest{Name: region})
	return serverError(err)
}

// Infer implements Client.
func (c *GRPC) Infer(ctx context.Context, r *Request) (*Response, error) {
	m, err := EncodeGRPC(r)
	if err != nil {
		return nil, err
	}
	out, err := c.stub.ModelInfer(c.with(ctx), m)
	if err != nil {
		return nil, serverError(err)
	}
	resp, err := DecodeGRPC(r, out)
	if err == nil {
		resp.Final = true
	}
	return resp, err
}

// Stream sends many requests and receives their responses over one call. Decoupled models need it. One goroutine may
// send while another receives.
type Stream struct {
	call inferencepb.GRPCInferenceService_ModelStreamInferClient
}

// Stream opens a stream. To free it, cancel ctx, or call CloseSend and then Recv until it returns io.EOF.
func (c *GRPC) Stream(ctx context.Context) (*Stream, error) {
	call, err := c.stub.ModelStreamInfer(c.with(ctx))
	if err != nil {
		return nil, serverError(err)
	}
	return &Stream{call: call}, nil
}

// Send sends a request. Its ID distinguishes its responses from those of others. After an error, Recv returns the
// reason.
func (s *Stream) Send(r *Request) error {
	m, err := EncodeGRPC(r)
	if err != nil {
		return err
	}
	return s.call.Send(m)
}

// CloseSend announces that no more requests follow.
func (s *Stream) CloseSend() error { return s.call.CloseSend() }

// Recv waits for the next response. An error that it returns ends the stream; it is io.EOF when every request has been
// answered. The error of one request is in Response.Err.
func (s *Stream) Recv() (*Response, error) {
	m, err := s.call.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, serverError(err)
	}
	return streamed(m)
}

// streamed reads a response of a stream. An error without a final flag is the last response: of a request that was
// refused, or of a server older than Triton 24.10.
func streamed(m *inferencepb.ModelStreamInferResponse) (*Response, error) {
	r, err := DecodeGRPC(nil, m.GetInferResponse())
	if err != nil {
		return nil, err
	}
	final, said := r.Parameters["triton_final_response"].(bool)
	r.Final = final
	if text := m.GetErrorMessage(); text != "" {
		r.Final = final || !said
		r.Err = &Error{Message: text, Code: codes.Unknown}
	}
	return r, nil
}

// EncodeGRPC returns the message of a request, for callers that send it themselves.
func EncodeGRPC(r *Request) (*inferencepb.ModelInferRequest, error) {
	p, err := r.parameters()
	if err != nil {
		return nil, err
	}
	if r.EmptyFinal {
		p["triton_enable_empty_final_response"] = true
	}
	m := &inferencepb.ModelInferRequest{ModelName: r.Model, ModelVersion: r.Version, Id: r.ID,
		Parameters: pbParameters(p)}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		t := &inferencepb.ModelInferRequest_InferInputTensor{Name: in.Name, Datatype: in.DataType.String(),
			Shape: in.Shape}
		if in.Memory != nil {
			t.Parameters = pbParameters(in.Memory.parameters())
		} else {
			m.RawInputContents = append(m.RawInputContents, in.Data)
		}
		m.Inputs = append(m.Inputs, t)
	}
	for _, o := range r.Outputs {
		p := map[string]any{}
		if o.Memory != nil {
			p = o.Memory.parameters()
		}
		if o.Classes > 0 {
			p["classification"] = int64(o.Classes)
		}
		m.Outputs = append(m.Outputs, &inferencepb.ModelInferRequest_InferRequestedOutputTensor{
			Name: o.Name, Parameters: pbParameters(p)})
	}
	return m, nil
}

func pbParameters(p map[string]any) map[string]*inferencepb.InferParameter {
	m := make(map[string]*inferencepb.InferParameter, len(p))
	for k, v := range p {
		// Servers take sequence_id as int64 only, with the same bits, and older ones also priority.
		if u, ok := v.(uint64); ok && (k == "sequence_id" || u <= math.MaxInt64) {
			v = int64(u)
		}
		m[k] = &inferencepb.InferParameter{}
		switch v := v.(type) {
		case bool:
			m[k].ParameterChoice = &inferencepb.InferParameter_BoolParam{BoolParam: v}
		case int64:
			m[k].ParameterChoice = &inferencepb.InferParameter_Int64Param{Int64Param: v}
		case uint64:
			m[k].ParameterChoice = &inferencepb.InferParameter_Uint64Param{Uint64Param: v}
		case float64:
			m[k].ParameterChoice = &inferencepb.InferParameter_DoubleParam{DoubleParam: v}
		case string:
			m[k].ParameterChoice = &inferencepb.InferParameter_StringParam{StringParam: v}
		}
	}
	return m
}

func goParameters(p map[string]*inferencepb.InferParameter) map[string]any {
	if len(p) == 0 {
		return nil
	}
	m := make(map[string]any, len(p))
	for k, v := range p {
		switch c := v.GetParameterChoice().(type) {
		case *inferencepb.InferParameter_BoolParam:
			m[k] = c.BoolParam
		case *inferencepb.InferParameter_Int64Param:
			m[k] = c.Int64Param
		case *inferencepb.InferParameter_Uint64Param:
			m[k] = c.Uint64Param
		case *inferencepb.InferParameter_DoubleParam:
			m[k] = c.DoubleParam
		case *inferencepb.InferParameter_StringParam:
			m[k] = c.StringParam
		}
	}
	return m
}

// DecodeGRPC reads the response to a request, for callers that received it themselves; r is nil if they do not know the
// request. Outputs in shared memory have an empty entry of raw contents or, from some servers, none.
func DecodeGRPC(r *Request, m *inferencepb.ModelInferResponse) (*Response, error) {
	out := &Response{Model: m.GetModelName(), Version: m.GetModelVersion(), ID: m.GetId(),
		Parameters: goParameters(m.GetParameters())}
	raw := m.GetRawOutputContents()
	all := len(raw) == len(m.GetOutputs())
	for _, o := range m.GetOutputs() {
		t := Tensor{Name: o.GetName(), DataType: tensor.ParseDataType(o.GetDatatype()), Shape: o.GetShape()}
		t.Memory = memoryOf(r, t.Name, goParameters(o.GetParameters()))
		if t.Memory == nil || all {
			if len(raw) == 0 {
				return nil, fmt.Errorf("output %q of the response has no raw contents", o.GetName())
			}
			if t.Memory == nil {
				t.Data = raw[0]
			}
			raw = raw[1:]
		}
		out.Outputs = append(out.Outputs, t)
	}
	return out, nil
}
