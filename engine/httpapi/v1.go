package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// matchV1 finds the routes of the KServe v1 protocol, which is TensorFlow Serving's REST API: /v1/models,
// /v1/models/<model>[/versions/<version>] and the same with :predict. path begins with /v1/models.
func matchV1(path []byte) route {
	rest := path[len("/v1/models"):]
	if len(rest) == 0 {
		return route{endpoint: v1List}
	}
	if rest[0] != '/' {
		return route{}
	}
	r := route{endpoint: v1Model}
	rest, predict := bytes.CutSuffix(rest[1:], []byte(":predict"))
	if predict {
		r.endpoint = v1Predict
	}
	var more bool
	if r.model, rest, more = cutSegment(rest); len(r.model) == 0 {
		return route{}
	}
	if !more {
		return r
	}
	version, ok := bytes.CutPrefix(rest, []byte("versions/"))
	if !ok || len(version) == 0 || bytes.ContainsFunc(version, func(c rune) bool { return c < '0' || c > '9' }) {
		return route{}
	}
	r.version = version
	return r
}

// serveV1 answers the v1 routes.
func (s *Server) serveV1(x *exchange) {
	if x.route.endpoint == v1Predict {
		if model, version, ok := s.target(x, typeJSON); ok {
			s.predict(x, model, version)
		}
		return
	}
	name, _, ok := s.target(x, typeJSON)
	if !ok {
		return
	}
	all := s.opt.Engine.RepositoryIndex(false)
	if x.route.endpoint == v1List {
		b := append([]byte(nil), `{"models":`...)
		var names []string
		for _, m := range all {
			if m.GetState() == "READY" && !slices.Contains(names, m.GetName()) {
				names = append(names, m.GetName())
			}
		}
		x.bytes(200, typeJSON, append(appendStrings(b, names), '}'))
		return
	}
	b := appendString(append([]byte(nil), `{"name":`...), name)
	versions, ready := []byte{}, false
	for _, m := range all {
		if m.GetName() != name || m.GetVersion() == "" || len(x.route.version) > 0 && m.GetVersion() != string(x.route.version) {
			continue
		}
		ready = ready || m.GetState() == "READY"
		versions = appendV1Status(versions, m)
	}
	if len(versions) == 0 {
		x.failWith(typeJSON, status.Errorf(status.NotFound, "Request for unknown model: '%s' is not found", name))
		return
	}
	if ready {
		b = append(b, `,"ready":true`...)
	} else {
		b = append(b, `,"ready":false`...)
	}
	b = append(append(b, `,"model_version_status":[`...), versions[:len(versions)-1]...)
	x.bytes(200, typeJSON, append(b, ']', '}'))
}

// appendV1Status writes a version's state in TensorFlow Serving's words, and a comma.
func appendV1Status(b []byte, m *inferencepb.RepositoryIndexResponse_ModelIndex) []byte {
	state, code := "START", "OK"
	switch m.GetState() {
	case "READY":
		state = "AVAILABLE"
	case "LOADING", "UNLOADING":
		state = m.GetState()
	case "UNAVAILABLE":
		state = "END"
		if m.GetReason() != "unloaded" {
			code = "UNKNOWN"
		}
	}
	b = appendString(append(b, `{"version":`...), m.GetVersion())
	b = append(b, `,"state":"`+state+`","status":{"error_code":"`+code+`","error_message":`...)
	return append(appendString(b, m.GetReason()), '}', '}', ',')
}

