package triton

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/sched"
)

// mostBytes is what a batch may have by the strategy of formedBy.
const mostBytes = 64

// formed is a backend whose batches are divided as a strategy in a library says.
type formed struct {
	backend.Backend
	t        *testing.T
	strategy sched.Strategy

	mu      sync.Mutex // held while a batch is formed
	divided bool       // guarded by mu
}

// formedBy returns a backend whose batches have at most mostBytes, by volume_strategy.c. The test fails if no batch is
// larger before.
func formedBy(t *testing.T, f *Finder, b backend.Backend, m *backendtest.Model) backend.Backend {
	t.Helper()
	compile(t, "volume_strategy.c", filepath.Join(m.VersionFolder, strategyFile))
	m.Config.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{
		DynamicBatching: &inferencepb.ModelDynamicBatching{}}
	m.Config.Parameters = map[string]*inferencepb.ModelParameter{"most_bytes": {StringValue: "64"}}
	s, err := f.Strategy(backend.Spec{ModelName: m.Name, Version: 1, Config: m.Config, ModelFolder: m.ModelFolder,
		VersionFolder: m.VersionFolder, Log: slog.New(slog.DiscardHandler)})
	if err != nil || s == nil {
		t.Fatalf("the strategy is %v, %v", s, err)
	}
	x := &formed{Backend: b, t: t, strategy: s}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if !x.divided {
			t.Error("the strategy has divided no batch")
		}
	})
	return x
}

func (f *formed) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	m, err := f.Backend.Load(ctx, s)
	return formedModel{m, f}, err
}

type formedModel struct {
	backend.Model
	of *formed
}

func (m formedModel) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	x, err := m.Model.NewInstance(ctx, p)
	return formedInstance{x, m.of}, err
}

type formedInstance struct {
	backend.Instance
	of *formed
}

// Execute executes the batches that the strategy forms of a batch, one after the other.
func (x formedInstance) Execute(ctx context.Context, b *infer.Batch) error {
	b.MarkInput()
	defer b.MarkOutput()
	for rest := b.Requests; len(rest) > 0; {
		n := x.of.form(rest)
		part := &infer.Batch{Requests: rest[:n], Started: b.Started}
		for _, r := range part.Requests {
			part.Rows += r.BatchSize
		}
		if err := x.Instance.Execute(ctx, part); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// form returns how many of the requests are in the first batch.
func (f *formed) form(requests []*infer.Request) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := max(f.strategy.Include(true, requests), 1)
	f.strategy.End()
	size := 0
	for _, r := range requests[:n] {
		size += r.Inputs[0].Size()
	}
	if n > 1 && size > mostBytes {
		f.t.Errorf("the strategy forms a batch of %d bytes, want at most %d", size, mostBytes)
	}
	f.divided = f.divided || n < len(requests)
	return n
}
