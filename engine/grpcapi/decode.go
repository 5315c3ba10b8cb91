package grpcapi

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// message receives one ModelInferRequest: it is an h2.Receiver. The handler takes r out of it.
type message struct {
	r   *infer.Request // with the handler's reference; nil if err is set or nothing was received
	err error          // what is wrong with the message, for the client
	id  string         // the request's ID if err is set
	// model is the name of its model if err is set, "" if that was not read.
	model string

	came infer.Stamp // when the message had come

	version    string // model_version as sent
	emptyFinal bool   // the client wants the empty final response of a decoupled model

	// Scratch, kept for the next message.
	inputs       []input
	params       []parameter
	tensorParams []parameter // of the tensor that is being decoded
	dims         []int64     // of the tensor that is being decoded
	raw          [][]byte

	pool    *tensor.Pool
	regions *shm.Registry // the memory that clients share
}

// Limits of one request. The server keeps up to a hundred bytes for an item that takes one byte in the message.
const (
	maxTensors    = 4096 // inputs, outputs, raw contents
	maxParameters = 1024 // of a request or a tensor
	maxDims       = tensor.MaxDims
)

func tooMany(what string, limit int) error {
	return status.Errorf(status.InvalidArg, "the request has more than %d %s", limit, what)
}

// input is the content of an input of the request.
type input struct {
	contents    []byte // an encoded InferTensorContents
	hasContents bool   // contents was sent, perhaps empty
	counts      counts // of contents
	shared      bool   // the data is in shared memory
	at          shm.Range
}

var messages = sync.Pool{New: func() any { return new(message) }}

func getMessage(pool *tensor.Pool, regions *shm.Registry) *message {
	m := messages.Get().(*message)
	m.pool, m.regions = pool, regions
	return m
}

func putMessage(m *message) {
	clear(m.inputs)
	clear(m.params)
	clear(m.tensorParams)
	clear(m.raw)
	*m = message{inputs: m.inputs[:0], params: m.params[:0], tensorParams: m.tensorParams[:0], dims: m.dims[:0],
		raw: m.raw[:0]}
	if cap(m.inputs) <= 256 && cap(m.raw) <= 256 && cap(m.params) <= 256 && cap(m.tensorParams) <= 256 &&
		cap(m.dims) <= 1024 {
		messages.Put(m)
	}
}

// Receive decodes b into m.r, or sets m.err. It takes over the caller's reference on b: the request owns the memory, of
// which its tensors are views.
func (m *message) Receive(b *tensor.Buffer) {
	m.came = infer.Now()
	if m.r != nil || m.err != nil {
		b.Release()
		m.fail(status.New(status.InvalidArg, "more than one message in a unary call"))
		return
	}
	m.r = infer.New()
	m.r.Own(b)
	err := m.decode(b.Bytes())
	if err == nil {
		err = m.resolve(b)
	}
	if err != nil {
		m.fail(err)
		return
	}
	m.r.Times.Arrived = infer.Now()
}

func (m *message) fail(err error) {
	if m.r != nil {
		m.id, m.model = strings.Clone(m.r.ID), strings.Clone(m.r.ModelName)
		m.r.Release()
		m.r = nil
	}
	if m.err == nil {
		m.err = err
	}
}

// decode reads a ModelInferRequest as the generated decoder would. Fields may come in any order. Unknown fields are
// skipped, and the last value of a field that is not repeated counts.
func (m *message) decode(b []byte) error {
	f := fields{b: b}
	for f.next() {
		if f.typ != protowire.BytesType {
			continue
		}
		var err error
		switch f.num {
		case 1:
			m.r.ModelName, err = text(f.data, "model_name")
		case 2:
			m.version, err = text(f.data, "model_version")
		case 3:
			m.r.ID, err = text(f.data, "id")
		case 4:
			m.params, err = appendParameter(m.params, f.data, "parameters")
		case 5:
			err = m.decodeInput(f.data)
		case 6:
			err = m.decodeOutput(f.data)
		case 7:
			m.raw = append(m.raw, f.data)
		}
		if err != nil {
			return err
		}
		if max(len(m.inputs), len(m.r.Outputs), len(m.raw)) > maxTensors {
			return tooMany("inputs, outputs or raw_input_contents", maxTensors)
		}
	}
	if f.bad {
		return malformed("ModelInferRequest")
	}
	return nil
}

// parseVersion reads a model version. "" means infer.LatestVersion. The texts are Triton's.
func parseVersion(s string) (int64, error) {
	if s == "" {
		return infer.LatestVersion, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, status.Errorf(status.InvalidArg, "failed to get model version from specified version string '%s' "+
			"(details: stol), version should be an integral value > 0", s)
	}
	if n < 0 {
		return 0, status.Errorf(status.InvalidArg,
			"invalid model version specified '%s' , version should be an integral value > 0", s)
	}
	return n, nil
}