// predict handles POST /v1/models/<model>[/versions/<version>]:predict.
func (s *Server) predict(x *exchange, model string, version int64) {
	cfg, err := s.opt.Engine.ModelConfig(model, version)
	if err == nil && cfg.GetModelTransactionPolicy().GetDecoupled() {
		err = errDecoupled()
	}
	if err != nil {
		s.readAway(x)
		x.failWith(typeJSON, err)
		return
	}
	s.names.keep(model)
	r := infer.New()
	defer r.Release()
	r.ModelName, r.Version = model, version
	s.sample(x, r)
	buf, body, err := s.readBody(x, 0)
	if err != nil {
		s.replyBodyError(x, err)
		return
	}
	r.Own(buf)
	p := &x.infer.parser
	rows, err := p.parsePredict(r, cfg, body)
	if err == nil {
		err = s.forward(x, r)
	}
	if err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		x.failWith(typeJSON, err)
		return
	}
	resp, err := r.Next(x.conn)
	if err != nil { // the client is gone, or the server is being closed by force
		r.Cancel()
		x.closeAfter = true
		x.failWith(typeJSON, err)
		return
	}
	defer resp.Release()
	if resp.Err != nil {
		x.failWith(typeJSON, resp.Err)
		return
	}
	w := &x.infer.out
	w.start(&s.pool, replySize(resp))
	if err := encodePredictions(w, resp, rows); err != nil {
		w.drop()
		x.failWith(typeJSON, err)
		return
	}
	x.status, x.contentType, x.reply = 200, typeJSON, w.finish()
	s.compress(x)
}

// v1Input is an input's values while they are collected.
type v1Input struct {
	spec  *inferencepb.ModelInput
	rows  int64
	shape []int64 // of one row, or of all in the column form
	data  []byte
}

// parsePredict fills r from a predict request: "instances", a list with the values of one row each, or "inputs", the
// whole tensors. Where a model has several inputs, values are objects by their names. rows is the number of instances,
// -1 for "inputs". An error is the client's fault.
func (p *requestParser) parsePredict(r *infer.Request, cfg *inferencepb.ModelConfig, doc []byte) (rows int64, err error) {
	p.scanner = scanner{b: doc}
	p.r = r
	defer p.done()
	inputs := make([]v1Input, len(cfg.GetInput()))
	for i, spec := range cfg.GetInput() {
		inputs[i].spec = spec
	}
	err = func() error {
		p.byteOrderMark()
		if p.space() != '{' {
			if err := checkSyntax(doc); err != nil {
				return err
			}
			return status.New(status.InvalidArg, nonObject)
		}
		if rows, err = p.predictMembers(inputs); err != nil {
			return err
		}
		return p.end()
	}()
	var syntax syntaxError
	if err != nil {
		if errors.As(err, &syntax) || errors.As(checkSyntax(doc), &syntax) {
			return 0, syntax.error
		}
		return 0, err
	}
	for i := range inputs {
		in := &inputs[i]
		if in.rows == 0 {
			continue // optional, or the engine names it
		}
		shape := in.shape
		if rows >= 0 {
			if in.rows != rows {
				return 0, status.Errorf(status.InvalidArg, "input '%s' is in %d of %d instances", in.spec.GetName(), in.rows, rows)
			}
			shape = append([]int64{rows}, shape...)
		}
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: in.spec.GetName(), DataType: tensor.DataType(in.spec.GetDataType()), Shape: shape, Data: in.data})
	}
	return rows, nil
}

func (p *requestParser) predictMembers(inputs []v1Input) (rows int64, err error) {
	const seenRows, seenColumns = 1, 2
	seen := 0
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		switch string(key) {
		case "instances":
			seen += seenRows
			rows, err = p.instances(inputs)
		case "inputs":
			seen += seenColumns
			rows, err = -1, p.instance(inputs, 0)
		case "signature_name":
			var name []byte
			if name, err = p.string("signature_name"); err == nil && len(name) > 0 && string(name) != "serving_default" {
				err = status.Errorf(status.InvalidArg, "Serving signature name: \"%s\" not found in signature def", printable(name))
			}
		default:
			err = p.skip()
		}
		if err != nil {
			return 0, err
		}
	}
	if seen != seenRows && seen != seenColumns {
		return 0, status.New(status.InvalidArg, `a predict request must have one of "instances" and "inputs"`)
	}
	return rows, nil
}

