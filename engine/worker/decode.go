package worker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// errFrame is what a frame that does not decode is.
var errFrame = status.New(status.Internal, "a frame ends early or contradicts itself")

// signature is what a tensor's record says beside where its data is.
type signature struct {
	name  string
	dt    tensor.DataType
	shape []int64
	bytes int64 // of the data; -1: BYTES
}

// signatures keeps those seen, by their bytes: a model's tensors are few, and their names need not be made anew.
type signatures map[string]*signature

const mostSignatures = 256

func (s signatures) get(b []byte) (*signature, error) {
	if sig := s[string(b)]; sig != nil {
		return sig, nil
	}
	sig, err := parseSignature(b)
	if err == nil && len(s) < mostSignatures && len(b) < 1024 {
		s[string(b)] = sig
	}
	return sig, err
}

func parseSignature(b []byte) (*signature, error) {
	c := cursor{b: b}
	dt, dims, name := c.u8(), int(c.u8()), int(c.u16())
	c.u32()
	s := &signature{dt: tensor.DataType(dt), shape: make([]int64, dims)}
	for i := range s.shape {
		s.shape[i] = int64(c.u64())
	}
	s.name = string(c.take(name))
	if c.bad || c.at != len(b) {
		return nil, errFrame
	}
	if s.dt == tensor.Invalid || s.dt > tensor.BF16 {
		return nil, status.Errorf(status.Internal, "tensor '%s' has the unknown data type %d", s.name, dt)
	}
	var err error
	s.bytes, err = tensor.ByteSize(s.dt, s.shape)
	return s, err
}

// place is where a tensor's data is.
type place struct {
	where  uint8
	at     uint64
	length uint64
}

// tensorRecord reads one tensor's record.
func tensorRecord(c *cursor, sigs signatures) (*signature, place, error) {
	r := c.record(24)
	if r.bad {
		return nil, place{}, errFrame
	}
	n := int(r.u16())
	p := place{where: r.u8()}
	r.u8()
	p.at, p.length = r.u64(), r.u64()
	sig, err := sigs.get(r.take(n))
	if err != nil {
		return nil, p, err
	}
	if r.bad {
		return nil, p, errFrame
	}
	if sig.bytes >= 0 && uint64(sig.bytes) != p.length {
		return sig, p, status.Errorf(status.Internal, "tensor '%s' has %d bytes and its shape %s of %s needs %d",
			sig.name, p.length, tensor.FormatShape(sig.shape), sig.dt, sig.bytes)
	}
	return sig, p, nil
}

// inbox turns records of one frame into tensors. Data in the frame is copied once for the whole frame, when the first
// tensor asks for it.
type inbox struct {
	up   *mapping
	down *arena
	peer bool // this is the worker's side: up is the down arena, and there is no other
	pool *tensor.Pool
	sigs signatures
	body []byte         // of the present frame
	copy *tensor.Buffer // of body; nil: not yet
}

// next begins a frame; end drops what it kept.
func (x *inbox) next(body []byte) { x.body = body }

func (x *inbox) end() {
	if x.copy != nil {
		x.copy.Release()
		x.copy = nil
	}
	x.body = nil
}

// data returns a tensor's bytes and the buffer that they belong to, with a reference for the caller. BYTES are private
// copies that have been checked; others in an arena are views of it.
func (x *inbox) data(sig *signature, p place) ([]byte, *tensor.Buffer, error) {
	var b []byte
	var buf *tensor.Buffer
	var ok bool
	switch x.side(p.where) {
	case inFrame:
		if p.length == 0 {
			return x.strings(sig, nil, nil)
		}
		if ok = p.at <= uint64(len(x.body)) && p.length <= uint64(len(x.body))-p.at; ok {
			if x.copy == nil {
				x.copy = x.pool.Get(len(x.body))
				copy(x.copy.Bytes(), x.body)
			}
			b, buf = x.copy.Bytes()[p.at:p.at+p.length], x.copy.Retain()
		}
	case inUp:
		if b, ok = x.up.view(p.at, p.length); ok {
			buf = x.upBuffer(b, int64(p.at))
		}
	case inDown:
		b, buf, ok = x.down.borrow(p.at, p.length)
	default:
		ok = false
	}
	if !ok {
		return nil, nil, status.Errorf(status.Internal, "tensor '%s' lies at %d (place %d, %d bytes), where there is nothing", sig.name, p.at, p.where, p.length)
	}
	return x.strings(sig, b, buf)
}

