package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
)

// HTTPOptions are options of an HTTP client. The zero value is for a server without access rules.
type HTTPOptions struct {
	Client   *http.Client // has TLS and timeouts; default: http.DefaultClient
	Header   http.Header  // sent with every request
	Token    string       // sent as Authorization: Bearer
	MaxBytes int64        // the largest response that is read; default 2 GiB

	// Tensors are sent as JSON numbers and strings instead of in binary form.
	JSONInputs, JSONOutputs bool
}

// HTTP is a client over HTTP. See Client for its methods.
type HTTP struct {
	base string
	opt  HTTPOptions
}

// NewHTTP returns a client of the server at a URL such as "http://localhost:8000". The URL may have a path, which is
// put before /v2. It does not connect.
func NewHTTP(base string, o HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("server %q is no URL such as http://localhost:8000", base)
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1<<31 - 1
	}
	return &HTTP{base: strings.TrimRight(base, "/"), opt: o}, nil
}

// Close closes idle connections.
func (c *HTTP) Close() error {
	c.opt.Client.CloseIdleConnections()
	return nil
}

// send sends a request with additional headers, pairs of a name and a value.
func (c *HTTP) send(ctx context.Context, method, path string, body []byte, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.opt.Header {
		req.Header[k] = v
	}
	if c.opt.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opt.Token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return c.opt.Client.Do(req)
}

// do sends a request like send, and returns the response's body and header. A status of 400 or above is an *Error.
func (c *HTTP) do(ctx context.Context, method, path string, body []byte, headers ...string) (
	[]byte, http.Header, error,
) {
	resp, err := c.send(ctx, method, path, body, headers...)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, c.opt.MaxBytes+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("reading the response to %s %s: %w", method, path, err)
	case int64(len(data)) > c.opt.MaxBytes:
		return nil, nil, fmt.Errorf("the response to %s %s has more than %d bytes; raise MaxBytes",
			method, path, c.opt.MaxBytes)
	case resp.StatusCode >= 400:
		return nil, nil, httpError(resp.StatusCode, data)
	}
	return data, resp.Header, nil
}

// grpcCodes are the codes of HTTP statuses. Others below 500 are InvalidArgument.
var grpcCodes = map[int]codes.Code{
	http.StatusNotFound: codes.NotFound, http.StatusUnauthorized: codes.Unauthenticated,
	http.StatusForbidden: codes.PermissionDenied, http.StatusInternalServerError: codes.Internal,
	http.StatusNotImplemented: codes.Unimplemented, http.StatusServiceUnavailable: codes.Unavailable,
}

func httpError(status int, body []byte) *Error {
	e := &Error{Status: status, Code: codes.Unknown, Message: http.StatusText(status)}
	var text struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &text) == nil && text.Error != "" {
		e.Message = text.Error
	}
	if code, ok := grpcCodes[status]; ok {
		e.Code = code
	} else if status < 500 {
		e.Code = codes.InvalidArgument
	}
	return e
}

// get reads a message that the server sends as JSON.
func (c *HTTP) get(ctx context.Context, path string, m proto.Message) error {
	data, _, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return fmt.Errorf("the response to GET %s: %w", path, err)
	}
	return nil
}

func modelPath(model, version string) string {
	p := "/v2/models/" + url.PathEscape(model)
	if version != "" {
		p += "/versions/" + url.PathEscape(version)
	}
	return p
}

// health is true for 200 and false for 400.
func (c *HTTP) health(ctx context.Context, path string) (bool, error) {
	_, _, err := c.do(ctx, http.MethodGet, path, nil)
	if e, ok := err.(*Error); ok && e.Status == http.StatusBadRequest { // do returns it as it is
		return false, nil
	}
	return err == nil, err
}

// Live implements Client.
func (c *HTTP) Live(ctx context.Context) (bool, error) { return c.health(ctx, "/v2/health/live") }

// Ready implements Client.
func (c *HTTP) Ready(ctx context.Context) (bool, error) { return c.health(ctx, "/v2/health/ready") }

// ModelReady implements Client.
func (c *HTTP) ModelReady(ctx context.Context, model, version string) (bool, error) {
	return c.health(ctx, modelPath(model, version)+"/ready")
}

// ServerMetadata implements Client.
func (c *HTTP) ServerMetadata(ctx context.Context) (*inferencepb.ServerMetadataResponse, error) {
	m := new(inferencepb.ServerMetadataResponse)
	return m, c.get(ctx, "/v2", m)
}

// ModelMetadata implements Client.
func (c *HTTP) ModelMetadata(ctx context.Context, model, version string) (*inferencepb.ModelMetadataResponse, error) {
	m := new(inferencepb.ModelMetadataResponse)
	return m, c.get(ctx, modelPath(model, version), m)
}

// ModelConfig implements Client.
func (c *HTTP) ModelConfig(ctx context.Context, model, version string) (*inferencepb.ModelConfig, error) {
	m := new(inferencepb.ModelConfig)
	return m, c.get(ctx, modelPath(model, version)+"/config", m)
}

// Statistics implements Client.
func (c *HTTP) Statistics(ctx context.Context, model, version string) (*inferencepb.ModelStatisticsResponse, error) {
	path := "/v2/models/stats"
	if model != "" {
		path = modelPath(model, version) + "/stats"
	}
	m := new(inferencepb.ModelStatisticsResponse)
	return m, c.get(ctx, path, m)
}

