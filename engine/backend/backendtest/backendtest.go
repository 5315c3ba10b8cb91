package backendtest

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// patience bounds the waits for things that must happen; they take microseconds.
const patience = 20 * time.Second

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64) { c.n.Add(n) }

// Test runs the suite on each of the models.
func Test(t *testing.T, b backend.Backend, models ...Model) {
	t.Helper()
	if b.Name() == "" {
		t.Error("the backend has no name")
	}
	before := settledGoroutines(0)
	for i := range models {
		m := &models[i]
		t.Run(m.Name, func(t *testing.T) { testModel(t, b, m) })
	}
	if len(models) > 1 {
		t.Run("models do not disturb each other", func(t *testing.T) { testSideBySide(t, b, models) })
	}
	if after := settledGoroutines(before); after > before {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

// TestRefusals checks that the backend refuses each specification with its code and words.
func TestRefusals(t *testing.T, b backend.Backend, refusals ...Refusal) {
	for _, r := range refusals {
		t.Run(r.Name, func(t *testing.T) {
			if r.Spec.Log == nil {
				r.Spec.Log = discard()
			}
			m, err := b.Load(t.Context(), r.Spec)
			var inst backend.Instance
			if err == nil { // some faults show when an instance is made
				inst, err = m.NewInstance(t.Context(), place(&Model{Name: r.Spec.ModelName}, 0))
			}
			if err == nil {
				_ = inst.Close()
				_ = m.Close()
				t.Fatalf("the model is accepted, want %v with %q", r.Code, r.Text)
			}
			if m != nil {
				if err := m.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			if status.CodeOf(err) != r.Code || !strings.Contains(err.Error(), r.Text) {
				t.Errorf("refused with %v %q, want %v with %q", status.CodeOf(err), err, r.Code, r.Text)
			}
		})
	}
}

// settledGoroutines waits until there are no more than want goroutines, or patience is over, and returns the number.
func settledGoroutines(want int) int {
	n := runtime.NumGoroutine()
	for end := time.Now().Add(patience); want > 0 && n > want && time.Now().Before(end); n = runtime.NumGoroutine() {
		runtime.Gosched()
	}
	return n
}

func place(m *Model, i int) backend.Placement {
	return backend.Placement{
		Name: m.Name + "_0_" + string(rune('0'+i)), Kind: inferencepb.ModelInstanceGroup_KIND_CPU, SharedThreads: true,
	}
}

// rig is a loaded model with instances.
type rig struct {
	t         *testing.T
	m         *Model
	model     backend.Model
	instances []backend.Instance
	ctx       context.Context
	stop      context.CancelFunc
	live      counter // input buffers that are still held
}

func load(t *testing.T, b backend.Backend, m *Model, instances int) *rig {
	t.Helper()
	model, err := b.Load(t.Context(), m.spec())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	g := &rig{t: t, m: m, model: model}
	g.ctx, g.stop = context.WithCancel(context.Background())
	for range instances {
		g.add()
	}
	return g
}

func (g *rig) add() backend.Instance {
	g.t.Helper()
	inst, err := g.model.NewInstance(g.t.Context(), place(g.m, len(g.instances)))
	if err != nil {
		g.t.Fatalf("NewInstance: %v", err)
	}
	g.instances = append(g.instances, inst)
	return inst
}

// close closes everything, in the order that the core keeps.
func (g *rig) close() {
	g.t.Helper()
	g.stop()
	for _, inst := range g.instances {
		if err := inst.Close(); err != nil {
			g.t.Errorf("Instance.Close: %v", err)
		}
	}
	if err := g.model.Close(); err != nil {
		g.t.Errorf("Model.Close: %v", err)
	}
}

// calls makes one call for each number of rows, with different contents.
func (g *rig) calls(seed uint64, rows ...int) []*call {
	var cs []*call
	for i, n := range rows {
		cs = append(cs, newCall(g.m.Inputs(n, seed+uint64(i)), n, &g.live))
	}
	return cs
}

// execute does what the core's instance does: it runs the calls as one batch and answers those that the backend left.
func (g *rig) execute(inst backend.Instance, calls ...*call) (*infer.Batch, error) {
	b := &infer.Batch{Started: infer.Now()}
	for _, c := range calls {
		c.request.Retain()
		c.request.Batch = b
		b.Requests = append(b.Requests, c.request)
		b.Rows += c.rows
	}
	err := inst.Execute(g.ctx, b)
	b.Ended = infer.Now()
	for _, c := range calls {
		switch {
		case err != nil:
			c.request.Fail(err)
		case !g.m.decoupled() && !c.request.Answered():
			g.t.Errorf("Execute returned nil and left a request without its final response")
			c.request.Fail(status.New(status.Internal, "no final response"))
		}
		c.request.Release()
	}
	return b, err
}

// ask executes the calls as one batch, reads their answers and checks them.
func (g *rig) ask(t *testing.T, inst backend.Instance, calls ...*call) {
	t.Helper()
	if _, err := g.execute(inst, calls...); err != nil {
		t.Errorf("Execute: %v", err)
	}
	for i, c := range calls {
		c.wait(t)
		if err := c.check(g.m); err != nil {
			t.Errorf("request %d of %d, %d rows: %v", i+1, len(calls), c.rows, err)
		}
	}
}

func release(calls ...*call) {
	for _, c := range calls {
		c.release()
	}
}

// testSideBySide runs all models at once, one of them asked for nonsense if it can be.
func testSideBySide(t *testing.T, b backend.Backend, models []Model) {
	var wg sync.WaitGroup
	for i := range models {
		wg.Go(func() {
			g := load(t, b, &models[i], 1)
			defer g.close()
			for n := range uint64(20) {
				if g.m.Bad != nil {
					g.askBad(t)
				}
				cs := g.calls(1000*uint64(i)+n, 1)
				g.ask(t, g.instances[0], cs...)
				release(cs...)
			}
		})
	}
	wg.Wait()
}
