package backendtest

import (
	"sync"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func testModel(t *testing.T, b backend.Backend, m *Model) {
	t.Run("one request", func(t *testing.T) { testOne(t, b, m) })
	t.Run("batches of mixed sizes", func(t *testing.T) { testMixed(t, b, m) })
	t.Run("concurrent instances", func(t *testing.T) { testConcurrent(t, b, m) })
	t.Run("only wanted outputs", func(t *testing.T) { testWanted(t, b, m) })
	t.Run("answers outlive the model", func(t *testing.T) { testOutlive(t, b, m) })
	t.Run("inputs need not be aligned", func(t *testing.T) { testUnaligned(t, b, m) })
	t.Run("load, close, load", func(t *testing.T) { testReload(t, b, m) })
	t.Run("cancelled requests", func(t *testing.T) { testCancelled(t, b, m) })
	if m.Zero != nil {
		t.Run("no elements", func(t *testing.T) { testZero(t, b, m) })
	}
	if m.Bad != nil {
		t.Run("bad inputs", func(t *testing.T) { testBad(t, b, m) })
	}
	if m.Slow != nil {
		t.Run("cancelling all stops the run", func(t *testing.T) { testSlow(t, b, m) })
	}
}

func (g *rig) checkAllFreed(t *testing.T) {
	t.Helper()
	if n := g.live.Load(); n != 0 {
		t.Errorf("%d input buffers are still held after everything was released and closed", n)
	}
}

func testOne(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	c := g.calls(1, 1)[0]
	batch, err := g.execute(g.instances[0], c)
	if err != nil {
		t.Errorf("Execute: %v", err)
	}
	c.wait(t)
	if err := c.check(m); err != nil {
		t.Error(err)
	}
	if batch.Input < batch.Started || batch.Output < batch.Input || batch.Ended < batch.Output {
		t.Errorf("stamps started %d, input %d, output %d, ended %d are not in order; Execute must call MarkInput "+
			"and MarkOutput",
			batch.Started, batch.Input, batch.Output, batch.Ended)
	}
	c.release()
	g.close()
	g.checkAllFreed(t)
}

// testMixed runs batches of several requests; each caller must get its own rows.
func testMixed(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	shapes := [][]int{{1, 1}, {2, 1, 3}, {1, 4}, {3, 3, 1, 1}}
	if m.Config.GetMaxBatchSize() == 0 {
		shapes = [][]int{{1}, {1, 1, 1}} // the engine never sends such a batch; its rows must not mix either
	}
	for round := range uint64(5) {
		for i, rows := range shapes {
			cs := g.calls(100*round+10*uint64(i), rows...)
			g.executeAndCheck(t, g.instances[0], cs...)
			release(cs...)
		}
	}
	g.close()
	g.checkAllFreed(t)
}

func testConcurrent(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 2)
	var wg sync.WaitGroup
	work := func(inst backend.Instance, k int) {
		for n := range uint64(50) {
			cs := g.calls(1e6*uint64(k)+10*n, m.rows(1, 2)...)
			g.executeAndCheck(t, inst, cs...)
			release(cs...)
		}
	}
	for k, inst := range g.instances {
		wg.Go(func() { work(inst, k) })
	}
	third := g.add() // while the other instances run
	wg.Go(func() { work(third, 3) })
	wg.Wait()
	g.close()
	g.checkAllFreed(t)
}

func testWanted(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	defer g.close()
	for _, out := range m.Config.GetOutput() {
		cs := g.calls(7, m.rows(1, 1)...)
		cs[0].request.Outputs = []infer.RequestedOutput{{Name: out.GetName()}}
		if _, err := g.execute(g.instances[0], cs...); err != nil {
			t.Errorf("Execute: %v", err)
		}
		for _, c := range cs {
			c.wait(t)
		}
		for _, resp := range cs[0].responses {
			if m.decoupled() && resp.Empty {
				continue
			}
			if len(resp.Outputs) != 1 || resp.Outputs[0].Name != out.GetName() {
				t.Errorf("asked for %s alone, got %d outputs, error %v", out.GetName(), len(resp.Outputs), resp.Err)
			}
		}
		if len(cs) > 1 { // this request wants all outputs
			if err := cs[1].check(m); err != nil {
				t.Error(err)
			}
		}
		release(cs...)
	}
}

// testOutlive keeps responses during later executions and until the model is closed, as a slow client does.
func testOutlive(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	var kept []*call
	for n := range uint64(8) {
		cs := g.calls(50*n, m.rows(2, 1)...)
		g.executeAndCheck(t, g.instances[0], cs...)
		kept = append(kept, cs...)
	}
	g.close()
	for _, c := range kept {
		if err := c.check(m); err != nil {
			t.Errorf("after Close: %v", err)
		}
	}
	release(kept...)
	g.checkAllFreed(t)
}