// Index implements Client.
func (c *HTTP) Index(ctx context.Context, ready bool) ([]*inferencepb.RepositoryIndexResponse_ModelIndex, error) {
	data, _, err := c.do(ctx, http.MethodPost, "/v2/repository/index", fmt.Appendf(nil, `{"ready":%t}`, ready))
	if err != nil {
		return nil, err
	}
	var m inferencepb.RepositoryIndexResponse
	whole := append(append([]byte(`{"models":`), data...), '}')
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(whole, &m); err != nil {
		return nil, fmt.Errorf("the repository index: %w", err)
	}
	return m.GetModels(), nil
}

// Load implements Client.
func (c *HTTP) Load(ctx context.Context, model string, o LoadOptions) error {
	parameters := map[string]string{}
	if o.Config != "" {
		parameters["config"] = o.Config
	}
	for name, data := range o.Files {
		parameters["file:"+name] = base64.StdEncoding.EncodeToString(data)
	}
	body, err := json.Marshal(map[string]any{"parameters": parameters})
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, http.MethodPost, "/v2/repository/models/"+url.PathEscape(model)+"/load", body)
	return err
}

// Unload implements Client.
func (c *HTTP) Unload(ctx context.Context, model string) error {
	_, _, err := c.do(ctx, http.MethodPost, "/v2/repository/models/"+url.PathEscape(model)+"/unload", nil)
	return err
}

// RegisterMemory implements Client.
func (c *HTTP) RegisterMemory(ctx context.Context, region, key string, offset, byteSize uint64) error {
	body, err := json.Marshal(map[string]any{"key": key, "offset": offset, "byte_size": byteSize})
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, http.MethodPost, "/v2/systemsharedmemory/region/"+url.PathEscape(region)+"/register", body)
	return err
}

// UnregisterMemory implements Client.
func (c *HTTP) UnregisterMemory(ctx context.Context, region string) error {
	path := "/v2/systemsharedmemory/unregister"
	if region != "" {
		path = "/v2/systemsharedmemory/region/" + url.PathEscape(region) + "/unregister"
	}
	_, _, err := c.do(ctx, http.MethodPost, path, nil)
	return err
}

// Infer implements Client.
func (c *HTTP) Infer(ctx context.Context, r *Request) (*Response, error) {
	body, headers, err := encodeInfer(r, &c.opt)
	if err != nil {
		return nil, err
	}
	data, header, err := c.do(ctx, http.MethodPost, modelPath(r.Model, r.Version)+"/infer", body, headers...)
	if err != nil {
		return nil, err
	}
	out, err := DecodeHTTP(r, data, header.Get(HeaderLength))
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", r.Model, err)
	}
	return out, nil
}

// encodeInfer returns the body of a request and its headers, pairs of a name and a value.
func encodeInfer(r *Request, o *HTTPOptions) (body []byte, headers []string, err error) {
	body, n, err := EncodeHTTP(r, o)
	if o.JSONInputs {
		return body, []string{"Content-Type", "application/json"}, err
	}
	return body, []string{"Content-Type", "application/octet-stream", HeaderLength, strconv.Itoa(n)}, err
}

// InferStream sends a request and calls each with every response when it arrives, until the last one. It is for
// decoupled models, and works with Nereid only: Triton streams over gRPC. The server sends the outputs as JSON. An
// error of each is returned at once, and the server cancels the request.
func (c *HTTP) InferStream(ctx context.Context, r *Request, each func(*Response) error) error {
	o := c.opt
	o.JSONOutputs = true
	body, headers, err := encodeInfer(r, &o)
	if err != nil {
		return err
	}
	path := modelPath(r.Model, r.Version) + "/infer"
	resp, err := c.send(ctx, http.MethodPost, path, body, append(headers, "Accept", "text/event-stream")...)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return noEvents(path, kind, resp, o.MaxBytes)
	}
	status := resp.StatusCode // of the first event
	events := bufio.NewScanner(resp.Body)
	events.Buffer(nil, int(o.MaxBytes))
	for events.Scan() {
		data, isEvent := bytes.CutPrefix(events.Bytes(), []byte("data: "))
		if !isEvent {
			continue
		}
		one, err := decodeEvent(r, status, bytes.Clone(data))
		if err == nil {
			err = each(one)
		}
		if err != nil {
			return err
		}
		status = http.StatusOK
	}
	if err := events.Err(); err != nil {
		return fmt.Errorf("reading the response to POST %s: %w", path, err)
	}
	return nil
}

// noEvents returns the error of a response without events: a refusal, or that of a server that does not stream.
func noEvents(path, kind string, resp *http.Response, limit int64) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	switch {
	case resp.StatusCode >= 400:
		return httpError(resp.StatusCode, data)
	case err != nil:
		return fmt.Errorf("reading the response to POST %s: %w", path, err)
	}
	return fmt.Errorf("the response to POST %s has the type %q; the server does not stream over HTTP", path, kind)
}

// decodeEvent reads one response of a stream, which may be the error of one. status is that of the HTTP response for
// the first one, else 200.
func decodeEvent(r *Request, status int, data []byte) (*Response, error) {
	var failed struct {
		Error *string `json:"error"`
	}
	if json.Unmarshal(data, &failed) == nil && failed.Error != nil {
		err := &Error{Message: *failed.Error, Code: codes.Unknown}
		if status >= 400 {
			err = httpError(status, data)
		}
		return &Response{ID: r.ID, Err: err}, nil
	}
	one, err := DecodeHTTP(r, data, "")
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", r.Model, err)
	}
	one.Final = false // a stream does not say which is the last one
	return one, nil
}