func (m *message) decodeInput(b []byte) error {
	var in input
	t := tensor.Tensor{}
	m.dims, m.tensorParams = m.dims[:0], m.tensorParams[:0]
	f := fields{b: b}
	for f.next() {
		var err error
		switch {
		case f.bytes(1):
			t.Name, err = text(f.data, "inputs.name")
		case f.bytes(2):
			if _, err = text(f.data, "inputs.datatype"); err == nil {
				t.DataType = tensor.ParseDataType(f.data)
			}
		case f.bytes(3):
			for b := f.data; len(b) > 0 && len(m.dims) <= maxDims; {
				d, n := consumeVarint(b)
				if n < 0 {
					return malformed("inputs.shape")
				}
				m.dims, b = append(m.dims, int64(d)), b[n:]
			}
		case f.num == 3 && f.typ == protowire.VarintType: // a shape that is not packed
			if len(m.dims) <= maxDims {
				m.dims = append(m.dims, int64(f.bits))
			}
		case f.bytes(4):
			m.tensorParams, err = appendParameter(m.tensorParams, f.data, "inputs.parameters")
		case f.bytes(5):
			err = in.addContents(f.data)
		}
		if err != nil {
			return err
		}
	}
	if f.bad {
		return malformed("inputs")
	}
	if len(m.dims) > maxDims {
		return tooMany("dimensions in a shape", maxDims)
	}
	t.Shape = m.r.Dims(len(m.dims))
	copy(t.Shape, m.dims)
	if len(m.tensorParams) > 0 {
		var err error
		if in.at, in.shared, err = sharedMemory(m.tensorParams, t.Name); err != nil {
			return err
		}
	}
	m.r.Inputs = append(m.r.Inputs, t)
	m.inputs = append(m.inputs, in)
	return nil
}

// addContents takes an InferTensorContents. A second one of the same input is merged with the first, as in protobuf:
// encoded messages merge by concatenation.
func (in *input) addContents(b []byte) error {
	if err := in.counts.add(b); err != nil {
		return err
	}
	if in.hasContents {
		in.contents = slices.Concat(in.contents, b)
	} else {
		in.contents = b
	}
	in.hasContents = true
	return nil
}

func (m *message) decodeOutput(b []byte) error {
	out := infer.RequestedOutput{Binary: true}
	m.tensorParams = m.tensorParams[:0]
	f := fields{b: b}
	for f.next() {
		var err error
		switch {
		case f.bytes(1):
			out.Name, err = text(f.data, "outputs.name")
		case f.bytes(2):
			m.tensorParams, err = appendParameter(m.tensorParams, f.data, "outputs.parameters")
		}
		if err != nil {
			return err
		}
	}
	if f.bad {
		return malformed("outputs")
	}
	if len(m.tensorParams) > 0 {
		if err := m.outputParameters(&out); err != nil {
			return err
		}
	}
	m.r.Outputs = append(m.r.Outputs, out)
	return nil
}

// outputParameters moves a requested output's parameters into out.
func (m *message) outputParameters(out *infer.RequestedOutput) error {
	at, shared, err := sharedMemory(m.tensorParams, out.Name)
	if err != nil {
		return err
	}
	if out.Classification, err = classCount(m.tensorParams); err != nil || !shared {
		return err
	}
	if out.Classification > 0 {
		return status.New(status.InvalidArg, "output can't set both 'shared_memory_region' and 'classification'")
	}
	out.Shared, err = m.regions.Slot(at)
	return err
}

// resolve sets the data of each input and moves the parameters into the request. own is the memory of the message.
func (m *message) resolve(own *tensor.Buffer) error {
	var err error
	if m.r.Version, err = parseVersion(m.version); err != nil {
		return err
	}
	if err := m.applyParameters(m.r); err != nil {
		return err
	}
	next := 0 // the entry of m.raw for the next input that needs one
	var quota shm.Quota
	for i := range m.inputs {
		in, t := &m.inputs[i], &m.r.Inputs[i]
		var err error
		switch {
		case in.shared && in.hasContents:
			err = status.Errorf(status.InvalidArg,
				"unexpected 'content' provided when using shared memory for input tensor '%s' for model '%s'",
				t.Name, m.r.ModelName)
		case in.shared:
			err = m.readShared(t, in, &quota)
		case in.hasContents && len(m.raw) > 0:
			err = status.Errorf(status.InvalidArg,
				"contents field must not be specified when using raw_input_contents for '%s' for model '%s'",
				t.Name, m.r.ModelName)
		case in.hasContents:
			err = m.typed(t, in, own)
		case next < len(m.raw):
			t.Data, t.Buf = m.raw[next], own
			next++
		default:
			err = status.Errorf(status.InvalidArg,
				"unable to find data for input tensor '%s' for model '%s' in request.", t.Name, m.r.ModelName)
		}
		if err != nil {
			return err
		}
	}
	if next < len(m.raw) {
		return status.Errorf(status.InvalidArg, "raw_input_contents has %d entries but only %d inputs for model '%s' "+
			"take one; send one entry per input, in their order", len(m.raw), next, m.r.ModelName)
	}
	return nil
}

// readShared reads the data of an input from shared memory.
func (m *message) readShared(t *tensor.Tensor, in *input, quota *shm.Quota) error {
	buf, err := m.regions.Read(m.r, m.pool, in.at, t.DataType, quota)
	if err != nil {
		return err
	}
	m.r.Own(buf)
	t.Data, t.Buf = buf.Bytes(), buf
	return nil
}
