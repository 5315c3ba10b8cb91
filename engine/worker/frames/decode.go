package frames

import (
	"cmp"
	"encoding/binary"
	"math"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
)

// signature is a tensor's record without the place of its data.
type signature struct {
	name  string
	dt    tensor.DataType
	shape []int64
	bytes int64 // of the data; -1: BYTES
	state bool  // it is not an output but the next implicit state of the sequence
}

// signatures caches parsed signatures by their bytes: a model has few tensors.
type signatures map[string]*signature

// maxSignatures bounds the cache.
const maxSignatures = 256

func (s signatures) get(b []byte) (*signature, error) {
	if sig := s[string(b)]; sig != nil {
		return sig, nil
	}
	sig, err := parseSignature(b)
	if err == nil && len(s) < maxSignatures && len(b) < 1024 {
		s[string(b)] = sig
	}
	return sig, err
}

func parseSignature(b []byte) (*signature, error) {
	c := cursor{b: b}
	dt, dims, name := c.u8(), int(c.u8()), int(c.u16())
	s := &signature{state: c.u32()&tensorState != 0, dt: tensor.DataType(dt), shape: make([]int64, dims)}
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

// Decoder reads one frame after the other. Data in a frame is copied once for the whole frame, with the first tensor
// that needs it.
type Decoder struct {
	theirs *arena.Mapping // the arena that the other side allocates in
	own    *arena.Arena   // the arena of this side; nil in the process, whose own arena has no data for it
	pool   *tensor.Pool
	sigs   signatures
	body   []byte         // of the present frame
	copy   *tensor.Buffer // of body; nil: not made yet
}

// NewServerDecoder returns the decoder of the server.
func NewServerDecoder(up *arena.Mapping, down *arena.Arena, pool *tensor.Pool) *Decoder {
	return &Decoder{theirs: up, own: down, pool: pool, sigs: signatures{}}
}

// NewProcessDecoder returns the decoder of a process.
func NewProcessDecoder(down *arena.Mapping, pool *tensor.Pool) *Decoder {
	return &Decoder{theirs: down, pool: pool, sigs: signatures{}}
}

// Open begins with the frame of a packet and returns its header and body, which are valid until Close.
func (d *Decoder) Open(packet []byte) (Header, []byte, error) {
	h, body, err := parsePacket(packet)
	if err == nil && h.Flags&flagArena != 0 {
		body, err = d.bodyInArena(body)
	}
	d.body = body
	return h, body, err
}

// OpenBody begins with a body that came without a packet.
func (d *Decoder) OpenBody(body []byte) { d.body = body }

// Close ends with the present frame.
func (d *Decoder) Close() {
	if d.copy != nil {
		d.copy.Release()
		d.copy = nil
	}
	d.body = nil
}

// bodyInArena copies a body out of the other side's arena and frees its slot.
func (d *Decoder) bodyInArena(where []byte) ([]byte, error) {
	c := cursor{b: where}
	at, n := c.u64(), c.u64()
	if c.bad || n > 1<<31 {
		return nil, errFrame
	}
	b, ok := d.theirs.View(at, n)
	if !ok {
		return nil, status.Errorf(status.Internal, "it sent a frame of %d bytes at %d, where there is nothing", n, at)
	}
	d.copy = d.pool.Get(len(b))
	copy(d.copy.Bytes(), b)
	d.theirs.Free(int64(at))
	return d.copy.Bytes(), nil
}

// inTheirs reports whether a place is in the other side's arena.
func (d *Decoder) inTheirs(where uint8) bool {
	if d.own == nil {
		return where == inDown
	}
	return where == inUp
}

// data returns a tensor's bytes and the buffer that they belong to, with a reference for the caller. BYTES are checked
// private copies; others in an arena are views of it.
func (d *Decoder) data(sig *signature, p place) ([]byte, *tensor.Buffer, error) {
	var b []byte
	var buf *tensor.Buffer
	ok := false
	switch {
	case p.where == inFrame && p.length == 0:
		ok = true
	case p.where == inFrame:
		if ok = p.at <= uint64(len(d.body)) && p.length <= uint64(len(d.body))-p.at; ok {
			if d.copy == nil {
				d.copy = d.pool.Get(len(d.body))
				copy(d.copy.Bytes(), d.body)
			}
			b, buf = d.copy.Bytes()[p.at:p.at+p.length], d.copy.Retain()
		}
	case d.inTheirs(p.where):
		if b, ok = d.theirs.View(p.at, p.length); ok {
			buf = d.theirBuffer(b, int64(p.at))
		}
	case p.where == inDown:
		b, buf, ok = d.own.Borrow(p.at, p.length)
	}
	if !ok {
		return nil, nil, status.Errorf(status.Internal,
			"tensor '%s' lies at %d (place %d, %d bytes), where there is nothing",
			sig.name, p.at, p.where, p.length)
	}
	return d.checkStrings(sig, b, buf)
}

// theirBuffer wraps a slot of the other side's arena; the last reference frees it.
func (d *Decoder) theirBuffer(b []byte, at int64) *tensor.Buffer {
	m := d.theirs
	m.Retain()
	return tensor.NewBuffer(b, func(*tensor.Buffer) {
		m.Free(at)
		m.Release()
	})
}

// checkStrings checks the elements of BYTES on a private copy: the other side could change their lengths after the
// check.
func (d *Decoder) checkStrings(sig *signature, b []byte, buf *tensor.Buffer) ([]byte, *tensor.Buffer, error) {
	if sig.dt != tensor.Bytes {
		return b, buf, nil
	}
	if buf != nil && buf != d.copy {
		private := d.pool.Get(len(b))
		tensor.Copy(private.Bytes(), b)
		buf.Release()
		b, buf = private.Bytes(), private
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

// skip frees the slot of a tensor that is not used.
func (d *Decoder) skip(p place) {
	if d.inTheirs(p.where) {
		if _, ok := d.theirs.View(p.at, p.length); ok {
			d.theirs.Free(int64(p.at))
		}
	}
}

// Responses are the responses of a RESPONSES frame.
type Responses struct {
	Count   uint32
	Began   uint32 // when the execution of the first one in a series began: see PROTOCOL.md, "moment"
	Failure error  // of the execution as a whole
	rest    cursor
}

// ReadResponses reads what precedes the responses of a body. The error is a body that does not decode.
func ReadResponses(body []byte) (Responses, error) {
	c := cursor{b: body}
	r := Responses{Count: c.u32()}
	code, length := c.u32(), c.u32()
	r.Began = c.u32()
	text := c.take(int(length))
	c.pad()
	if c.bad {
		return r, errFrame
	}
	if code != 0 {
		r.Failure = status.New(CodeOf(code-1), string(text))
	}
	r.rest = c
	return r, nil
}

// More reports whether there are more responses. It replaces Count, where that is not valid.
func (r *Responses) More() bool { return r.rest.at < len(r.rest.b) }

// Next reads the record of the next response. The error is a record that does not decode.
func (r *Responses) Next() (Response, error) {
	c := r.rest.record(32)
	p := Response{flags: c.u32(), Ticket: c.u64(), outputs: int(c.u16())}
	p.code = CodeOf(uint32(c.u16()))
	text, params := int(c.u32()), int(c.u32())
	p.Took = time.Duration(c.u32())
	if p.flags&responseReported != 0 {
		report, _, err := ParseReport(c.take(reportSize))
		if err != nil {
			return p, err
		}
		p.Report = &report
	}
	p.text, p.params = c.take(text), c.take(params)
	c.pad()
	if p.rest = c; c.bad {
		return p, errFrame
	}
	return p, nil
}

// CodeOf returns the status code of a number in a frame.
func CodeOf(n uint32) status.Code {
	if n > uint32(status.Cancelled) {
		return status.Internal
	}
	return status.Code(n)
}

// Response is a response's record.
type Response struct {
	Ticket  uint64        // of the request
	Late    bool          // the execution is over: its states are dropped, because the sequence may have gone on
	Took    time.Duration // of its execution, in a series
	Report  *infer.Report // with times as in infer.Report; nil: there is none
	flags   uint32
	outputs int
	code    status.Code
	text    []byte
	params  []byte
	rest    cursor // at the outputs
}

// Final reports whether it ends the request.
func (p *Response) Final() bool { return p.flags&responseFinal != 0 }

// Empty reports whether it has flags only, and is not for the client.
func (p *Response) Empty() bool { return p.flags&responseEmpty != 0 }

// Reschedule reports whether the request is to be scheduled again.
func (p *Response) Reschedule() bool { return p.flags&responseReschedule != 0 }

// Response turns a record into resp, with those outputs that r wants. An error of the model is resp.Err. The error
// says what is wrong with the record; resp may have some of the outputs then.
func (d *Decoder) Response(p *Response, r *infer.Request, resp *infer.Response) error {
	if p.flags&responseError != 0 {
		resp.Err = status.New(p.code, string(p.text))
		return nil
	}
	if len(p.params) > 0 {
		var err error
		if resp.Parameters, err = parseParameters(p.params, resp.Parameters); err != nil {
			return err
		}
	}
	return d.outputs(p, resp, r)
}

// outputs adds those outputs of a response that r wants to resp, and sets the states of r's sequence. A state that is
// not the model's makes resp an error. After an error the other tensors' slots are freed.
func (d *Decoder) outputs(p *Response, resp *infer.Response, r *infer.Request) error {
	var first error
	for range p.outputs {
		sig, at, err := tensorRecord(&p.rest, d.sigs)
		if p.rest.bad {
			return errFrame
		}
		if first = cmp.Or(first, err); first != nil || !p.takes(sig, r) {
			d.skip(at)
			continue
		}
		data, buf, err := d.data(sig, at)
		if err != nil {
			first = err
			continue
		}
		if sig.state {
			resp.Err = cmp.Or(resp.Err, r.States.Set(sig.name, sig.dt, sig.shape, data, buf))
			continue
		}
		resp.AddOutput(sig.name, sig.dt, sig.shape, data, buf)
	}
	return first
}

// takes reports whether a tensor of the response is of use for its request.
func (p *Response) takes(sig *signature, r *infer.Request) bool {
	if sig.state {
		return r.States != nil && !p.Late
	}
	return r.Wants(sig.name)
}

// Discard frees what a response that is not used has in the arena. The error is a record that does not decode.
func (d *Decoder) Discard(p *Response) error {
	for range p.outputs {
		_, at, err := tensorRecord(&p.rest, d.sigs)
		if err != nil {
			return err
		}
		d.skip(at)
	}
	return nil
}

// BLSRequest is a request that a model makes to another one.
type BLSRequest struct {
	Parent    uint64         // ticket of the request for which it is made; 0: not known
	Stream    bool           // any number of responses is welcome
	Traced    bool           // in the trace of its parent
	Blocking  bool           // the execution cannot end before the answer
	Unawaited bool           // no code waits for the answer yet
	Request   *infer.Request // the caller's to release
}

// BLSRequest reads the body of a BLS frame.
func (d *Decoder) BLSRequest(body []byte) (BLSRequest, error) {
	c := cursor{b: body}
	version, parent, flags := int64(c.u64()), c.u64(), c.u32()
	name := int(c.u16())
	c.u16()
	c.u64()
	model := string(c.take(name))
	c.pad()
	rec := c.record(64)
	if c.bad || rec.bad {
		return BLSRequest{}, errFrame
	}
	r := infer.New()
	r.ModelName, r.Version = model, version
	r.Patient = true // the model may do anything between two responses
	if err := d.request(&rec, r, new(RequestTrace)); err != nil {
		r.Release()
		return BLSRequest{}, err
	}
	return BLSRequest{
		Parent: parent, Stream: flags&blsStream != 0, Traced: flags&blsTraced != 0,
		Blocking: flags&blsBlocking != 0, Unawaited: flags&blsUnawaited != 0, Request: r,
	}, nil
}

// Received is a request that a process executes.
type Received struct {
	Request *infer.Request
	Ticket  uint64
	State   uint32 // index of its state byte
	Trace   RequestTrace
}

// RequestTrace says whether a request is traced.
type RequestTrace struct {
	On      bool
	Number  uint32 // of the trace; 0: not known
	Context string // see infer.PropagatedTrace
}

// Requests reads the body of an EXECUTE in a process. It calls each for every request, in order, which the callee
// owns; err says what is wrong with it. The returned error is a body that does not decode.
func (d *Decoder) Requests(body []byte, each func(q Received, err error)) error {
	c := cursor{b: body}
	n := c.u32()
	c.u32()
	if n == 0 {
		return errFrame
	}
	for range n {
		rec := c.record(64)
		if c.bad {
			return errFrame
		}
		q := Received{Request: infer.New(), Ticket: binary.LittleEndian.Uint64(rec.b[8:]),
			State: binary.LittleEndian.Uint32(rec.b[40:])}
		q.Request.Patient, q.Request.Bounded = true, true // the server decides how long a client may pause
		err := d.request(&rec, q.Request, &q.Trace)
		if err != nil {
			d.skipTensors(&rec)
		}
		each(q, err)
	}
	return nil
}

// skipTensors frees the slots of the tensors that are left in a request's record.
func (d *Decoder) skipTensors(rec *cursor) {
	for !rec.bad && rec.at < len(rec.b) {
		sig, at, err := tensorRecord(rec, d.sigs)
		if sig == nil && err != nil {
			return
		}
		d.skip(at)
	}
}

// request reads a request's record behind its size.
func (d *Decoder) request(c *cursor, r *infer.Request, t *RequestTrace) error {
	flags := c.u32()
	r.Flags, t.On = infer.Flags(flags&3), flags&requestTraced != 0
	r.Raw = flags&requestRaw != 0
	c.u64() // ticket
	r.Correlation.Number = c.u64()
	if t := c.u64(); t > 0 {
		r.Timeout = microseconds(t)
	}
	r.Priority = c.u64()
	c.u32() // state
	id, text, inputs, outputs := int(c.u16()), int(c.u16()), int(c.u16()), int(c.u16())
	names, params, trace := int(c.u32()), int(c.u32()), int(c.u32())
	t.Number = c.u32()
	r.ID = string(c.take(id))
	r.Correlation.Text = string(c.take(text))
	list := cursor{b: c.take(names)}
	for range outputs {
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: string(list.take(int(list.u16())))})
	}
	if b := c.take(params); len(b) > 0 {
		var err error
		if r.Parameters, err = parseParameters(b, r.Parameters); err != nil {
			return err
		}
	}
	t.Context = string(c.take(trace))
	c.pad()
	if c.bad || list.bad {
		return errFrame
	}
	for range inputs {
		if err := d.input(c, r); err != nil {
			return err
		}
	}
	return nil
}

// input reads an input's record and adds the input to r.
func (d *Decoder) input(c *cursor, r *infer.Request) error {
	sig, at, err := tensorRecord(c, d.sigs)
	if err != nil {
		if sig != nil {
			d.skip(at)
		}
		return err
	}
	data, buf, err := d.data(sig, at)
	if err != nil {
		return err
	}
	if buf != nil {
		r.Own(buf)
	}
	shape := r.Dims(len(sig.shape))
	copy(shape, sig.shape)
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: sig.name, DataType: sig.dt, Shape: shape, Data: data, Buf: buf})
	return nil
}

// microseconds turns a number of microseconds into a duration, at most the longest possible one.
func microseconds(n uint64) time.Duration {
	if n > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Microsecond
}