// instances reads the row form.
func (p *requestParser) instances(inputs []v1Input) (rows int64, err error) {
	if p.peek() != '[' {
		return 0, unable("instances", nonArray)
	}
	for first := true; ; first = false {
		more, err := p.element(first)
		if err != nil || !more {
			return rows, err
		}
		if err := p.instance(inputs, rows); err != nil {
			return 0, err
		}
		rows++
	}
}

// instance reads one row, or the whole in the column form: the value of the only input, or an object of values.
func (p *requestParser) instance(inputs []v1Input, row int64) error {
	if p.peek() != '{' || len(inputs) == 1 && p.atBase64() {
		if len(inputs) != 1 {
			return status.Errorf(status.InvalidArg, "the model has %d inputs: an object with their names is expected", len(inputs))
		}
		return p.v1Value(&inputs[0], row)
	}
	return p.object(func(_ *scanner, key []byte) error {
		i := slices.IndexFunc(inputs, func(in v1Input) bool { return in.spec.GetName() == string(key) })
		if i < 0 {
			return status.Errorf(status.InvalidArg, "the model has no input '%s'", printable(key))
		}
		return p.v1Value(&inputs[i], row)
	})
}

// atBase64 reports whether the parser stands on {"b64": …}.
func (p *requestParser) atBase64() bool {
	look := p.scanner
	key, more, err := look.member(true)
	return err == nil && more && string(key) == "b64"
}

// v1Value adds a value to an input, which has one for each row before: a scalar or rectangular lists.
func (p *requestParser) v1Value(in *v1Input, row int64) error {
	name, dt := in.spec.GetName(), tensor.DataType(in.spec.GetDataType())
	if dt == tensor.FP16 || dt == tensor.BF16 {
		return status.Errorf(status.InvalidArg, "receiving %s data via JSON is not supported. Please use the binary data format for input %s", dt, name)
	}
	if in.rows > row {
		return status.Errorf(status.InvalidArg, "input '%s' is given twice", name)
	}
	at, depth := p.i, p.depth
	n, shape, err := p.measure()
	if err != nil {
		return err
	}
	p.i, p.depth = at, depth
	if len(shape) == 1 && shape[0] < 0 {
		return status.Errorf(status.InvalidArg, "input '%s': the lists are not rectangular", name)
	}
	if in.rows > 0 && !slices.Equal(shape, in.shape) {
		return status.Errorf(status.InvalidArg, "input '%s': the instances have different shapes, %s and %s", name,
			tensor.FormatShape(in.shape), tensor.FormatShape(shape))
	}
	in.shape = shape
	in.rows++
	if dt == tensor.Bytes {
		return p.v1Strings(in)
	}
	size := int(n) * dt.Size()
	in.data = slices.Grow(in.data, size)
	dst := in.data[len(in.data) : len(in.data)+size]
	in.data = in.data[:len(in.data)+size]
	if p.peek() != '[' {
		return p.value(dt, dst)
	}
	p.single = dt == tensor.FP32
	_, err = p.values(dt, dst)
	p.single = false
	return err
}

// v1Strings adds strings, or {"b64": …} for bytes that are no text.
func (p *requestParser) v1Strings(in *v1Input) error {
	switch p.peek() {
	case '[':
		for first := true; ; first = false {
			more, err := p.element(first)
			if err != nil || !more {
				return err
			}
			if err := p.v1Strings(in); err != nil {
				return err
			}
		}
	case '{':
		if !p.atBase64() {
			return unable("data", nonString)
		}
		first := true
		return p.object(func(_ *scanner, key []byte) error {
			if string(key) != "b64" || !first {
				return unable("data", nonString)
			}
			first = false
			text, err := p.string("b64")
			if err != nil {
				return err
			}
			plain, err := base64.StdEncoding.AppendDecode(nil, text)
			if err != nil {
				return status.Errorf(status.InvalidArg, "input '%s': b64 is not base64: %w", in.spec.GetName(), err)
			}
			in.data = tensor.AppendBytesElement(in.data, plain)
			return nil
		})
	}
	text, err := p.string("data")
	if err == nil {
		in.data = tensor.AppendBytesElement(in.data, text)
	}
	return err
}

