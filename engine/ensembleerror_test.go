package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// breaker is a backend. Its model "breaks" sends the responses 0 to IN-1 and an error, and then closes broken. Its
// model "held" responds when broken is closed. If fails is set, it fails for 1. If stuck is set, it responds only to a
// cancelled request. If deaf is set, it sends to it once, and responds when it is closed, also to a cancelled request.
type breaker struct {
	broken, deaf chan struct{}
	stuck, fails bool
	hurried      atomic.Bool // there was a request whose reader must not pause
}

type breakerModel struct {
	*breaker
	name string
}

func (*breaker) Name() string           { return "breaker" }
func (*breaker) Traits() backend.Traits { return backend.Traits{} }

func (b *breaker) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	return breakerModel{b, s.ModelName}, nil
}

func (m breakerModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}
func (breakerModel) MemoryBytes() int64 { return 0 }
func (breakerModel) Close() error       { return nil }

func (m breakerModel) Execute(_ context.Context, b *infer.Batch) error {
	broken := m.broken // the test changes it once the request is answered
	for _, r := range b.Requests {
		if !r.Patient {
			m.hurried.Store(true)
		}
		n := numbers(r.Inputs[0].Data)[0]
		if m.name == "breaks" {
			for i := range n {
				if err := m.respond(r, i, false); err != nil {
					return err
				}
			}
			r.Fail(status.New(status.Internal, "the step broke"))
			close(broken)
			continue
		}
		<-broken
		if m.fails && n == 1 {
			r.Fail(status.New(status.Internal, "the next step broke"))
			continue
		}
		if m.stuck {
			<-r.Done()
		}
		if m.deaf != nil {
			m.deaf <- struct{}{}
			<-m.deaf
		}
		if err := m.respond(r, n, true); err != nil {
			return err
		}
	}
	return nil
}

func (breakerModel) respond(r *infer.Request, n int32, final bool) error {
	resp := r.NewResponse()
	resp.AddOutput("OUT", tensor.Int32, []int64{1}, words(n), nil)
	resp.Final = final
	return r.Respond(resp)
}

const breakerConfig = `backend: "breaker"
model_transaction_policy { decoupled: %v }
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 2 kind: KIND_CPU }
`

// breakerEnsemble is the format of an ensemble of "breaks". The first value names the tensor of its output, and the
// second has the steps that follow.
const breakerEnsemble = `platform: "ensemble"
input { name: "N" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
  step { model_name: "breaks" model_version: -1 input_map { key: "IN" value: "N" }
     output_map { key: "OUT" value: "%s" } }
  %s
}
`

// breakerModels returns a repository with the decoupled model breaks, the model held, and ensembles of them: alone of
// breaks, followed of both.
func breakerModels(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, cfg := range map[string]string{
		"breaks": fmt.Sprintf(breakerConfig, true), "held": fmt.Sprintf(breakerConfig, false),
		"alone": fmt.Sprintf(breakerEnsemble, "OUT", ""),
		"followed": fmt.Sprintf(breakerEnsemble, "each", `step { model_name: "held" model_version: -1
			input_map { key: "IN" value: "each" } output_map { key: "OUT" value: "OUT" } }`),
	} {
		write(t, root+"/"+name+"/config.pbtxt", cfg)
		write(t, root+"/"+name+"/1/.keep", "")
	}
	return root
}

// wantFirst checks how many first responses of a model the statistics count as a success, and how many as an error: an
// error is counted at its place, behind the responses (E034).
func wantFirst(t *testing.T, e *engine.Engine, model string, good, bad uint64) {
	t.Helper()
	s, err := e.ModelStatistics(model, -1)
	if err != nil {
		t.Fatal(err)
	}
	first := s.GetModelStats()[0].GetResponseStats()["0"]
	if first.GetFail().GetCount() != bad || first.GetSuccess().GetCount() != good {
		t.Errorf("the first response was an error %d times and a success %d times, want %d and %d",
			first.GetFail().GetCount(), first.GetSuccess().GetCount(), bad, good)
	}
}

func TestDecoupledStepFails_C048(t *testing.T) {
	root := breakerModels(t)
	serve := func(t *testing.T, b *breaker) *engine.Engine {
		return start(t, engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: []backend.Backend{b}},
		})
	}
	request := func(b *breaker, model string, n int32) *infer.Request {
		b.broken = make(chan struct{})
		r := infer.New()
		r.ModelName = model
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "N", DataType: tensor.Int32, Shape: []int64{1}, Data: words(n)})
		return r
	}
	for model, most := range map[string]int32{"alone": 70, "followed": 30} { // 32 responses wait for "held"
		t.Run("the client gets all responses before the error, "+model, func(t *testing.T) {
			b := &breaker{}
			e := serve(t, b)
			for i := range 100 {
				n := []int32{0, 1, 20, most}[i%4]
				r := request(b, model, n)
				outs, err := all(t, e, r)
				r.Release()
				if err == nil || !strings.HasSuffix(err.Error(), "the step broke") || len(outs) != int(n) {
					t.Fatalf("%d of %d responses, %v", len(outs), n, err)
				}
				for i, out := range outs {
					if out["OUT"][0] != int32(i) {
						t.Fatalf("response %d is %v", i, out)
					}
				}
			}
			wantFirst(t, e, model, 75, 25)
		})
	}
	t.Run("C044 a decoupled step waits for slow steps that follow, for any time", func(t *testing.T) {
		b := &breaker{}
		e := serve(t, b)
		r := request(b, "followed", 2)
		defer r.Release()
		if outs, _ := all(t, e, r); len(outs) != 2 || b.hurried.Load() {
			t.Fatalf("%v; hurried: %v", outs, b.hurried.Load())
		}
	})
	t.Run("the error of a following step comes at once", func(t *testing.T) {
		b := &breaker{stuck: true, fails: true}
		e := serve(t, b)
		r := request(b, "followed", 2)
		defer r.Release()
		outs, err := all(t, e, r)
		if err == nil || !strings.HasSuffix(err.Error(), "the next step broke") || len(outs) != 0 {
			t.Fatalf("%v, %v", outs, err)
		}
	})
	t.Run("a cancelled request does not wait for the responses", func(t *testing.T) {
		b := &breaker{deaf: make(chan struct{})}
		e := serve(t, b)
		r := request(b, "followed", 1)
		defer r.Release()
		defer close(b.deaf)
		go func() {
			<-b.broken
			<-b.deaf
			r.Cancel()
		}()
		if outs, err := all(t, e, r); err == nil {
			t.Fatalf("%v without an error", outs)
		}
	})
}
