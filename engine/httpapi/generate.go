package httpapi

import (
	"errors"
	"math"
	"slices"
	"strings"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// maxGenerateParameters bounds the members of a generate request that are no inputs.
const maxGenerateParameters = 4096

// errManyResponses is what generate answers when a model gives none or several responses. Triton sends it with status
// 200, so that clients take it for an answer.
func errManyResponses() error {
	return status.New(status.InvalidArg, "generate expects model to produce exactly 1 response, "+
		"use generate stream for model that generates various number of responses")
}

// generate handles POST /v2/models/{model}[/versions/{version}]/generate and generate_stream.
func (s *Server) generate(x *exchange, streaming bool) {
	model, version, ok := s.target(x, typeJSON)
	if !ok {
		return
	}
	cfg, err := s.opt.Engine.ModelConfig(model, version)
	if err != nil {
		s.readAway(x)
		x.failWith(typeJSON, err)
		return
	}
	s.names.keep(model)
	r := infer.New()
	r.ModelName, r.Version = model, version
	s.sample(x, r)
	buf, body, err := s.readBody(x, 0)
	if err != nil {
		r.Release()
		s.replyBodyError(x, err)
		return
	}
	r.Own(buf)
	p := &x.infer.parser
	p.pool = &s.pool
	if err = p.parseGenerate(r, cfg, body); err == nil {
		err = s.forward(x, r)
	}
	if err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		r.Release()
		x.failWith(typeJSON, err)
		return
	}
	s.reportLoad(x)
	if streaming {
		s.startStream(x, r, encodeGenerated)
		return
	}
	defer r.Release()
	s.generateOne(x, r)
}

// admit hands a request to the engine.
func (s *Server) admit(x *exchange, r *infer.Request) error {
	r.Times.Arrived = infer.Now()
	x.conn.trace.Mark(trace.HTTPRecvEnd, r.Times.Arrived)
	r.Client = x.conn
	return s.opt.Engine.Infer(x.conn, r)
}

// generateOne answers with the only response of r.
func (s *Server) generateOne(x *exchange, r *infer.Request) {
	var only *infer.Response
	defer func() {
		if only != nil {
			only.Release()
		}
	}()
	for final := false; !final; {
		resp, err := r.Next(x.conn)
		if err != nil { // the client is gone, or the server is being closed by force
			r.Cancel()
			x.closeAfter = true
			x.failWith(typeJSON, err)
			return
		}
		final = resp.Final
		if isEnd(r, resp, only != nil) {
			resp.Release()
			continue
		}
		if only != nil {
			resp.Release()
			r.Cancel()
			x.failWith(typeJSON, errManyResponses())
			return
		}
		only = resp
	}
	if only == nil {
		x.failWith(typeJSON, errManyResponses())
		return
	}
	if only.Err != nil {
		x.failWith(typeJSON, only.Err)
		return
	}
	w := &x.infer.out
	w.start(&s.pool, replySize(only))
	if err := encodeGenerated(w, r, only); err != nil {
		w.drop()
		x.failWith(typeJSON, err)
		return
	}
	x.status, x.contentType, x.reply = 200, typeJSON, w.finish()
}

// isEnd reports whether a response only says that no more come. Models that are not decoupled may end so too, after
// their response.
func isEnd(r *infer.Request, resp *infer.Response, any bool) bool {
	return resp.Final && resp.Err == nil && len(resp.Outputs) == 0 && (any || r.Served.Decoupled())
}

// parseGenerate fills r from a generate request: "id" names the request, members with the name of an input of the
// model are its tensors, all others are parameters; "parameters" holds more of both. r must own doc's memory. An error is the client's fault.
func (p *requestParser) parseGenerate(r *infer.Request, cfg *inferencepb.ModelConfig, doc []byte) error {
	p.scanner = scanner{b: doc}
	p.r = r
	defer p.done()
	p.byteOrderMark()
	if p.space() == 0 {
		return p.fail(errEmpty, p.i)
	}
	err := func() error {
		if p.peek() != '{' {
			return status.New(status.InvalidArg, noMembers)
		}
		if err := p.generateMembers(cfg, true); err != nil {
			return err
		}
		return p.end()
	}()
	var syntax syntaxError
	if err != nil && (errors.As(err, &syntax) || errors.As(checkSyntax(doc), &syntax)) {
		return syntax.error
	}
	return err
}

// generateMembers reads the members of the request's object, or of its "parameters".
func (p *requestParser) generateMembers(cfg *inferencepb.ModelConfig, top bool) error {
	seenID := uint8(0)
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil || !more {
			return err
		}
		spec := findInput(cfg, key)
		switch {
		case top && string(key) == "parameters":
			err = p.generateParameters(cfg, spec)
		case spec != nil:
			err = p.generateInput(cfg, spec)
		default:
			err = p.generateParameter(key)
		}
		if err == nil && top && string(key) == "id" {
			if err = once(&seenID, 1, "id"); err == nil {
				err = p.generateID()
			}
		}
		if err != nil {
			return err
		}
	}
}

