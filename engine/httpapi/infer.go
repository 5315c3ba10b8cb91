package httpapi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/classification"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// inferExchange is the state of an inference request that is kept from one to the next.
type inferExchange struct {
	parser requestParser
	out    builder
}

// errDecoupled is what infer answers for models that may give any number of responses.
func errDecoupled() error {
	return status.New(status.Unsupported, "HTTP end point doesn't support models with decoupled transaction policy")
}

// infer handles POST /v2/models/{model}[/versions/{version}]/infer.
func (s *Server) infer(x *exchange, model string, version int64) {
	// Triton looks at the model before it looks at the body.
	cfg, err := s.opt.Engine.ModelConfig(model, version)
	events := false
	if err == nil && cfg.GetModelTransactionPolicy().GetDecoupled() {
		if events = strings.Contains(x.header("Accept"), "text/event-stream"); !events {
			err = errDecoupled()
		}
	}
	if err != nil {
		s.readAway(x)
		x.failWith(typeText, err)
		return
	}
	s.names.keep(model)
	if events {
		s.inferEvents(x, model, version, cfg)
		return
	}
	r := infer.New()
	defer r.Release()
	r.ModelName, r.Version = model, version
	s.sample(x, r)
	o, ok := s.readInfer(x, r, cfg)
	if !ok {
		return
	}
	if err = s.forward(x, r); err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		contentType := typeJSON
		if status.CodeOf(err) == status.NotFound {
			contentType = typeText // the model went since
		}
		x.failWith(contentType, err)
		return
	}
	if r.Served.Decoupled() { // it was reloaded since
		r.Cancel()
		x.failWith(typeText, errDecoupled())
		return
	}
	resp, err := r.Next(x.conn)
	if err != nil { // the client is gone, or the server is being closed by force
		r.Cancel()
		x.closeAfter = true
		x.failWith(typeText, err)
		return
	}
	if x.wantTiming {
		x.timing = serverTiming(r)
	}
	s.reply(x, r, resp, cfg, o)
	resp.Release()
}

// inferEvents answers an inference of a model that gives any number of responses, for a client that accepts
// server-sent events: each response is an event, in the form that infer gives.
func (s *Server) inferEvents(x *exchange, model string, version int64, cfg *inferencepb.ModelConfig) {
	r := infer.New()
	r.ModelName, r.Version = model, version
	s.sample(x, r)
	o, ok := s.readInfer(x, r, cfg)
	if !ok {
		r.Release()
		return
	}
	err := s.forward(x, r)
	if err == nil && (o.binary && len(r.Outputs) == 0 || slices.ContainsFunc(r.Outputs, func(q infer.RequestedOutput) bool { return q.Binary })) {
		err = status.New(status.InvalidArg, "server-sent events are text: leave out binary_data and binary_data_output, or use gRPC streaming")
	}
	if err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		r.Release()
		x.failWith(typeJSON, err)
		return
	}
	batched := cfg.GetMaxBatchSize() > 0
	s.startStream(x, r, func(w *builder, r *infer.Request, resp *infer.Response) error {
		if err := shape(r, resp, batched); err != nil {
			return err
		}
		return encodeInference(w, r, resp)
	})
}

// shape makes of the outputs what the client wants: classes, or bytes in shared memory. Every response of a request goes
// through it before it is encoded.
func shape(r *infer.Request, resp *infer.Response, batched bool) error {
	if err := classification.Apply(r, resp, batched); err != nil {
		return err
	}
	return shm.Store(r, resp)
}

// serverTiming writes where a request's time went, in milliseconds, in the form of the Server-Timing header: its phases,
// and the steps of an ensemble in the order in which they began, as step-1-model;desc="model:version";start=0.100;dur=0.123,
// start since the beginning of total.
func serverTiming(r *infer.Request) string {
	t := &r.Times
	b := make([]byte, 0, 96+64*len(r.Steps))
	for _, part := range []struct {
		name     string
		from, to infer.Stamp
	}{
		{"queue", t.Queued, t.Taken}, {"input", t.Taken, t.Input}, {"infer", t.Input, t.Output}, {"output", t.Output, t.Finished},
		{"total", t.Arrived, t.Finished},
	} {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, part.name...), ";dur="...)
		b = appendMillis(b, part.from, part.to)
	}
	steps := slices.Clone(r.Steps)
	slices.SortStableFunc(steps, func(p, q infer.StepTimes) int { return cmp.Compare(p.Queued, q.Queued) })
	for i := range steps[:min(len(steps), maxTimedSteps)] {
		b = appendStep(b, i+1, &steps[i], t.Arrived)
	}
	return string(b)
}

// maxTimedSteps is how many steps Server-Timing tells: clients limit the size of a reply's header.
const maxTimedSteps = 64

