package worker

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// encoder builds one frame. Its memory is used again. Small tensor data goes into the frame behind the records, other
// into the arena at once.
type encoder struct {
	arena *arena
	place uint16 // of the arena, for who reads the frame; 0: down
	buf   []byte // header and records
	tail  []tailData
	size  int     // of the tail
	slots []int64 // taken for this frame, by the offset of their data
}

type tailData struct {
	field int // where in buf the offset goes
	data  []byte
}

func (e *encoder) begin() {
	e.buf = append(e.buf[:0], make([]byte, headerSize)...)
	clear(e.tail)
	e.tail, e.size, e.slots = e.tail[:0], 0, e.slots[:0]
}

// drop frees what the frame took of the arena, when it is not sent.
func (e *encoder) drop() {
	for _, at := range e.slots {
		e.arena.free(at)
	}
	e.slots = e.slots[:0]
}

func (e *encoder) u16(v uint16) { e.buf = binary.LittleEndian.AppendUint16(e.buf, v) }
func (e *encoder) u32(v uint32) { e.buf = binary.LittleEndian.AppendUint32(e.buf, v) }
func (e *encoder) u64(v uint64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, v) }

// zeros are what records are padded with.
var zeros [16]byte

func (e *encoder) pad() { e.buf = append(e.buf, zeros[:-len(e.buf)&7]...) }

// close writes a record's size where it began.
func (e *encoder) close(start int) {
	e.pad()
	binary.LittleEndian.PutUint32(e.buf[start:], uint32(len(e.buf)-start))
}

// tensor appends a tensor's record, and its data to the tail or the arena. The data must not change until finish.
func (e *encoder) tensor(t *tensor.Tensor) error {
	if len(t.Name) > math.MaxUint16 || len(t.Shape) > math.MaxUint8 {
		return status.Errorf(status.InvalidArg, "tensor '%.64s' has a name or a shape that is too long for a model in a process of its own", t.Name)
	}
	start := len(e.buf)
	e.u32(0)
	e.u16(uint16(8 + 8*len(t.Shape) + len(t.Name)))
	place := uint16(inFrame)
	var at int64
	var err error
	size := t.Size()
	inline := size <= inlineMost && e.size+size <= inlineBudget
	if !inline {
		var there bool
		if at, there = e.arena.claim(t.Data); there {
			e.slots = append(e.slots, at)
		} else if at, err = e.slot(t.Data); err != nil {
			return err
		}
		place = max(e.place, inDown)
	} else if size > 0 {
		e.tail = append(e.tail, tailData{field: len(e.buf) + 2, data: t.Data})
		e.size += (size + 15) &^ 15
	}
	e.u16(place)
	e.u64(uint64(at))
	e.u64(uint64(size))
	e.buf = append(e.buf, byte(t.DataType), byte(len(t.Shape)))
	e.u16(uint16(len(t.Name)))
	e.u32(0)
	for _, d := range t.Shape {
		e.u64(uint64(d))
	}
	e.buf = append(e.buf, t.Name...)
	e.close(start)
	return nil
}

// slot copies data into a slot.
func (e *encoder) slot(data []byte) (int64, error) {
	at, err := e.arena.alloc(len(data))
	if err != nil {
		return 0, err
	}
	e.slots = append(e.slots, at)
	tensor.Copy(e.arena.mem[at:], data)
	return at, nil
}

// finish appends the tail and returns the packet, which is good until the next begin.
func (e *encoder) finish(k kind, flags uint16, id uint64) ([]byte, error) {
	for _, t := range e.tail {
		e.buf = append(e.buf, zeros[:-len(e.buf)&15]...)
		binary.LittleEndian.PutUint64(e.buf[t.field:], uint64(len(e.buf)-headerSize))
		e.buf = append(e.buf, t.data...)
	}
	if len(e.buf) > maxPacket {
		body := e.buf[headerSize:]
		at, err := e.slot(body)
		if err != nil {
			return nil, err
		}
		e.buf = e.buf[:headerSize]
		e.u64(uint64(at))
		e.u64(uint64(len(body)))
		flags |= flagFar
	}
	putHeader(e.buf, header{kind: k, flags: flags, length: uint32(len(e.buf) - headerSize), id: id})
	return e.buf, nil
}