// testUnaligned uses inputs at odd addresses, as in the body of a request.
func testUnaligned(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	defer g.close()
	in := m.Inputs(1, 3)
	for i := range in {
		d := make([]byte, len(in[i].Data)+1)[1:]
		copy(d, in[i].Data)
		in[i].Data = d
	}
	c := newCall(in, 1, &g.live)
	g.executeAndCheck(t, g.instances[0], c)
	c.release()
}

func testReload(t *testing.T, b backend.Backend, m *Model) {
	for n := range uint64(3) {
		g := load(t, b, m, 2) // the second stays idle
		c := g.calls(n, 1)[0]
		g.executeAndCheck(t, g.instances[0], c)
		c.release()
		g.close()
	}
	if model, err := b.Load(t.Context(), m.spec()); err != nil {
		t.Errorf("Load: %v", err)
	} else if err := model.Close(); err != nil {
		t.Errorf("Close of a model without instances: %v", err)
	}
}

// testCancelled checks that a cancelled request does not affect the others of its batch.
func testCancelled(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	if m.Config.GetMaxBatchSize() > 0 {
		cs := g.calls(1, 1, 2)
		cs[0].request.Cancel()
		if _, err := g.execute(g.instances[0], cs...); err != nil {
			t.Errorf("Execute: %v", err)
		}
		cs[0].wait(t) // a response or an error
		cs[1].wait(t)
		if err := cs[1].check(m); err != nil {
			t.Errorf("beside a cancelled request: %v", err)
		}
		release(cs...)
	}
	gone := g.calls(5, 1)[0]
	gone.request.Cancel()
	_, err := g.execute(g.instances[0], gone)
	if err != nil && status.CodeOf(err) != status.Cancelled {
		t.Errorf("Execute of a cancelled request: %v %v, want success or Cancelled", status.CodeOf(err), err)
	}
	gone.wait(t)
	gone.release()
	next := g.calls(6, 1)[0]
	g.executeAndCheck(t, g.instances[0], next)
	next.release()
	g.close()
	g.checkAllFreed(t)
}

func testZero(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	c := newCall(m.Zero(), 1, &g.live)
	g.executeAndCheck(t, g.instances[0], c)
	c.release()
	g.close()
	g.checkAllFreed(t)
}

func (g *rig) executeBad(t *testing.T) {
	t.Helper()
	c := newCall(g.m.Bad(), 1, &g.live)
	_, _ = g.execute(g.instances[0], c) // the error is read from the response
	c.wait(t)
	if c.err == nil {
		t.Error("inputs that the model cannot take were answered without an error")
	} else if code := status.CodeOf(c.err); code != status.InvalidArg && code != status.Internal {
		t.Errorf("bad inputs: %v %v, want Invalid argument or Internal", code, c.err)
	}
	c.release()
}

func testBad(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	for n := range uint64(3) {
		g.executeBad(t)
		c := g.calls(n, 1)[0]
		g.executeAndCheck(t, g.instances[0], c)
		c.release()
	}
	g.close()
	g.checkAllFreed(t)
}

func testSlow(t *testing.T, b backend.Backend, m *Model) {
	g := load(t, b, m, 1)
	c := newCall(m.Slow(), 1, &g.live)
	ran := make(chan error, 1)
	go func() {
		_, err := g.execute(g.instances[0], c)
		ran <- err
	}()
	c.request.Cancel()
	select {
	case err := <-ran:
		if err != nil && status.CodeOf(err) != status.Cancelled {
			t.Errorf("a stopped run ends with %v %v, want Cancelled", status.CodeOf(err), err)
		}
	case <-time.After(waitLimit):
		t.Fatal("the run goes on although nobody waits for it")
	}
	c.wait(t)
	if c.err != nil && status.CodeOf(c.err) != status.Cancelled {
		t.Errorf("a stopped request is answered with %v %v, want Cancelled", status.CodeOf(c.err), c.err)
	}
	c.release()
	next := g.calls(6, 1)[0]
	g.executeAndCheck(t, g.instances[0], next)
	next.release()
	g.close()
	g.checkAllFreed(t)
}

// Same returns nil if two tensors have the same name, datatype, shape and bytes.
func Same(got *tensor.Tensor, want tensor.Tensor) error {
	switch {
	case got == nil:
		return status.Errorf(status.Internal, "output %s is missing", want.Name)
	case got.Name != want.Name || got.DataType != want.DataType ||
		tensor.FormatShape(got.Shape) != tensor.FormatShape(want.Shape):
		return status.Errorf(status.Internal, "output is %s %s %s, want %s %s %s", got.Name, got.DataType,
			tensor.FormatShape(got.Shape), want.Name, want.DataType, tensor.FormatShape(want.Shape))
	case string(got.Data) != string(want.Data):
		return status.Errorf(status.Internal, "output %s is %s, want %s", got.Name, preview(got.Data),
			preview(want.Data))
	}
	return nil
}
