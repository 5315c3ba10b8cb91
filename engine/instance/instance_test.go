package instance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/sched"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// fake is a model whose instances run a function.
type fake struct {
	execute func(b *infer.Batch) error
	traits  backend.Traits
	mu      sync.Mutex
	open    []string // guarded by mu: the instances that are open
}

type fakeInstance struct {
	m    *fake
	name string
}

func (m *fake) Traits() backend.Traits { return m.traits }

func (m *fake) NewInstance(_ context.Context, p backend.Placement) (backend.Instance, error) {
	if strings.HasSuffix(p.Name, "bad") {
		return nil, errors.New("cannot be made")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, p.Name)
	return &fakeInstance{m, p.Name}, nil
}

func (m *fake) Close() error { return nil }

func (m *fake) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.open))
}

func (i *fakeInstance) Execute(_ context.Context, b *infer.Batch) error { return i.m.execute(b) }

func (i *fakeInstance) Close() error {
	i.m.mu.Lock()
	defer i.m.mu.Unlock()
	i.m.open = slices.DeleteFunc(i.m.open, func(n string) bool { return n == i.name })
	return nil
}

func places(names ...string) (all []backend.Placement) {
	for _, n := range names {
		all = append(all, backend.Placement{Name: n})
	}
	return all
}

func options(m *fake, names ...string) Options {
	return Options{
		Model: m, Batcher: sched.NewDynamic(sched.Policy{MaxBatchSize: 8}),
		Stats: stats.NewRegistry(stats.Detail{}).Version("m", 1),
		Log:   slog.New(slog.DiscardHandler), Placements: places(names...),
	}
}

func answer(b *infer.Batch) error {
	for _, r := range b.Requests {
		resp := r.NewResponse()
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

func send(t *testing.T, o Options, r *infer.Request) error {
	t.Helper()
	r.BatchSize = 1
	if err := o.Batcher.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	resp, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Err
}

func TestEveryRequestIsAnswered(t *testing.T) {
	for _, tt := range []struct {
		name    string
		execute func(b *infer.Batch) error
		code    status.Code
		text    string
	}{
		{"error of the backend", func(*infer.Batch) error { return status.New(status.Unavailable, "busy") },
			status.Unavailable, "busy"},
		{"backend that forgets", func(*infer.Batch) error { return nil }, status.Internal, "did not answer"},
		{"backend that panics", func(*infer.Batch) error { panic("oops") }, status.Internal, "oops"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(&fake{execute: tt.execute}, "a")
			s, err := Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			r := infer.New()
			defer r.Release()
			if err := send(t, o, r); err == nil || status.CodeOf(err) != tt.code ||
				!strings.Contains(err.Error(), tt.text) {
				t.Errorf("answer %v, want %v with %q", err, tt.code, tt.text)
			}
			o.Batcher.Close()
			s.Close(t.Context())
		})
	}
}

// Memory is released when Execute returns, not at the final response: the backend may still read its inputs.
func TestInputsOutliveTheFinalResponse(t *testing.T) {
	var freed atomic.Bool
	early := make(chan bool, 1)
	m := &fake{}
	read := make(chan struct{})
	m.execute = func(b *infer.Batch) error {
		err := answer(b)
		<-read // the caller has its response and has released the request
		early <- freed.Load()
		return err
	}
	o := options(m, "a")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := infer.NewDetached()
	r.Own(tensor.NewBuffer(make([]byte, 1), func(*tensor.Buffer) { freed.Store(true) }))
	if err := send(t, o, r); err != nil {
		t.Fatal(err)
	}
	r.Release()
	close(read)
	if <-early {
		t.Error("the input buffer was freed during Execute")
	}
	o.Batcher.Close()
	s.Close(t.Context())
	if !freed.Load() {
		t.Error("the input buffer was never freed")
	}
}

func TestFailedWarmupFailsTheLoad(t *testing.T) {
	m := &fake{execute: answer}
	o := options(m, "a", "b")
	n := 0
	o.Warmup = func(context.Context, string, backend.Instance) error {
		if n++; n == 2 {
			return errors.New("too cold")
		}
		return nil
	}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "too cold") {
		t.Fatalf("Start = %v, want the warmup's error", err)
	}
	if open := m.names(); len(open) != 0 {
		t.Errorf("instances %v are left open", open)
	}
}

func TestResizeWhileServing(t *testing.T) {
	m := &fake{execute: answer}
	o := options(m, "a", "b")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"a", "b", "c", "d"}, {"d"}, {"a", "d"}} {
		if err := s.Resize(t.Context(), places(names...)); err != nil {
			t.Fatal(err)
		}
		if got := m.names(); !slices.Equal(got, names) || s.Count() != len(names) {
			t.Errorf("instances %v (count %d), want %v", got, s.Count(), names)
		}
		r := infer.New()
		if err := send(t, o, r); err != nil {
			t.Error(err)
		}
		r.Release()
	}
	if err := s.Resize(t.Context(), places("a", "d", "bad")); err == nil || len(m.names()) != 2 {
		t.Errorf("a failed resize = %v with instances %v, want an error and no change", err, m.names())
	}
	o.Batcher.Close()
	s.Close(t.Context())
	if open := m.names(); len(open) != 0 {
		t.Errorf("instances %v are open after Close", open)
	}
}