// side returns a place as the server sees it: for a worker what comes from the other side is in the down arena, and
// nothing is in its own.
func (x *inbox) side(where uint8) uint8 {
	switch {
	case !x.peer || where == inFrame:
		return where
	case where == inDown:
		return inUp
	}
	return math.MaxUint8
}

// upBuffer wraps a slot of the up arena; the last reference frees it.
func (x *inbox) upBuffer(b []byte, at int64) *tensor.Buffer {
	m := x.up
	m.refs.Add(1)
	return tensor.NewBuffer(b, func(*tensor.Buffer) {
		m.free(at)
		m.release()
	})
}

// strings checks BYTES, on a private copy: the worker could change their lengths after the check.
func (x *inbox) strings(sig *signature, b []byte, buf *tensor.Buffer) ([]byte, *tensor.Buffer, error) {
	if sig.dt != tensor.Bytes {
		return b, buf, nil
	}
	if buf != nil && buf != x.copy {
		own := x.pool.Get(len(b))
		tensor.Copy(own.Bytes(), b)
		buf.Release()
		b, buf = own.Bytes(), own
	}
	n, err := tensor.Elements(sig.shape)
	if err == nil {
		err = tensor.CheckBytes(b, n)
	}
	if err != nil {
		if buf != nil {
			buf.Release()
		}
		return nil, nil, status.Errorf(status.Internal, "tensor '%s': %w", sig.name, err)
	}
	return b, buf, nil
}

// skip frees the slot of a tensor that nobody wants.
func (x *inbox) skip(p place) {
	if x.side(p.where) == inUp {
		if _, ok := x.up.view(p.at, p.length); ok {
			x.up.free(int64(p.at))
		}
	}
}

// responseRecord is the fixed part of a response.
type responseRecord struct {
	flags   uint32
	ticket  uint64
	outputs int
	code    status.Code
	text    []byte
	params  []byte
	took    time.Duration // of its execution, in a series
	rest    cursor        // at the outputs
}

// responsesHead reads what precedes the responses of a frame: their number, the moment at which the first of these executions
// began, in a series, and the execution's error.
func responsesHead(c *cursor) (n, began uint32, err error, bad bool) {
	n = c.u32()
	code, length := c.u32(), c.u32()
	began = c.u32()
	text := c.take(int(length))
	c.pad()
	if c.bad {
		return 0, 0, nil, true
	}
	if code != 0 {
		err = status.New(codeOf(code-1), string(text))
	}
	return n, began, err, false
}

func codeOf(n uint32) status.Code {
	if n > uint32(status.Cancelled) {
		return status.Internal
	}
	return status.Code(n)
}

func readResponse(c *cursor) (responseRecord, bool) {
	r := c.record(32)
	p := responseRecord{flags: r.u32(), ticket: r.u64(), outputs: int(r.u16())}
	p.code = codeOf(uint32(r.u16()))
	text, params := int(r.u32()), int(r.u32())
	p.took = time.Duration(r.u32())
	p.text, p.params = r.take(text), r.take(params)
	r.pad()
	p.rest = r
	return p, !r.bad
}

// outputs adds those outputs of a response that r wants to resp.
func (x *inbox) outputs(p *responseRecord, resp *infer.Response, r *infer.Request) error {
	var first error // what is wrong with a tensor; those behind it are given back
	for range p.outputs {
		sig, at, err := tensorRecord(&p.rest, x.sigs)
		if p.rest.bad {
			return errFrame
		}
		if first = cmp.Or(first, err); first != nil || !r.Wants(sig.name) {
			x.skip(at)
			continue
		}
		data, buf, err := x.data(sig, at)
		if err != nil {
			first = err
			continue
		}
		resp.AddOutput(sig.name, sig.dt, sig.shape, data, buf)
	}
	return first
}

// blsCall is a decoded BLS.
type blsCall struct {
	parent uint64
	stream bool
	traced bool            // in the trace of its parent
	holds  bool            // what is executed waits for it
	loose  bool            // nobody waits for it yet
	r      *infer.Request  // the caller's to release
	first  *infer.Response // that has come already; nil: none
}

// bls decodes a request for another model.
func (x *inbox) bls(body []byte) (blsCall, error) {
	c := cursor{b: body}
	version, parent, flags := int64(c.u64()), c.u64(), c.u32()
	name := int(c.u16())
	c.u16()
	c.u64()
	model := string(c.take(name))
	c.pad()
	rec := c.record(64)
	if c.bad || rec.bad {
		return blsCall{}, errFrame
	}
	r := infer.New()
	r.ModelName, r.Version = model, version
	if err := x.request(&rec, r); err != nil {
		r.Release()
		return blsCall{}, err
	}
	return blsCall{parent: parent, stream: flags&blsStream != 0, traced: flags&blsTraced != 0, holds: flags&blsHolds != 0, loose: flags&blsLoose != 0, r: r}, nil
}