// encodePredictions writes the answer: {"predictions": rows} for instances, {"outputs": tensors} for inputs (rows is -1).
// Where a model has several outputs, values are objects by their names.
func encodePredictions(w *builder, resp *infer.Response, rows int64) error {
	outs := make([]nested, len(resp.Outputs))
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		if n, err := tensor.Elements(t.Shape); err != nil || t.DataType == tensor.Bytes && tensor.CheckBytes(t.Data, n) != nil ||
			t.DataType != tensor.Bytes && n*int64(t.DataType.Size()) != int64(len(t.Data)) {
			return errOutputSize(t)
		}
		if rows >= 0 && (len(t.Shape) == 0 || t.Shape[0] != rows) {
			return status.Errorf(status.InvalidArg, "output '%s' has the shape %s, which are not %d predictions; send \"inputs\" in place of \"instances\"",
				t.Name, tensor.FormatShape(t.Shape), rows)
		}
		outs[i] = nested{t: t, rest: t.Data}
	}
	w.room(32)
	if rows < 0 {
		w.b = append(w.b, `{"outputs":`...)
		if err := encodeNamed(w, outs, 0); err != nil {
			return err
		}
	} else {
		w.b = append(w.b, `{"predictions":[`...)
		for i := range rows {
			if i > 0 {
				w.room(1)
				w.b = append(w.b, ',')
			}
			if err := encodeNamed(w, outs, 1); err != nil {
				return err
			}
		}
		w.room(1)
		w.b = append(w.b, ']')
	}
	w.room(1)
	w.b = append(w.b, '}')
	return nil
}

// encodeNamed writes the next value of each output, without its first skip dimensions.
func encodeNamed(w *builder, outs []nested, skip int) error {
	if len(outs) == 1 {
		return outs[0].encode(w, outs[0].t.Shape[skip:])
	}
	w.room(2)
	w.b = append(w.b, '{')
	for i := range outs {
		w.room(8 + 6*len(outs[i].t.Name))
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(appendString(w.b, outs[i].t.Name), ':')
		if err := outs[i].encode(w, outs[i].t.Shape[skip:]); err != nil {
			return err
		}
	}
	w.room(1)
	w.b = append(w.b, '}')
	return nil
}

// nested writes a tensor's values as lists in lists.
type nested struct {
	t    *tensor.Tensor
	rest []byte // what is not written
}

func (o *nested) encode(w *builder, shape []int64) error {
	if len(shape) == 0 {
		return o.flat(w, 1)
	}
	w.room(2)
	w.b = append(w.b, '[')
	if len(shape) == 1 {
		if err := o.flat(w, shape[0]); err != nil {
			return err
		}
	} else {
		for i := range shape[0] {
			if i > 0 {
				w.room(1)
				w.b = append(w.b, ',')
			}
			if err := o.encode(w, shape[1:]); err != nil {
				return err
			}
		}
	}
	w.room(1)
	w.b = append(w.b, ']')
	return nil
}

// flat writes the next n values with commas between them.
func (o *nested) flat(w *builder, n int64) error {
	size := int(n) * o.t.DataType.Size()
	if o.t.DataType == tensor.Bytes {
		for size = 0; n > 0; n-- {
			size += 4 + int(binary.LittleEndian.Uint32(o.rest[size:]))
		}
	}
	part := tensor.Tensor{Name: o.t.Name, DataType: o.t.DataType, Shape: []int64{n}, Data: o.rest[:size]}
	if o.t.DataType == tensor.Bytes {
		encodeStrings(w, part.Data)
	} else if err := encodeData(w, &part); err != nil {
		return err
	}
	o.rest = o.rest[size:]
	return nil
}
