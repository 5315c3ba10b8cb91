package frames

import (
	"encoding/binary"
	"math"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
)

// Encoder builds one frame after the other. Small tensor data goes into the frame, behind the records; other data
// goes into the arena at once.
type Encoder struct {
	// Arena is where large tensors and bodies go: the one that this side allocates in.
	Arena *arena.Arena
	// ToServer says that the server reads the frames, not the process.
	ToServer bool

	buf    []byte // header and records
	inline []inlineData
	size   int     // of the inline data
	slots  []int64 // allocated for this frame, by the offset of their data
}

type inlineData struct {
	field int // where in buf the offset goes
	data  []byte
}

// Begin begins a frame.
func (e *Encoder) Begin() {
	e.buf = append(e.buf[:0], make([]byte, HeaderSize)...)
	clear(e.inline)
	e.inline, e.size, e.slots = e.inline[:0], 0, e.slots[:0]
}

// Drop frees what the frame took of the arena. It is called when the frame is not sent.
func (e *Encoder) Drop() {
	for _, at := range e.slots {
		e.Arena.Free(at)
	}
	e.slots = e.slots[:0]
}

// Reset drops the references to tensors and to the arena, so that the encoder can be kept for later.
func (e *Encoder) Reset() {
	clear(e.inline)
	e.Arena = nil
}

func (e *Encoder) u16(v uint16) { e.buf = binary.LittleEndian.AppendUint16(e.buf, v) }
func (e *Encoder) u32(v uint32) { e.buf = binary.LittleEndian.AppendUint32(e.buf, v) }
func (e *Encoder) u64(v uint64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, v) }

// zeros are the padding of records.
var zeros [16]byte

func (e *Encoder) pad() { e.buf = append(e.buf, zeros[:-len(e.buf)&7]...) }

// closeRecord pads the record that began at start and writes its size there.
func (e *Encoder) closeRecord(start int) {
	e.pad()
	binary.LittleEndian.PutUint32(e.buf[start:], uint32(len(e.buf)-start))
}

// Bytes appends b to the body as it is.
func (e *Encoder) Bytes(b []byte) { e.buf = append(e.buf, b...) }

// tensor appends a tensor's record with the flags of its signature. The data goes into the arena, or is appended by
// Finish and must not change until then.
func (e *Encoder) tensor(t *tensor.Tensor, flags uint32) error {
	if len(t.Name) > math.MaxUint16 || len(t.Shape) > math.MaxUint8 {
		return status.Errorf(status.InvalidArg,
			"tensor '%.64s' has a name or a shape that is too long for a model in a separate process", t.Name)
	}
	start := len(e.buf)
	e.u32(0)
	e.u16(uint16(8 + 8*len(t.Shape) + len(t.Name)))
	place := uint16(inFrame)
	var at int64
	if size := len(t.Data); size > inlineMax || e.size+size > inlineBudget {
		var err error
		if at, err = e.outOfLine(t.Data); err != nil {
			return err
		}
		if place = inDown; e.ToServer {
			place = inUp
		}
	} else if size > 0 {
		e.inline = append(e.inline, inlineData{field: len(e.buf) + 2, data: t.Data})
		e.size += (size + 15) &^ 15
	}
	e.u16(place)
	e.u64(uint64(at))
	e.u64(uint64(len(t.Data)))
	e.buf = append(e.buf, byte(t.DataType), byte(len(t.Shape)))
	e.u16(uint16(len(t.Name)))
	e.u32(flags)
	for _, d := range t.Shape {
		e.u64(uint64(d))
	}
	e.buf = append(e.buf, t.Name...)
	e.closeRecord(start)
	return nil
}

// outOfLine returns the offset of data in the arena. It copies the data unless it is in a reserved slot.
func (e *Encoder) outOfLine(data []byte) (at int64, err error) {
	at, ok := e.Arena.Claim(data)
	if !ok {
		if at, err = e.Arena.Store(data); err != nil {
			return 0, err
		}
	}
	e.slots = append(e.slots, at)
	return at, nil
}

// Finish appends the inline data and returns the packet, which is valid until the next Begin.
func (e *Encoder) Finish(k Kind, flags uint16, id uint64) ([]byte, error) {
	for _, t := range e.inline {
		e.buf = append(e.buf, zeros[:-len(e.buf)&15]...)
		binary.LittleEndian.PutUint64(e.buf[t.field:], uint64(len(e.buf)-HeaderSize))
		e.buf = append(e.buf, t.data...)
	}
	if len(e.buf) > MaxPacket {
		body := e.buf[HeaderSize:]
		at, err := e.Arena.Store(body)
		if err != nil {
			return nil, err
		}
		e.slots = append(e.slots, at)
		e.buf = e.buf[:HeaderSize]
		e.u64(uint64(at))
		e.u64(uint64(len(body)))
		flags |= flagArena
	}
	Header{Kind: k, Flags: flags, Length: uint32(len(e.buf) - HeaderSize), ID: id}.Put(e.buf)
	return e.buf, nil
}

// Requests begins the body of an EXECUTE with n requests.
func (e *Encoder) Requests(n int) {
	e.u32(uint32(n))
	e.u32(0)
}

