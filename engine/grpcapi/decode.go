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

// message receives one ModelInferRequest. The codec fills it, the handler takes r out of it.
type message struct {
	r   *infer.Request // the handler's reference; nil if err is set or nothing came
	err error          // what is wrong with the message, for the client
	id  string         // the request's ID when err is set

	version    string // model_version as sent
	emptyFinal bool   // the client wants the empty final response of a decoupled model

	// Scratch, kept for the next message.
	inputs  []input
	params  []parameter
	tparams []parameter // of the tensor at hand
	dims    []int64     // of the tensor at hand
	raw     [][]byte
	pool    *tensor.Pool
	regions *shm.Registry // where clients' shared memory is found
}

// A message of a few bytes each could name far more than any model has; what is kept per item would be a hundred times
// what was sent.
const (
	maxTensors    = 4096 // inputs, outputs, raw contents
	maxParameters = 1024 // of a request or a tensor
	maxDims       = 1024
)

func tooMany(what string, limit int) error {
	return status.Errorf(status.InvalidArg, "the request has more than %d %s", limit, what)
}

// input is what the wire said of an input beside its name, type and shape.
type input struct {
	contents []byte // an encoded InferTensorContents
	has      bool   // contents is there, perhaps empty
	counts   counts
	shared   bool // its data lies in shared memory
	at       shm.Range
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
	clear(m.tparams)
	clear(m.raw)
	*m = message{inputs: m.inputs[:0], params: m.params[:0], tparams: m.tparams[:0], dims: m.dims[:0], raw: m.raw[:0]}
	if cap(m.inputs) <= 256 && cap(m.raw) <= 256 && cap(m.params) <= 256 && cap(m.tparams) <= 256 && cap(m.dims) <= 1024 {
		messages.Put(m)
	}
}

// Receive decodes b into m.r, or sets m.err. It takes over the caller's reference on b: the request owns the memory, of
// which its tensors are views.
func (m *message) Receive(b *tensor.Buffer) {
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
		m.id = strings.Clone(m.r.ID)
		m.r.Release()
		m.r = nil
	}
	if m.err == nil {
		m.err = err
	}
}

// decode reads a ModelInferRequest as the generated decoder would: fields may come in any order and more than once,
// unknown ones are skipped, the last of a single value stands.
func (m *message) decode(b []byte) error {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return malformed("a field tag")
		}
		b = b[n:]
		if typ != protowire.BytesType || num > 7 {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return malformed("an unknown field")
			}
			b = b[n:]
			continue
		}
		v, n := consumeBytes(b)
		if n < 0 {
			return malformed("the length of a field")
		}
		b = b[n:]
		var err error
		switch num {
		case 1:
			m.r.ModelName, err = text(v, "model_name")
		case 2:
			m.version, err = text(v, "model_version")
		case 3:
			m.r.ID, err = text(v, "id")
		case 4:
			m.params, err = appendParameter(m.params, v, "parameters")
		case 5:
			err = m.decodeInput(v)
		case 6:
			err = m.decodeOutput(v)
		case 7:
			m.raw = append(m.raw, v)
		}
		if err != nil {
			return err
		}
		if max(len(m.inputs), len(m.r.Outputs), len(m.raw)) > maxTensors {
			return tooMany("inputs, outputs or raw_input_contents", maxTensors)
		}
	}
	return nil
}

// parseVersion reads a model version; "" is infer.LatestVersion. The texts are Triton's.
func parseVersion(s string) (int64, error) {
	if s == "" {
		return infer.LatestVersion, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, status.Errorf(status.InvalidArg,
			"failed to get model version from specified version string '%s' (details: stol), version should be an integral value > 0", s)
	}
	if n < 0 {
		return 0, status.Errorf(status.InvalidArg, "invalid model version specified '%s' , version should be an integral value > 0", s)
	}
	return n, nil
}

func (m *message) decodeInput(b []byte) error {
	var in input
	t := tensor.Tensor{}
	m.dims, m.tparams = m.dims[:0], m.tparams[:0]
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return malformed("inputs")
		}
		b = b[n:]
		if num == 3 && typ == protowire.VarintType {
			d, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return malformed("inputs.shape")
			}
			m.dims, b = append(m.dims, int64(d)), b[n:]
			continue
		}
		if typ != protowire.BytesType || num > 5 {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return malformed("inputs")
			}
			b = b[n:]
			continue
		}
		v, n := consumeBytes(b)
		if n < 0 {
			return malformed("inputs")
		}
		b = b[n:]
		var err error
		switch num {
		case 1:
			t.Name, err = text(v, "inputs.name")
		case 2:
			if _, err = text(v, "inputs.datatype"); err == nil {
				t.DataType = tensor.ParseDataType(v)
			}
		case 3:
			err = m.packedShape(v)
		case 4:
			m.tparams, err = appendParameter(m.tparams, v, "inputs.parameters")
		case 5:
			err = in.addContents(v)
		}
		if err != nil {
			return err
		}
	}
	if len(m.dims) > maxDims {
		return tooMany("dimensions in a shape", maxDims)
	}
	t.Shape = m.r.Dims(len(m.dims))
	copy(t.Shape, m.dims)
	if len(m.tparams) > 0 {
		var err error
		if in.at, in.shared, err = sharedMemory(m.tparams, t.Name); err != nil {
			return err
		}
	}
	m.r.Inputs = append(m.r.Inputs, t)
	m.inputs = append(m.inputs, in)
	return nil
}