func findInput(cfg *inferencepb.ModelConfig, name []byte) *inferencepb.ModelInput {
	for _, in := range cfg.GetInput() {
		if in.GetName() == string(name) {
			return in
		}
	}
	return nil
}

// generateParameters reads the nested object of parameters.
func (p *requestParser) generateParameters(cfg *inferencepb.ModelConfig, spec *inferencepb.ModelInput) error {
	if spec != nil {
		return status.New(status.InvalidArg, "Keyword 'parameters' for nested schema also given as input tensor name")
	}
	if p.peek() != '{' {
		return status.New(status.InvalidArg, "Expected JSON object for keyword: 'parameters': "+nonObject)
	}
	err := p.generateMembers(cfg, false)
	var syntax syntaxError
	if err == nil || errors.As(err, &syntax) {
		return err
	}
	return status.Errorf(status.CodeOf(err), "Converting keyword: 'parameters': %w", err)
}

// generateID takes over what was just read as a parameter or an input named id.
func (p *requestParser) generateID() error {
	n := len(p.r.Parameters)
	if n == 0 || p.r.Parameters[n-1].Name != "id" || p.r.Parameters[n-1].Kind != infer.StringParameter {
		return unable("id", nonString)
	}
	id := p.r.Parameters[n-1].Text
	if !validID(id) {
		return unable("id", "it must be UTF-8 without NUL")
	}
	p.r.ID = id
	return nil
}

// generateParameter reads a value that is the model's own.
func (p *requestParser) generateParameter(key []byte) error {
	if len(p.r.Parameters) == maxGenerateParameters {
		return unable("parameters", "more than 4096 of them")
	}
	return p.ownParameter(key)
}

// generateInput reads the tensor of an input: a scalar, a list, or lists in lists, whose nesting is then the shape.
func (p *requestParser) generateInput(cfg *inferencepb.ModelConfig, spec *inferencepb.ModelInput) error {
	if len(p.r.Inputs) == maxTensors {
		return unable("inputs", "more than 4096 of them")
	}
	dt := tensor.DataType(spec.GetDataType())
	if dt == tensor.FP16 || dt == tensor.BF16 {
		return status.Errorf(status.InvalidArg, "receiving %s data via JSON is not supported. "+
			"Please use the binary data format for input %s", dt, spec.GetName())
	}
	at, depth := p.i, p.depth
	n, nested, err := p.measure()
	if err != nil {
		return err
	}
	p.i, p.depth = at, depth
	shape, ok := p.generateShape(cfg, spec, n, nested)
	if !ok {
		return status.New(status.InvalidArg,
			"The schema can not convert input '"+spec.GetName()+"' to tensor with proper shape")
	}
	t := tensor.Tensor{Name: spec.GetName(), DataType: dt, Shape: shape}
	if dt == tensor.Bytes {
		err = p.generateStrings(&t, n)
	} else {
		err = p.generateValues(&t, n)
	}
	if err != nil {
		return err
	}
	p.r.Inputs = append(p.r.Inputs, t)
	return nil
}

// generateShape fits n values to the dims of an input. Nesting of the input's rank, with or without the batch, is the
// shape; otherwise, as in Triton, what the fixed dims leave goes to the innermost variable one and the others are 1.
func (p *requestParser) generateShape(cfg *inferencepb.ModelConfig, spec *inferencepb.ModelInput, n int64, nested []int64) (shape []int64, ok bool) {
	dims := spec.GetDims()
	batched := cfg.GetMaxBatchSize() > 0
	rank := len(dims)
	if batched {
		rank++
	}
	shape = p.r.Dims(rank)
	own := shape
	if batched {
		shape[0], own = -1, shape[1:]
	}
	copy(own, dims)
	if len(nested) > 1 && (len(nested) == rank || len(nested) == len(dims)) {
		shape[0] = 1
		copy(shape[rank-len(nested):], nested)
		return shape, true // the engine compares it with the model's
	}
	left := n
	for _, d := range slices.Backward(shape) {
		switch {
		case d < 0:
		case d == 0:
			return shape, n == 0
		case left%d != 0:
			return nil, false
		default:
			left /= d
		}
	}
	for i := range slices.Backward(shape) {
		if shape[i] < 0 {
			shape[i], left = left, 1
		}
	}
	return shape, left == 1
}

