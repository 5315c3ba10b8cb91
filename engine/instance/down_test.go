package instance

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/sched"
	"nereid/engine/status"
)

// mortal is a model whose instances can be down. One that is down fails its batches.
type mortal struct {
	*fake
	mu      sync.Mutex
	down    map[string]chan struct{} // guarded by mu
	ran     map[string]int           // guarded by mu: requests that an instance has executed
	asked   map[string]int           // guarded by mu: how often an instance was asked whether it is down
	started chan string              // not nil: an instance sends its name and waits for finish
	finish  chan struct{}
}

func newMortal() *mortal {
	return &mortal{fake: &fake{}, down: map[string]chan struct{}{}, ran: map[string]int{}, asked: map[string]int{}}
}

func (m *mortal) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	i, err := m.fake.NewInstance(ctx, p)
	return &mortalInstance{i, m, p.Name}, err
}

// set takes an instance down, or brings it back.
func (m *mortal) set(name string, down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.down[name]; c != nil {
		close(c)
		delete(m.down, name)
	}
	if down {
		m.down[name] = make(chan struct{})
	}
}

func (m *mortal) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ran[name]
}

func (m *mortal) questions(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[name]
}

type mortalInstance struct {
	backend.Instance
	m    *mortal
	name string
}

func (i *mortalInstance) Down() <-chan struct{} {
	i.m.mu.Lock()
	defer i.m.mu.Unlock()
	i.m.asked[i.name]++
	return i.m.down[i.name] // nil if there is none
}

func (i *mortalInstance) Execute(_ context.Context, b *infer.Batch) error {
	if i.Down() != nil {
		return status.New(status.Unavailable, i.name+" is down")
	}
	i.m.mu.Lock()
	i.m.ran[i.name] += len(b.Requests)
	i.m.mu.Unlock()
	if i.m.started != nil {
		i.m.started <- i.name
		<-i.m.finish
	}
	return answer(b)
}

// entered tells when an instance asks for a batch.
type entered struct {
	sched.Batcher
	in chan struct{}
}

func (e *entered) Next(ctx context.Context, inst sched.InstanceID, gate *sched.Gate) (*infer.Batch, error) {
	select {
	case e.in <- struct{}{}:
	default: // nobody waits for so many
	}
	return e.Batcher.Next(ctx, inst, gate)
}

func startMortal(t *testing.T, m *mortal, names ...string) (Options, *Set) {
	t.Helper()
	o := options(m.fake, names...)
	o.Model = m
	e := &entered{sched.NewDynamic(sched.Policy{MaxBatchSize: 1}), make(chan struct{}, len(names))}
	o.Batcher = e
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Batcher.Close(); s.Close(context.Background()) })
	for range names {
		<-e.in
	}
	return o, s
}

// ask sends n requests, one after the other, and returns how many failed.
func ask(t *testing.T, o Options, s *Set, n int) (failed int) {
	t.Helper()
	for range n {
		r := infer.New()
		r.BatchSize = 1
		if s.Inline(r) {
			resp, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if resp.Err != nil {
				failed++
			}
		} else if send(t, o, r) != nil {
			failed++
		}
		r.Release()
	}
	return failed
}

func TestAnInstanceThatIsDownLeavesRequestsToOthers_D056(t *testing.T) {
	m := newMortal()
	o, s := startMortal(t, m, "a", "b", "c")
	m.set("a", true)
	m.set("c", true)
	if failed := ask(t, o, s, 50); failed > 0 || m.count("b") != 50 {
		t.Errorf("%d of 50 requests failed, %d are of the instance that serves", failed, m.count("b"))
	}
	m.set("b", true)
	if failed := ask(t, o, s, 20); failed != 20 {
		t.Errorf("%d of 20 requests failed while no instance serves", failed)
	}
	m.set("a", false)
	if failed := ask(t, o, s, 50); failed > 0 || m.count("a") != 50 {
		t.Errorf("%d of 50 requests failed, %d are of the instance that is back", failed, m.count("a"))
	}
}

// A batch that an instance has taken before it was known to be down waits for another one, unless the execution that
// occupies that one has made it.
func TestABatchOfAnInstanceThatIsDown_D056(t *testing.T) {
	m := newMortal()
	m.started, m.finish = make(chan string), make(chan struct{})
	o, _ := startMortal(t, m, "a", "b")
	first := infer.New()
	defer first.Release()
	first.BatchSize = 1
	if err := o.Batcher.Enqueue(first); err != nil {
		t.Fatal(err)
	}
	busy := <-m.started // the other one is in Next
	other := map[string]string{"a": "b", "b": "a"}[busy]
	m.set(other, true)

	nested := infer.New()
	defer nested.Release()
	nested.Origin = &infer.Origin{Model: "m", Busy: func() bool { return true }}
	if err := send(t, o, nested); status.CodeOf(err) != status.Unavailable {
		t.Errorf("a request of the busy execution: %v; want a failure at once, not a wait for itself", err)
	}
	waiting := infer.New()
	defer waiting.Release()
	waiting.BatchSize = 1
	if err := o.Batcher.Enqueue(waiting); err != nil {
		t.Fatal(err)
	}
	go func() { m.finish <- struct{}{} }()
	if got := <-m.started; got != busy {
		t.Errorf("instance %s executes, which is down", got)
	}
	go func() { m.finish <- struct{}{} }()
	for _, r := range []*infer.Request{first, waiting} {
		if resp, err := r.Next(t.Context()); err != nil || resp.Err != nil {
			t.Error(err, resp)
		}
	}
}

