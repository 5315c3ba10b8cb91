package httpapi

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/classification"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// replySize is the memory that a reply gets at first: enough for most.
const replySize = 4 << 10

// errDecoupled is the answer of infer for models that may give any number of responses.
func errDecoupled() error {
	return status.New(status.Unsupported, "HTTP end point doesn't support models with decoupled transaction policy")
}

func decoupled(cfg *inferencepb.ModelConfig) bool {
	return cfg.GetModelTransactionPolicy().GetDecoupled()
}

// inferRoute handles POST /v2/models/{model}[/versions/{version}]/infer.
func inferRoute(s *Server, x *exchange) error {
	model, version, err := s.target(x)
	if err != nil {
		return err
	}
	return s.infer(x, model, version)
}

// infer answers an inference. Errors that are found before and after the body is read have different content types, as
// in Triton.
func (s *Server) infer(x *exchange, model string, version int64) error {
	cfg, err := s.opt.Engine.ModelConfig(model, version) // Triton looks at the model before the body
	if err == nil && decoupled(cfg) && !strings.Contains(x.header("Accept"), "text/event-stream") {
		err = errDecoupled()
	}
	if err != nil {
		s.discardBody(x)
		return err
	}
	r := s.newRequest(x, model, version)
	if decoupled(cfg) {
		return asJSON(s.inferEvents(x, r, cfg))
	}
	defer r.Release()
	form, err := s.readInfer(x, r, cfg)
	if err != nil {
		return asJSON(err)
	}
	switch err = s.admit(x, r); {
	case err == nil:
	case status.CodeOf(err) == status.NotFound:
		return err // the model was unloaded meanwhile
	default:
		return asJSON(err)
	}
	if r.Served.Decoupled() { // the model was reloaded meanwhile
		r.Cancel()
		return errDecoupled()
	}
	resp, err := s.next(x, r)
	if err != nil {
		return err
	}
	defer resp.Release()
	if x.wantTiming {
		x.timing = serverTiming(r)
	}
	return s.reply(x, r, resp, form)
}

// newRequest makes the request of an inference and decides whether it is traced.
func (s *Server) newRequest(x *exchange, model string, version int64) *infer.Request {
	r := infer.New()
	r.ModelName, r.Version = model, version
	if s.opt.Requests != nil {
		s.record(x).Attach(r)
	}
	if !s.opt.Trace.On() {
		return r
	}
	start := infer.Now()
	parent := trace.Parent{TraceParent: x.header("Traceparent"), TraceState: x.header("Tracestate")}
	if tr := s.opt.Trace.Sample(model, parent); tr != nil {
		tr.Asked(version, "")
		tr.Mark(trace.HTTPRecvStart, start)
		x.conn.trace, r.Trace = tr, tr
	}
	return r
}

// admit hands a request that was read to the engine.
func (s *Server) admit(x *exchange, r *infer.Request) error {
	x.conn.trace.Asked(r.Version, r.ID)
	if err := s.forwardHeaders(x, r); err != nil {
		return err
	}
	r.Times.Arrived = infer.Now()
	x.conn.trace.Mark(trace.HTTPRecvEnd, r.Times.Arrived)
	r.Client = x.conn
	return s.opt.Engine.Infer(x.conn, r)
}

// forwardHeaders makes parameters of the headers whose names match Options.ForwardHeaders. A parameter of the body with
// the same name is replaced. Errors: InvalidArg for a name that the protocol reserves.
func (s *Server) forwardHeaders(x *exchange, r *infer.Request) error {
	if s.opt.ForwardHeaders == nil {
		return nil
	}
	for line := range bytes.SplitSeq(x.lines, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !s.opt.ForwardHeaders.Match(name) {
			continue
		}
		if err := r.SetForwarded(string(name), strings.Trim(string(value), " \t")); err != nil {
			return err
		}
	}
	return nil
}

// next waits for the next response of r. It fails if the client left or the server is closed, and then cancels r.
func (s *Server) next(x *exchange, r *infer.Request) (*infer.Response, error) {
	resp, err := r.Next(x.conn)
	if err != nil {
		r.Cancel()
		x.closeAfter = true
	}
	return resp, err
}

// inferEvents answers an inference of a model that gives any number of responses with server-sent events. Each event
// has the form of an infer reply. It releases r.
func (s *Server) inferEvents(x *exchange, r *infer.Request, cfg *inferencepb.ModelConfig) error {
	form, err := s.readInfer(x, r, cfg)
	wantsBinary := func(o infer.RequestedOutput) bool { return o.Binary }
	if err == nil && (form.Binary && len(r.Outputs) == 0 || slices.ContainsFunc(r.Outputs, wantsBinary)) {
		err = status.New(status.InvalidArg, "server-sent events are text: send JSON and leave out "+
			"binary_data and binary_data_output, or use gRPC streaming")
	}
	if err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		r.Release()
		return err
	}
	return s.startStream(x, r, func(w *tensorjson.Builder, r *infer.Request, resp *infer.Response) error {
		if err := convertOutputs(r, resp); err != nil {
			return err
		}
		_, err := tensorjson.Response{}.Append(w, r, resp)
		return err
	})
}