func appendStep(b []byte, n int, s *infer.StepTimes, zero infer.Stamp) []byte {
	b = strconv.AppendInt(append(b, ", step-"...), int64(n), 10)
	b = append(b, '-')
	for _, c := range []byte(s.Model) { // a token
		if c < '0' || c > '9' && c < 'A' || c > 'Z' && c < '_' || c == '`' || c > 'z' {
			c = '_'
		}
		b = append(b, c)
	}
	b = append(b, `;desc="`...)
	for _, c := range []byte(s.Model) {
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

// readInfer reads the body into r. If it returns false, the reply is an error already.
func (s *Server) readInfer(x *exchange, r *infer.Request, cfg *inferencepb.ModelConfig) (o reply, ok bool) {
	headerLength := int64(-1)
	if x.hasHeaderLength {
		var err error
		if headerLength, err = strconv.ParseInt(string(x.headerLength), 10, 64); err != nil {
			s.readAway(x)
			x.fail(400, typeText, "Inference-Header-Content-Length must be a number of bytes, got: "+
				printable(x.headerLength))
			return o, false
		}
	}
	// The tensors behind the JSON part shall be aligned for whatever looks at them.
	offset := 0
	if headerLength > 0 {
		offset = int(-headerLength & 63)
	}
	buf, body, err := s.readBody(x, offset)
	if err != nil {
		s.replyBodyError(x, err)
		return o, false
	}
	r.Own(buf)
	switch size := int64(len(body)); {
	case headerLength == 0 || size == 0:
		return reply{binary: true}, readRaw(x, r, cfg, buf, body)
	case headerLength < 0 && !x.hasHeaderLength:
		headerLength = size
	case headerLength < 0 || headerLength > size:
		x.fail(400, typeText, "inference header size should be in range (0, "+strconv.FormatInt(size, 10)+"), got: "+
			strconv.FormatInt(headerLength, 10))
		return o, false
	}
	p := &x.infer.parser
	p.pool, p.regions = &s.pool, s.regions
	err = p.parse(r, body[:headerLength:headerLength])
	if err == nil {
		err = p.takeBinary(r, buf, body[headerLength:])
	}
	if err != nil {
		x.failWith(typeJSON, err)
		return o, false
	}
	return reply{binary: p.binaryOutput}, true
}

// takeBinary gives the bytes behind the JSON part to the inputs that asked for them, in order.
func (p *requestParser) takeBinary(r *infer.Request, buf *tensor.Buffer, tail []byte) error {
	for i, size := range p.binarySizes {
		if size < 0 {
			continue
		}
		in := &r.Inputs[i]
		if have := int64(len(tail)); size > have {
			return status.New(status.InvalidArg, "unexpected size for input '"+in.Name+"', expecting "+
				strconv.FormatInt(size-have, 10)+" additional bytes for model '"+r.ModelName+"'")
		}
		in.Data, in.Buf = tail[:size:size], buf
		tail = tail[size:]
	}
	if len(tail) > 0 {
		return status.New(status.InvalidArg, "unexpected additional input data for model '"+r.ModelName+"'")
	}
	return nil
}

// reply writes a response, or its error.
func (s *Server) reply(x *exchange, r *infer.Request, resp *infer.Response, cfg *inferencepb.ModelConfig, o reply) {
	if resp.Err != nil {
		x.failWith(typeText, resp.Err)
		return
	}
	if len(r.Outputs) > 0 {
		if err := shape(r, resp, cfg.GetMaxBatchSize() > 0); err != nil {
			x.failWith(typeText, err)
			return
		}
	}
	if len(x.acceptEncoding) == 0 { // what may be compressed is needed in one piece
		o.big = &x.big
	}
	w := &x.infer.out
	w.start(&s.pool, o.size(r, resp))
	jsonLength, err := o.encode(w, r, resp)
	if err != nil {
		w.drop()
		x.failWith(typeText, err)
		return
	}
	x.status, x.contentType, x.jsonLength = 200, typeJSON, jsonLength
	if jsonLength >= 0 {
		x.contentType = typeBinary
	}
	x.reply = w.finish()
	s.compress(x)
}

// replySize guesses the bytes of a reply.
func replySize(resp *infer.Response) int {
	n := 512
	for i := range resp.Outputs {
		n += 128 + len(resp.Outputs[i].Data)*2
	}
	return n
}

// readAway reads and forgets a small body, so that the connection can be used again.
func (s *Server) readAway(x *exchange) {
	if x.body == nil || x.length == 0 {
		x.drained = true
		return
	}
	if x.length > 0 && x.length <= 64<<10 {
		x.conn.enter(reading)
		x.drained = rest(x.body)
		x.conn.enter(working)
	}
}

// printable returns a header's value fit for an error text.
func printable(b []byte) string {
	q := strconv.QuoteToASCII(string(b[:min(len(b), 64)]))
	return q[1 : len(q)-1]
}