func (m *message) packedShape(b []byte) error {
	for len(b) > 0 {
		if b[0] < 0x80 {
			m.dims, b = append(m.dims, int64(b[0])), b[1:]
			continue
		}
		d, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return malformed("inputs.shape")
		}
		m.dims, b = append(m.dims, int64(d)), b[n:]
	}
	return nil
}

// addContents takes an InferTensorContents; a second one in the same input is merged, as protobuf does: encoded
// messages merge by concatenation.
func (in *input) addContents(b []byte) error {
	if err := in.counts.add(b); err != nil {
		return err
	}
	if in.has {
		in.contents = slices.Concat(in.contents, b)
	} else {
		in.contents = b
	}
	in.has = true
	return nil
}

func (m *message) decodeOutput(b []byte) error {
	var out infer.RequestedOutput
	out.Binary = true
	m.tparams = m.tparams[:0]
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return malformed("outputs")
		}
		b = b[n:]
		if typ != protowire.BytesType || num > 2 {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return malformed("outputs")
			}
			b = b[n:]
			continue
		}
		v, n := consumeBytes(b)
		if n < 0 {
			return malformed("outputs")
		}
		b = b[n:]
		var err error
		if num == 1 {
			out.Name, err = text(v, "outputs.name")
		} else {
			m.tparams, err = appendParameter(m.tparams, v, "outputs.parameters")
		}
		if err != nil {
			return err
		}
	}
	if len(m.tparams) > 0 {
		if err := m.outputParameters(&out); err != nil {
			return err
		}
	}
	m.r.Outputs = append(m.r.Outputs, out)
	return nil
}

// outputParameters moves a requested output's parameters into out.
func (m *message) outputParameters(out *infer.RequestedOutput) error {
	at, shared, err := sharedMemory(m.tparams, out.Name)
	if err != nil {
		return err
	}
	if out.Classification, err = classCount(m.tparams); err != nil || !shared {
		return err
	}
	if out.Classification > 0 {
		return status.New(status.InvalidArg, "output can't set both 'shared_memory_region' and 'classification'")
	}
	out.Shared, err = m.regions.Slot(at)
	return err
}

// resolve gives each input its data and moves the parameters into the request. own is the memory of the message.
func (m *message) resolve(own *tensor.Buffer) error {
	var err error
	if m.r.Version, err = parseVersion(m.version); err != nil {
		return err
	}
	if err := m.applyParameters(m.r); err != nil {
		return err
	}
	next := 0
	var budget shm.Budget
	for i := range m.inputs {
		in, t := &m.inputs[i], &m.r.Inputs[i]
		switch {
		case in.shared && in.has:
			return status.Errorf(status.InvalidArg,
				"unexpected 'content' provided when using shared memory for input tensor '%s' for model '%s'", t.Name, m.r.ModelName)
		case in.shared:
			buf, err := m.regions.Read(m.r, m.pool, in.at, t.DataType, &budget)
			if err != nil {
				return err
			}
			m.r.Own(buf)
			t.Data, t.Buf = buf.Bytes(), buf
		case in.has && len(m.raw) > 0:
			return status.Errorf(status.InvalidArg,
				"contents field must not be specified when using raw_input_contents for '%s' for model '%s'", t.Name, m.r.ModelName)
		case in.has:
			if err := m.typed(t, in, own); err != nil {
				return err
			}
		case next < len(m.raw):
			t.Data, t.Buf = m.raw[next], own
			next++
		default:
			return status.Errorf(status.InvalidArg,
				"unable to find data for input tensor '%s' for model '%s' in request.", t.Name, m.r.ModelName)
		}
	}
	if next < len(m.raw) {
		return status.Errorf(status.InvalidArg,
			"raw_input_contents has %d entries but only %d inputs for model '%s' take one; send one entry per input, in their order",
			len(m.raw), next, m.r.ModelName)
	}
	return nil
}