// Request appends a request's record. The state is the index of its state byte in the down arena.
func (e *Encoder) Request(r *infer.Request, ticket uint64, state uint32) error {
	if len(r.ID) > math.MaxUint16 || len(r.Correlation.Text) > math.MaxUint16 ||
		len(r.Inputs) > math.MaxUint16 || len(r.Outputs) > math.MaxUint16 {
		return status.New(status.InvalidArg,
			"the request has an id, a correlation ID or a number of tensors that is too long "+
				"for a model in a separate process")
	}
	start := len(e.buf)
	e.u32(0)
	flags := uint32(r.Flags) & 3
	if r.Trace != nil {
		flags |= requestTraced
	}
	if r.Raw {
		flags |= requestRaw
	}
	e.u32(flags)
	e.u64(ticket)
	e.u64(r.Correlation.Number)
	e.u64(uint64(r.Timeout.Microseconds()))
	e.u64(r.Priority)
	e.u32(state)
	e.u16(uint16(len(r.ID)))
	e.u16(uint16(len(r.Correlation.Text)))
	e.u16(uint16(len(r.Inputs)))
	e.u16(uint16(len(r.Outputs)))
	lengths := len(e.buf)
	e.buf = append(e.buf, zeros[:16]...)
	e.buf = append(e.buf, r.ID...)
	e.buf = append(e.buf, r.Correlation.Text...)
	at := len(e.buf)
	for i := range r.Outputs {
		name := r.Outputs[i].Name
		name = name[:min(len(name), math.MaxUint16)]
		e.u16(uint16(len(name)))
		e.buf = append(e.buf, name...)
	}
	binary.LittleEndian.PutUint32(e.buf[lengths:], uint32(len(e.buf)-at))
	e.parameters(lengths+4, r.Parameters)
	if t, ok := r.Trace.(infer.NumberedTrace); ok {
		binary.LittleEndian.PutUint32(e.buf[lengths+12:], uint32(min(t.ID(), math.MaxUint32)))
	}
	if t, ok := r.Trace.(infer.PropagatedTrace); ok {
		text := t.Propagate()
		binary.LittleEndian.PutUint32(e.buf[lengths+8:], uint32(len(text)))
		e.buf = append(e.buf, text...)
	}
	return e.closeWithTensors(start, r.Inputs, nil)
}

// parameters appends parameters as a JSON object, if there are any, and writes its length at field.
func (e *Encoder) parameters(field int, params []infer.Parameter) {
	if len(params) == 0 {
		return
	}
	at := len(e.buf)
	e.buf = appendParameters(e.buf, params)
	binary.LittleEndian.PutUint32(e.buf[field:], uint32(len(e.buf)-at))
}

// closeWithTensors ends the record that began at start with the records of tensors, then those of states.
func (e *Encoder) closeWithTensors(start int, tensors, states []tensor.Tensor) error {
	e.pad()
	for i := range tensors {
		if err := e.tensor(&tensors[i], 0); err != nil {
			return err
		}
	}
	for i := range states {
		if err := e.tensor(&states[i], tensorState); err != nil {
			return err
		}
	}
	e.closeRecord(start)
	return nil
}

// BLS writes the body of a BLS: a request to another model, with any number of responses. It is in the trace of the
// request with the ticket traced; 0: in none, and its parent is not known.
func (e *Encoder) BLS(r *infer.Request, traced uint64) error {
	if len(r.ModelName) > math.MaxUint16 {
		return status.New(status.InvalidArg, "the name of the model is too long")
	}
	flags := uint32(blsStream)
	if traced != 0 {
		flags |= blsTraced
	}
	e.u64(uint64(r.Version))
	e.u64(traced)
	e.u32(flags)
	e.u16(uint16(len(r.ModelName)))
	e.u16(0)
	e.u64(0)
	e.buf = append(e.buf, r.ModelName...)
	e.pad()
	return e.Request(r, 0, 0)
}

// Responses begins the body of RESPONSES with n responses of an execution that did not fail as a whole.
func (e *Encoder) Responses(n int) {
	e.u32(uint32(n))
	e.u32(0)
	e.u64(0)
}

// Activity writes the body of a TRACE: an activity of a traced request, with nanoseconds of CLOCK_MONOTONIC.
func (e *Encoder) Activity(a Activity) {
	e.u64(a.Ticket)
	e.u64(uint64(a.At))
	e.buf = append(e.buf, a.Name...)
}

// Failure is the body of RESPONSES for an execution that failed as a whole.
func (e *Encoder) Failure(err error) {
	text := err.Error()
	e.u32(0)
	e.u32(uint32(status.CodeOf(err)) + 1)
	e.u32(uint32(len(text)))
	e.u32(0)
	e.buf = append(e.buf, text...)
	e.pad()
}

// Response appends the record of a response to the request of a ticket.
func (e *Encoder) Response(resp *infer.Response, ticket uint64) error {
	start := len(e.buf)
	var flags, code uint32
	text, outputs, states := "", resp.Outputs, resp.States
	switch {
	case resp.Err != nil:
		flags, code, text = responseError, uint32(status.CodeOf(resp.Err)), resp.Err.Error()
		outputs, states = nil, nil
	case resp.Empty:
		flags = responseEmpty
	}
	switch {
	case resp.Again && resp.Err == nil:
		flags = responseReschedule | responseEmpty
	case resp.Final:
		flags |= responseFinal
	}
	if resp.Report != nil {
		flags |= responseReported
	}
	e.u32(0)
	e.u32(flags)
	e.u64(ticket)
	e.u16(uint16(len(outputs) + len(states)))
	e.u16(uint16(code))
	e.u32(uint32(len(text)))
	params := len(e.buf)
	e.u64(0)
	if resp.Report != nil {
		e.buf = AppendReport(e.buf, resp.Report)
	}
	e.buf = append(e.buf, text...)
	e.parameters(params, resp.Parameters)
	return e.closeWithTensors(start, outputs, states)
}
