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

// waitLimit bounds each wait for an event, which normally takes microseconds.
const waitLimit = 20 * time.Second

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Test runs the suite for each model.
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

// TestRefusals checks that the backend refuses each specification with the expected code and text.
func TestRefusals(t *testing.T, b backend.Backend, refusals ...Refusal) {
	for _, r := range refusals {
		t.Run(r.Name, func(t *testing.T) {
			if r.Spec.Log == nil {
				r.Spec.Log = discard()
			}
			m, err := b.Load(t.Context(), r.Spec)
			var inst backend.Instance
			if err == nil { // some faults are found by NewInstance
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

// settledGoroutines waits at most waitLimit until there are at most want goroutines, and returns their number.
func settledGoroutines(want int) int {
	n := runtime.NumGoroutine()
	for end := time.Now().Add(waitLimit); want > 0 && n > want && time.Now().Before(end); n = runtime.NumGoroutine() {
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
	live      atomic.Int64 // number of input buffers in use
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

// close closes the instances and then the model, as the engine does.
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

// calls makes one call per number of rows. Each has other values.
func (g *rig) calls(seed uint64, rows ...int) []*call {
	var cs []*call
	for i, n := range rows {
		cs = append(cs, newCall(g.m.Inputs(n, seed+uint64(i)), n, &g.live))
	}
	return cs
}

// execute executes the calls as one batch, as the engine does: it fails those that the backend left unanswered.
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

// executeAndCheck executes the calls as one batch and checks their responses.
func (g *rig) executeAndCheck(t *testing.T, inst backend.Instance, calls ...*call) {
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

// testSideBySide runs all models concurrently, with bad inputs for those that have some.
func testSideBySide(t *testing.T, b backend.Backend, models []Model) {
	var wg sync.WaitGroup
	for i := range models {
		wg.Go(func() {
			g := load(t, b, &models[i], 1)
			defer g.close()
			for n := range uint64(20) {
				if g.m.Bad != nil {
					g.executeBad(t)
				}
				cs := g.calls(1000*uint64(i)+n, 1)
				g.executeAndCheck(t, g.instances[0], cs...)
				release(cs...)
			}
		})
	}
	wg.Wait()
}