// request appends a request's record.
func (e *encoder) request(r *infer.Request, ticket uint64, state uint32) error {
	if len(r.ID) > math.MaxUint16 || len(r.Correlation.Text) > math.MaxUint16 || len(r.Inputs) > math.MaxUint16 || len(r.Outputs) > math.MaxUint16 {
		return status.New(status.InvalidArg, "the request has an id, a correlation ID or a number of tensors that is too long for a model in a process of its own")
	}
	start := len(e.buf)
	e.u32(0)
	flags := uint32(r.Flags) & 3
	if r.Trace != nil {
		flags |= requestTraced
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
		e.u16(uint16(min(len(name), math.MaxUint16)))
		e.buf = append(e.buf, name[:min(len(name), math.MaxUint16)]...)
	}
	binary.LittleEndian.PutUint32(e.buf[lengths:], uint32(len(e.buf)-at))
	if len(r.Parameters) > 0 {
		at = len(e.buf)
		e.buf = appendParameters(e.buf, r.Parameters)
		binary.LittleEndian.PutUint32(e.buf[lengths+4:], uint32(len(e.buf)-at))
	}
	e.pad()
	for i := range r.Inputs {
		if err := e.tensor(&r.Inputs[i]); err != nil {
			return err
		}
	}
	binary.LittleEndian.PutUint32(e.buf[start:], uint32(len(e.buf)-start))
	return nil
}

// response appends a RESPONSES body with one response.
func (e *encoder) response(resp *infer.Response) error {
	e.responsesHead(1)
	return e.responseTo(resp, 0)
}

// responsesHead appends what precedes n responses of an execution without an error of its own.
func (e *encoder) responsesHead(n int) {
	e.u32(uint32(n))
	e.u32(0)
	e.u64(0)
}

// responseTo appends the record of a response to the request of a ticket.
func (e *encoder) responseTo(resp *infer.Response, ticket uint64) error {
	start := len(e.buf)
	var flags, code uint32
	text := ""
	switch {
	case resp.Err != nil:
		flags, code, text = responseError, uint32(status.CodeOf(resp.Err)), resp.Err.Error()
	case len(resp.Outputs) == 0 && resp.Final:
		flags = responseEmpty
	}
	if resp.Final {
		flags |= responseFinal
	}
	e.u32(0)
	e.u32(flags)
	e.u64(ticket)
	outputs := resp.Outputs
	if resp.Err != nil {
		outputs = nil
	}
	e.u16(uint16(len(outputs)))
	e.u16(uint16(code))
	e.u32(uint32(len(text)))
	params := len(e.buf)
	e.u64(0)
	e.buf = append(e.buf, text...)
	if len(resp.Parameters) > 0 {
		at := len(e.buf)
		e.buf = appendParameters(e.buf, resp.Parameters)
		binary.LittleEndian.PutUint32(e.buf[params:], uint32(len(e.buf)-at))
	}
	e.pad()
	for i := range outputs {
		if err := e.tensor(&outputs[i]); err != nil {
			return err
		}
	}
	binary.LittleEndian.PutUint32(e.buf[start:], uint32(len(e.buf)-start))
	return nil
}

// appendParameters writes parameters as a JSON object, in their order.
func appendParameters(b []byte, params []infer.Parameter) []byte {
	b = append(b, '{')
	for i := range params {
		p := &params[i]
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendString(b, p.Name)
		b = append(b, ": "...)
		switch p.Kind {
		case infer.BoolParameter:
			b = strconv.AppendBool(b, p.Bool)
		case infer.IntParameter:
			b = strconv.AppendInt(b, p.Int, 10)
		case infer.UintParameter:
			b = strconv.AppendUint(b, p.Uint, 10)
		case infer.FloatParameter:
			b = appendFloat(b, p.Float)
		case infer.StringParameter:
			b = appendString(b, p.Text)
		}
	}
	return append(b, '}')
}

// appendFloat writes a number so that a reader sees that it is not an integer. What JSON cannot say is null.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	at := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	for _, c := range b[at:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, ".0"...)
}

func appendString(b []byte, s string) []byte {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	text, _ := json.Marshal(s) // a string can always be written
	return append(b, text...)
}