// measure passes over a value and counts what lists hold in the end. nested are the lengths of a list of lists, nil
// for a scalar, for a plain list its length, and [-1] if there are different lengths on one level.
func (p *requestParser) measure() (n int64, nested []int64, err error) {
	if p.peek() != '[' {
		return 1, nil, p.skip()
	}
	even := true
	for first := true; ; first = false {
		more, err := p.element(first)
		if err != nil {
			return 0, nil, err
		}
		if !more {
			break
		}
		if p.peek() != '[' { // nearly always
			if err = p.skip(); err != nil {
				return 0, nil, err
			}
			even = even && len(nested) < 2
			if nested == nil {
				nested = []int64{0}
			}
			n++
			nested[0]++
			continue
		}
		count, inner, err := p.measure()
		if err != nil {
			return 0, nil, err
		}
		n += count
		if nested == nil {
			nested = append([]int64{0}, inner...)
		}
		even = even && slices.Equal(nested[1:], inner) && !slices.Equal(inner, ragged[:])
		nested[0]++
	}
	switch {
	case !even:
		return n, ragged[:], nil
	case nested == nil:
		nested = []int64{0}
	}
	return n, nested, nil
}

// ragged is what measure returns for lists that are not rectangular.
var ragged = [...]int64{-1}

// generateValues reads n numbers or booleans.
func (p *requestParser) generateValues(t *tensor.Tensor, n int64) error {
	size := t.DataType.Size()
	if size == 0 || n > math.MaxInt64/8 {
		return status.Errorf(status.InvalidArg, "input '%s' has unsupported datatype %s", t.Name, t.DataType)
	}
	t.Buf = p.pool.Get(int(n) * size)
	p.r.Own(t.Buf)
	t.Data = t.Buf.Bytes()
	if p.peek() != '[' {
		return p.value(t.DataType, t.Data)
	}
	p.single = t.DataType == tensor.FP32
	left, err := p.values(t.DataType, t.Data)
	p.single = false
	if err == nil && len(left) != 0 {
		err = errDataShape()
	}
	return err
}

// generateStrings reads n strings as BYTES elements.
func (p *requestParser) generateStrings(t *tensor.Tensor, n int64) error {
	var w builder
	w.start(p.pool, int(4*n)+64)
	var err error
	if p.peek() == '[' {
		_, err = p.strings(&w)
	} else {
		var text []byte
		if p.peek() != '"' {
			err = errBytesArray()
		} else if text, err = p.text(); err == nil {
			w.room(4 + len(text))
			w.b = tensor.AppendBytesElement(w.b, text)
		}
	}
	if err != nil {
		w.drop()
		return err
	}
	t.Buf = w.finish()
	t.Data = t.Buf.Bytes()
	p.r.Own(t.Buf)
	return nil
}

// encodeGenerated writes a response as one JSON object: the model's name and version, the id, parameters and outputs by
// their names, sorted. An output of one element is that element, others are flat lists. The first of equal names counts.
func encodeGenerated(w *builder, r *infer.Request, resp *infer.Response) error {
	type field struct {
		name string
		text string // of the reserved ones
		p    *infer.Parameter
		t    *tensor.Tensor
	}
	fields := make([]field, 0, 3+len(resp.Parameters)+len(resp.Outputs))
	if r.ID != "" {
		fields = append(fields, field{name: "id", text: r.ID})
	}
	fields = append(fields, field{name: "model_name", text: r.Served.Name()}, field{name: "model_version", text: r.Served.VersionText()})
	for i := range resp.Parameters {
		fields = append(fields, field{name: resp.Parameters[i].Name, p: &resp.Parameters[i]})
	}
	for i := range resp.Outputs {
		fields = append(fields, field{name: resp.Outputs[i].Name, t: &resp.Outputs[i]})
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	fields = slices.CompactFunc(fields, func(a, b field) bool { return a.name == b.name })
	w.room(64)
	w.b = append(w.b, '{')
	for i := range fields {
		f := &fields[i]
		w.room(32 + 6*len(f.name) + 6*len(f.text))
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(appendString(w.b, f.name), ':')
		switch {
		case f.t != nil:
			if err := encodeElements(w, f.t); err != nil {
				return err
			}
		case f.p != nil:
			w.b = appendParameterValue(w.b, f.p)
		default:
			w.b = appendString(w.b, f.text)
		}
	}
	w.room(1)
	w.b = append(w.b, '}')
	return nil
}

// encodeElements writes a tensor's only element, or all in a list.
func encodeElements(w *builder, t *tensor.Tensor) error {
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return errOutputSize(t)
	}
	if n == 1 {
		return encodeData(w, t)
	}
	w.room(2)
	w.b = append(w.b, '[')
	if err := encodeData(w, t); err != nil {
		return err
	}
	w.room(1)
	w.b = append(w.b, ']')
	return nil
}