func (x *inbox) request(c *cursor, r *infer.Request) error {
	r.Flags = infer.Flags(c.u32() & 3)
	c.u64() // ticket
	r.Correlation.Number = c.u64()
	if t := c.u64(); t > 0 {
		r.Timeout = micros(t)
	}
	r.Priority = c.u64()
	c.u32() // state
	id, text, inputs, outputs := int(c.u16()), int(c.u16()), int(c.u16()), int(c.u16())
	names, params, trace := int(c.u32()), int(c.u32()), int(c.u32())
	c.u32()
	r.ID = string(c.take(id))
	r.Correlation.Text = string(c.take(text))
	list := cursor{b: c.take(names)}
	for range outputs {
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: string(list.take(int(list.u16())))})
	}
	var err error
	if b := c.take(params); len(b) > 0 {
		if r.Parameters, err = parseParameters(b, r.Parameters); err != nil {
			return err
		}
	}
	c.take(trace)
	c.pad()
	if c.bad || list.bad {
		return errFrame
	}
	for range inputs {
		sig, at, err := tensorRecord(c, x.sigs)
		if err != nil {
			if sig != nil {
				x.skip(at)
			}
			return err
		}
		data, buf, err := x.data(sig, at)
		if err != nil {
			return err
		}
		if buf != nil {
			r.Own(buf)
		}
		shape := r.Dims(len(sig.shape))
		copy(shape, sig.shape)
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: sig.name, DataType: sig.dt, Shape: shape, Data: data, Buf: buf})
	}
	return nil
}

// parseParameters appends the members of a JSON object to params.
func parseParameters(b []byte, params []infer.Parameter) ([]infer.Parameter, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return params, status.New(status.Internal, "parameters are not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return params, status.Errorf(status.Internal, "parameters: %w", err)
		}
		p := infer.Parameter{Name: name.(string)} // the decoder gives strings before colons
		v, err := d.Token()
		if err != nil {
			return params, status.Errorf(status.Internal, "parameters: %w", err)
		}
		switch v := v.(type) {
		case bool:
			p.Kind, p.Bool = infer.BoolParameter, v
		case string:
			p.Kind, p.Text = infer.StringParameter, v
		case json.Number:
			setNumber(&p, string(v))
		default:
			return params, status.Errorf(status.Internal, "parameter '%s' is neither a string nor a number nor a bool", p.Name)
		}
		params = append(params, p)
	}
	if _, err := d.Token(); err != nil {
		return params, status.Errorf(status.Internal, "parameters: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return params, status.New(status.Internal, "parameters go on after their JSON object")
	}
	return params, nil
}

func setNumber(p *infer.Parameter, v string) {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		p.Kind, p.Int = infer.IntParameter, n
		return
	}
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		p.Kind, p.Uint = infer.UintParameter, n
		return
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil { // over the range: what is nearest
		f = math.Copysign(math.MaxFloat64, f)
	}
	p.Kind, p.Float = infer.FloatParameter, f
}

// logLine is a decoded LOG.
type logLine struct {
	level uint8
	line  uint32
	file  string
	text  string
}

func parseLog(body []byte) (logLine, error) {
	c := cursor{b: body}
	l := logLine{level: c.u8()}
	c.u8()
	n := int(c.u16())
	l.line = c.u32()
	l.file = string(c.take(n))
	if c.bad {
		return l, errFrame
	}
	l.text = string(c.take(len(c.b) - c.at))
	return l, nil
}

// Operations on a metric.
const (
	MetricIncrement = 1 + iota
	MetricSet
	MetricObserve
)

// metricChange is one change of a metric.
type metricChange struct {
	metric uint64
	op     uint32
	value  float64
}

// parseMetric returns the next change of a METRIC's body and what is left of it.
func parseMetric(b []byte) (metricChange, []byte, error) {
	if len(b) < 24 {
		return metricChange{}, nil, errFrame
	}
	return metricChange{
		metric: binary.LittleEndian.Uint64(b), op: binary.LittleEndian.Uint32(b[8:]),
		value: math.Float64frombits(binary.LittleEndian.Uint64(b[16:])),
	}, b[24:], nil
}

// micros turns microseconds into a duration, at most the longest there is.
func micros(n uint64) time.Duration {
	if n > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Microsecond
}