func TestResizeKeepsInstancesThatOnlyHaveAnotherName(t *testing.T) {
	m := &fake{execute: answer}
	o := options(m, "old_0", "old_1")
	o.Placements[1].RateLimiter = &inferencepb.ModelRateLimiter{Priority: 2}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	next := places("new_0", "new_1")
	next[0].RateLimiter = &inferencepb.ModelRateLimiter{Priority: 2}
	if err := s.Resize(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := m.names(); !slices.Equal(got, []string{"old_0", "old_1"}) {
		t.Errorf("instances %v after other names, want those from before", got)
	}
	next[0].RateLimiter = &inferencepb.ModelRateLimiter{Priority: 3}
	if err := s.Resize(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := m.names(); !slices.Equal(got, []string{"new_0", "old_0"}) {
		t.Errorf("instances %v after another priority, want a new one for old_1", got)
	}
	o.Batcher.Close()
	s.Close(t.Context())
}

func TestCloseCancelsExecutionsAtDeadline(t *testing.T) {
	m := &fake{}
	started := make(chan struct{})
	stuck := &stuckModel{started: started}
	o := options(m, "a")
	o.Model = stuck
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := infer.New()
	r.BatchSize = 1
	if err := o.Batcher.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	<-started
	o.Batcher.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s.Close(ctx)
	if resp, err := r.Next(t.Context()); err != nil || resp.Err == nil {
		t.Errorf("the stuck request got %+v, %v; want an error", resp, err)
	}
	r.Release()
}

// stuckModel executes until its context ends.
type stuckModel struct{ started chan struct{} }

func (m *stuckModel) Traits() backend.Traits { return backend.Traits{} }

func (m *stuckModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}
func (m *stuckModel) Close() error { return nil }
func (m *stuckModel) Execute(ctx context.Context, _ *infer.Batch) error {
	close(m.started)
	<-ctx.Done()
	return ctx.Err()
}

// An instance that is removed finishes its current batch: the requests of that batch must not fail.
func TestResizeDoesNotStopTheRunningBatch(t *testing.T) {
	m := &pausingModel{started: make(chan string, 8), finish: make(chan struct{})}
	o := options(nil, "a", "b")
	o.Model = m
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var all []*infer.Request
	for range 2 { // one for each instance
		r := infer.New()
		r.BatchSize = 1
		if err := o.Batcher.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		<-m.started
		all = append(all, r)
	}
	resized := make(chan error)
	go func() { resized <- s.Resize(t.Context(), places("a")) }()
	for s.Count() != 1 {
		runtime.Gosched()
	}
	close(m.finish)
	if err := <-resized; err != nil {
		t.Error(err)
	}
	for _, r := range all {
		if resp, err := r.Next(t.Context()); err != nil || resp.Err != nil {
			t.Errorf("a request in a batch under way got %+v, %v; want success", resp, err)
		}
		r.Release()
	}
	o.Batcher.Close()
	s.Close(t.Context())
}

// pausingModel answers once finish is closed, or fails when its context ends.
type pausingModel struct {
	started chan string
	finish  chan struct{}
}

func (m *pausingModel) Traits() backend.Traits { return backend.Traits{} }

func (m *pausingModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}
func (m *pausingModel) Close() error { return nil }
func (m *pausingModel) Execute(ctx context.Context, b *infer.Batch) error {
	m.started <- ""
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.finish:
	}
	return answer(b)
}

// endless is a scheduler that always has work.
type endless struct {
	sched.Batcher
	stop atomic.Bool
}

func (e *endless) Next(context.Context, sched.InstanceID, *sched.Gate) (*infer.Batch, error) {
	if e.stop.Load() {
		return nil, sched.ErrClosed
	}
	b := infer.NewBatch()
	r := infer.New()
	b.Requests, b.Rows, r.BatchSize = append(b.Requests, r), 1, 1
	return b, nil
}

func TestResizeEndsUnderConstantLoad(t *testing.T) {
	m := &fake{execute: answer}
	o := options(m, "a", "b", "c")
	e := &endless{}
	o.Batcher = e
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Resize(t.Context(), places("b")) }()
	select {
	case err := <-done:
		if got := m.names(); err != nil || !slices.Equal(got, []string{"b"}) {
			t.Errorf("Resize = %v with instances %v, want b alone", err, got)
		}
	case <-time.After(time.Minute):
		t.Error("an instance that always finds work is never taken away")
	}
	e.stop.Store(true)
	s.Close(t.Context())
}

// A decoupled model may respond while, and after, the instance releases its batch.
func TestLateResponsesDoNotTouchAReusedBatch(t *testing.T) {
	m := &fake{}
	var late sync.WaitGroup
	m.execute = func(b *infer.Batch) error {
		b.MarkInput()
		b.MarkOutput()
		for _, r := range b.Requests {
			r.Retain()
			late.Go(func() {
				defer r.Release()
				resp := r.NewResponse()
				resp.Final = true
				_ = r.Respond(resp)
			})
		}
		return nil
	}
	o := options(m, "a")
	o.Decoupled = true
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3000 {
				r := infer.NewDetached()
				if err := send(t, o, r); err != nil {
					t.Error(err)
				}
				if r.Times.Taken < r.Times.Queued || r.Times.Output > r.Times.Finished {
					t.Errorf("stamps %+v are of another batch", r.Times)
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	late.Wait()
	o.Batcher.Close()
	s.Close(t.Context())
}

// A client must not see where in the program a backend panicked.
func TestPanicStackIsLoggedNotReturned(t *testing.T) {
	var log bytes.Buffer
	o := options(&fake{execute: func(*infer.Batch) error { panic("oops") }}, "a")
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := infer.New()
	if err := send(t, o, r); err == nil || !strings.Contains(err.Error(), "oops") ||
		strings.Contains(err.Error(), ".go:") {
		t.Errorf("answer %q, want the panic's text without a stack", err)
	}
	r.Release()
	o.Batcher.Close()
	s.Close(t.Context())
	if !strings.Contains(log.String(), "instance_test.go") {
		t.Errorf("the stack is not in the log: %s", log.String())
	}
}
