package model

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// deviceUser is the identity backend; its models record where inputs are.
type deviceUser struct {
	backend.Backend
	where []bool // of every input that was executed: it was on a GPU
	asks  []bool // of every request: outputs may be left there
}

func (u *deviceUser) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	m, err := u.Backend.Load(ctx, s)
	return deviceModel{&beforeModel{m, u.look}}, err
}

type deviceModel struct{ *beforeModel }

func (deviceModel) UsesDeviceMemory(gpu int) bool { return gpu == 1 }

// look notes where tensors are, and brings them to the host for the backend.
func (u *deviceUser) look(b *infer.Batch) error {
	for _, r := range b.Requests {
		u.asks = append(u.asks, r.OnDevice)
		for k := range r.Inputs {
			u.where = append(u.where, r.Inputs[k].OnDevice() != nil)
			var pool tensor.Pool
			if buf, err := r.Inputs[k].ToHost(&pool); err != nil {
				return err
			} else if buf != nil {
				r.Own(buf)
			}
		}
	}
	return nil
}

// looker is a trace that copies tensors if it is true.
type looker bool

func (l looker) Admitted(*infer.Request)                   {}
func (l looker) Responded(*infer.Request, *infer.Response) {}
func (l looker) Child() infer.Trace                        { return l }
func (l looker) KeepsTensors() bool                        { return bool(l) }

// Inputs on a GPU reach the instances of models that take them, unless the server itself has to read them. Every
// request gets the same response as with its inputs in the host's memory.
func TestInputsOnDevices(t *testing.T) {
	const io = `input { name: "INPUT0" data_type: TYPE_FP32 dims: 2 } output { name: "OUTPUT0" data_type: TYPE_FP32 ` +
		`dims: 2 } max_batch_size: 8 `
	content := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, tt := range []struct {
		name, config string
		plain        bool // the backend takes none
		cached       bool
		trace        infer.Trace
		unreadable   bool
		size         int
		stays        bool
		err          status.Code
		text         string
	}{
		{name: "a model that takes them", stays: true},
		{name: "under a trace of times", trace: looker(false), stays: true},
		{name: "under a trace of tensors", trace: looker(true)},
		{name: "a model that does not", plain: true},
		{name: "a model with a response cache", config: `response_cache { enable: true }`, cached: true},
		{name: "a model with sequences", config: `sequence_batching { direct {} }`},
		{name: "one that cannot be read", plain: true, unreadable: true, err: status.InvalidArg,
			text: "cannot read it"},
		{name: "one of another size", size: 12, err: status.InvalidArg,
			text: "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model 'm'. Expected " +
				"8, got 12"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &deviceUser{Backend: builtin.Identity()}
			s := spec(config(t, io+tt.config), t.TempDir(), u)
			if tt.plain {
				s.Backend = u.Backend
			}
			if tt.cached {
				store, err := cache.New(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				s.Cache = store
			}
			m := serve(t, s)
			if takes := m.TakesDeviceMemory(1); takes != (tt.stays || tt.trace != nil || tt.size > 0) ||
				m.TakesDeviceMemory(0) {
				t.Errorf("it says %v of its GPU, %v of another", takes, m.TakesDeviceMemory(0))
			}
			d := tensor.Device{GPU: 1, Address: 4096, Size: 8,
				Read: func(b []byte) error { copy(b, content); return nil }}
			if tt.size > 0 {
				d.Size = tt.size
			}
			if tt.unreadable {
				d.Read = func([]byte) error { return status.New(status.InvalidArg, "cannot read it") }
			}
			freed := make(chan bool, 2)
			buf := tensor.NewDeviceBuffer(d, func(*tensor.Buffer) { freed <- true })
			r := request(tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, 2}, Buf: buf})
			r.Own(buf)
			r.Trace = tt.trace
			if tt.config == `sequence_batching { direct {} }` {
				r.Correlation.Number, r.Flags = 1, infer.SequenceStart|infer.SequenceEnd
			}
			out, err := ask(t, m, r)
			if (err != nil) != (tt.text != "") || err != nil &&
				(status.CodeOf(err) != tt.err || err.Error() != tt.text) {
				t.Errorf("%v, want %q", err, tt.text)
			}
			if err == nil && (len(out) != 1 || !bytes.Equal(out[0].Data, content)) {
				t.Errorf("answered %v, want the input", out)
			}
			if err == nil && !tt.plain && (len(u.where) != 1 || u.where[0] != tt.stays || u.asks[0] != tt.stays) {
				t.Errorf("executed on a GPU: %v, with outputs to be left there: %v; want %v", u.where, u.asks, tt.stays)
			}
			r.Release()
			<-freed // a scheduler of sequences may hold the request a moment longer
			if n := m.inflight.Load(); n != 0 {
				t.Errorf("%d requests are still inside", n)
			}
		})
	}
	if err := (&tensor.Device{}).ReadAll(nil); err == nil || errors.Is(err, context.Canceled) {
		t.Error("memory that nobody can read is read")
	}
}