// convertOutputs turns the outputs into what the request asks for: classes, or bytes in shared memory.
func convertOutputs(r *infer.Request, resp *infer.Response) error {
	if err := classification.Apply(r, resp); err != nil {
		return err
	}
	return shm.Store(r, resp)
}

// readInfer reads the body into r.
func (s *Server) readInfer(x *exchange, r *infer.Request, cfg *inferencepb.ModelConfig) (tensorjson.Response, error) {
	var form tensorjson.Response
	jsonLength := int64(-1)
	if x.hasHeaderLength {
		var err error
		if jsonLength, err = strconv.ParseInt(string(x.headerLength), 10, 64); err != nil {
			s.discardBody(x)
			return form, asText(status.New(status.InvalidArg,
				"Inference-Header-Content-Length must be a number of bytes, got: "+
					tensorjson.Printable(x.headerLength)))
		}
	}
	offset := 0
	if jsonLength > 0 {
		offset = int(-jsonLength & 63) // so that the first tensor behind the JSON part is aligned
	}
	buf, body, err := s.readBody(x, offset)
	if err != nil {
		return form, err
	}
	r.Own(buf)
	switch size := int64(len(body)); {
	case jsonLength == 0 || size == 0:
		form.Binary = true
		r.Inputs = append(r.Inputs, tensor.Tensor{Data: body, Buf: buf}) // a raw binary request
		return form, r.CompleteRaw(cfg)
	case !x.hasHeaderLength:
		jsonLength = size
	case jsonLength < 0 || jsonLength > size:
		return form, asText(status.Errorf(status.InvalidArg,
			"inference header size should be in range (0, %d), got: %d",
			size, jsonLength))
	}
	x.parser.Pool, x.parser.Regions = &s.pool, s.regions
	if x.fromVisitor {
		x.parser.Regions = nil
	}
	form.Binary, err = x.parser.Infer(r, buf, body, jsonLength)
	if x.fromVisitor {
		r.Priority = 0 // a visitor does not overtake others
	}
	return form, err
}

// asText makes the reply of an error plain text on any route.
func asText(err error) error { return typedError{err, typeText, httpStatus(err)} }

// reply writes a response, or its error.
func (s *Server) reply(x *exchange, r *infer.Request, resp *infer.Response, form tensorjson.Response) error {
	if resp.Err != nil {
		return resp.Err
	}
	if len(r.Outputs) > 0 {
		if err := convertOutputs(r, resp); err != nil {
			return err
		}
	}
	if len(x.acceptEncoding) == 0 { // a reply that may be compressed is needed in one piece
		form.Large = &x.large
	}
	w := &x.out
	w.Start(&s.pool, replySize)
	jsonLength, err := form.Append(w, r, resp)
	if err != nil {
		w.Drop()
		return err
	}
	x.status, x.contentType, x.jsonLength = 200, typeJSON, jsonLength
	if jsonLength >= 0 {
		x.contentType = typeBinary
	}
	x.reply = w.Finish()
	s.compress(x)
	return nil
}

// maxTimedSteps bounds the steps in Server-Timing: clients limit the size of a reply's header.
const maxTimedSteps = 64

// serverTiming is the value of a Server-Timing header: the durations of a request's phases in milliseconds, and the
// steps of an ensemble in the order in which they began, as step-1-model;desc="model:version";start=0.100;dur=0.123.
// start is the time since the beginning of total.
func serverTiming(r *infer.Request) string {
	t := &r.Times
	b := make([]byte, 0, 96+64*len(r.Steps))
	for _, phase := range []struct {
		name     string
		from, to infer.Stamp
	}{
		{"queue", t.Queued, t.Taken}, {", input", t.Taken, t.Input}, {", infer", t.Input, t.Output},
		{", output", t.Output, t.Finished}, {", total", t.Arrived, t.Finished},
	} {
		b = append(append(b, phase.name...), ";dur="...)
		b = appendMillis(b, phase.from, phase.to)
	}
	steps := slices.Clone(r.Steps)
	slices.SortStableFunc(steps, func(p, q infer.StepTimes) int { return cmp.Compare(p.Queued, q.Queued) })
	for i := range steps[:min(len(steps), maxTimedSteps)] {
		b = appendStep(b, i+1, &steps[i], t.Arrived)
	}
	return string(b)
}

func appendStep(b []byte, n int, s *infer.StepTimes, zero infer.Stamp) []byte {
	b = strconv.AppendInt(append(b, ", step-"...), int64(n), 10)
	b = append(b, '-')
	for _, c := range []byte(s.Model) { // a token of HTTP
		if c < '0' || c > '9' && c < 'A' || c > 'Z' && c < '_' || c == '`' || c > 'z' {
			c = '_'
		}
		b = append(b, c)
	}
	b = append(b, `;desc="`...)
	for _, c := range []byte(s.Model) { // a quoted string of HTTP
		switch {
		case c < ' ' || c > '~':
			c = '?'
		case c == '"' || c == '\\':
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	b = strconv.AppendInt(append(b, ':'), s.Version, 10)
	b = appendMillis(append(b, `";start=`...), zero, s.Queued)
	return appendMillis(append(b, ";dur="...), s.Queued, s.Finished)
}

func appendMillis(b []byte, from, to infer.Stamp) []byte {
	return strconv.AppendFloat(b, float64(to.Sub(from).Microseconds())/1000, 'f', 3, 64)
}