// stranded starts two instances. One executes the first request. The other has taken the second one and is down.
func stranded(t *testing.T) (o Options, m *mortal, second *infer.Request, down string) {
	t.Helper()
	m = newMortal()
	m.started, m.finish = make(chan string, 2), make(chan struct{}, 2)
	o, s := startMortal(t, m, "a", "b")
	var requests []*infer.Request
	for i := range 2 {
		r := infer.New()
		t.Cleanup(r.Release)
		r.BatchSize = 1
		requests = append(requests, r)
		if err := o.Batcher.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			down = map[string]string{"a": "b", "b": "a"}[<-m.started]
			m.set(down, true) // it is in Next
		}
	}
	for s.stranded.Load() == 0 {
		runtime.Gosched()
	}
	return o, m, requests[1], down
}

func TestABatchDoesNotWaitForAnInstanceThatHasEnded_D056(t *testing.T) {
	m := newMortal()
	o, s := startMortal(t, m, "a", "b")
	runs := *s.current.Load()
	m.set("a", true)
	runs[1].turn.Lock() // b executes
	done, before := make(chan struct{}), m.questions("b")
	go func() {
		defer close(done)
		for r := s.replace(runs[0], true); r != nil; r = s.replace(runs[0], true) { // before b has ended
			s.release(r)
		}
	}()
	for m.questions("b") == before {
		runtime.Gosched()
	}
	for l := s.freed.L.(*sync.Mutex); !l.TryLock(); { // replace has it until it waits
		runtime.Gosched()
	}
	s.freed.L.Unlock()
	o.Batcher.Close()
	runs[1].turn.Unlock()
	<-runs[1].done
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it waits for an instance that has ended")
	}
}

func TestABatchWaitsNoLongerWhenItsInstanceIsBack_D056(t *testing.T) {
	_, m, second, down := stranded(t)
	m.set(down, false)
	select {
	case got := <-m.started:
		if got != down {
			t.Errorf("%s executes, which is busy", got)
		}
	case <-time.After(time.Minute):
		t.Error("the request waits for the busy instance")
	}
	close(m.finish)
	if _, err := second.Next(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInstancesThatAreDownEnd(t *testing.T) {
	m := newMortal()
	o, s := startMortal(t, m, "a", "b")
	m.set("a", true)
	ask(t, o, s, 3)
	if err := s.Resize(t.Context(), places("b")); err != nil {
		t.Error(err)
	}
	m.set("b", true)
	o.Batcher.Close()
	done := make(chan struct{})
	go func() { defer close(done); s.Close(t.Context()) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("Close waits for an instance that is down")
	}
}

// startSequences starts the instances a and b of a model with sequences, each with one slot.
func startSequences(t *testing.T) (*mortal, Options, *sched.Sequences, *Set) {
	t.Helper()
	m := newMortal()
	o := options(m.fake, "a", "b")
	batcher := sched.NewSequences(sched.SequencePolicy{Slots: 1, Idle: time.Hour})
	o.Model, o.Batcher = m, batcher
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m, o, batcher, s
}

// An instance that is down would have the most free slots, and fail each sequence that it gets.
func TestAnInstanceThatIsDownGetsNoSequences_C032_D056(t *testing.T) {
	m, o, batcher, s := startSequences(t)
	t.Cleanup(func() { batcher.Close(); s.Close(context.Background()) })
	request := func(id uint64, flags infer.Flags) *infer.Request {
		r := infer.New()
		r.BatchSize, r.Correlation.Number, r.Flags = 1, id, flags
		return r
	}
	step := func(id uint64, flags infer.Flags) error {
		r := request(id, flags)
		defer r.Release()
		return send(t, o, r)
	}
	if err := step(1, infer.SequenceStart); err != nil {
		t.Fatal(err)
	}
	busy := "a"
	if m.count(busy) == 0 {
		busy = "b"
	}
	down := map[string]string{"a": "b", "b": "a"}[busy]
	m.set(down, true)
	_ = step(2, infer.SequenceStart) // it may fail: the instance waits for a batch, and takes it
	waits := request(3, infer.SequenceStart|infer.SequenceEnd)
	defer waits.Release()
	if err := o.Batcher.Enqueue(waits); err != nil {
		t.Fatal(err)
	}
	if waits.Poll() != nil {
		t.Error("the sequence does not wait for the slot of the instance that serves")
	}
	if err := step(1, infer.SequenceEnd); err != nil {
		t.Error(err)
	}
	for id := uint64(4); id < 20; id++ {
		if err := step(id, infer.SequenceStart|infer.SequenceEnd); err != nil {
			t.Fatalf("sequence %d: %v", id, err)
		}
	}
	if resp, err := waits.Next(t.Context()); err != nil || resp.Err != nil {
		t.Error(err, resp)
	}
	if n := m.count(down); n != 0 {
		t.Errorf("the instance that is down has executed %d requests", n)
	}
	m.set(down, false)
	if err := step(30, infer.SequenceStart); err != nil {
		t.Error(err)
	}
	if err := step(31, infer.SequenceStart); err != nil || m.count(down) == 0 {
		t.Errorf("%v; the instance that is back has executed %d requests", err, m.count(down))
	}
}

func TestAnInstanceWithSequencesThatIsDownEnds(t *testing.T) {
	m, o, batcher, s := startSequences(t)
	gone := s.runs[0]
	m.set("a", true)
	r := infer.New()
	defer r.Release()
	r.BatchSize, r.Correlation.Number, r.Flags = 1, 1, infer.SequenceStart
	_ = send(t, o, r) // so that instance a notices that it is down
	if err := s.Resize(t.Context(), places("b")); err != nil {
		t.Error(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-gone.done
		batcher.Close()
		s.Close(t.Context())
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("an instance that is down does not end")
	}
}
