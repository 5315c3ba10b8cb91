package sched

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// TestRandomSchedules runs random schedules on a fake clock. They have requests of mixed sizes, priorities and
// timeouts, cancellations, cached responses, executions that fail, fast and slow instances, and a scheduler that
// closes. Every caller must get its own rows or one error. Batches must respect the maximum, priorities and order.
// Timeouts and cancellations must be answered in time, and no request may be lost.
func TestRandomSchedules(t *testing.T) {
	seeds := uint64(2500)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := &schedule{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), of: map[*infer.Request]*caller{}}
			s.run()
		})
		if t.Failed() {
			return
		}
	}
}

type schedule struct {
	*testing.T
	seed   uint64
	rng    *rand.Rand
	policy Policy
	d      *Dynamic
	busy   time.Duration // how long an execution takes
	count  int           // of instances

	mu      sync.Mutex
	callers []*caller // guarded by mu, as is all below
	of      map[*infer.Request]*caller
	ends    []*caller // those that ran or are cached, in the order of their final responses
}

// caller is one request and its response.
type caller struct {
	s         *schedule
	r         *infer.Request
	level     int
	timeout   time.Duration
	queued    time.Time
	taken     int  // how often it was in a batch
	cached    bool // it is answered when it comes
	cancelled bool
	responses int
	err       error
	ended     time.Time
}

// Finished notes the order of the final responses; see infer.Observer.
func (c *caller) Finished(r *infer.Request, _ *infer.Response) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if r.Batch != nil || c.cached {
		c.s.ends = append(c.s.ends, c)
	}
}

func (s *schedule) millis(n int) time.Duration { return time.Duration(s.rng.IntN(n)) * ms }

func (s *schedule) randomQueue() QueuePolicy {
	q := QueuePolicy{}
	if s.rng.IntN(2) == 0 {
		q.Timeout = s.millis(6)
		q.AllowOverride = s.rng.IntN(2) == 0
		q.Delay = s.rng.IntN(2) == 0 && !s.policy.PreserveOrdering
	}
	if s.rng.IntN(3) == 0 {
		q.MaxSize = 1 + s.rng.IntN(10)
	}
	return q
}

func (s *schedule) randomPolicy() {
	rng := s.rng
	p := &s.policy
	*p = Policy{MaxBatchSize: rng.IntN(9), MaxQueueDelay: s.millis(5)}
	for n := rng.IntN(3); n > 0 && p.MaxBatchSize > 1; n-- {
		p.Preferred = append(p.Preferred, 1+rng.IntN(p.MaxBatchSize))
	}
	if rng.IntN(3) == 0 {
		p.PreserveOrdering = true
	} else if rng.IntN(2) == 0 {
		p.Levels = 1 + rng.IntN(4)
		p.DefaultLevel = 1 + rng.IntN(p.Levels)
	}
	if rng.IntN(2) == 0 {
		p.CoresBusy = func() bool { return true }
	}
	p.Queue = s.randomQueue()
	if p.Levels > 0 && rng.IntN(2) == 0 {
		p.LevelQueue = map[int]QueuePolicy{1 + rng.IntN(p.Levels): s.randomQueue()}
	}
	if rng.IntN(3) == 0 {
		p.Equal = []EqualInput{{Name: "INPUT"}}
	}
	if s.seed%4 == 0 {
		p.Strategy = &volume{t: s.T, most: 8 + int(s.seed%64)}
	}
}

func (s *schedule) run() {
	s.randomPolicy()
	s.d = NewDynamic(s.policy)
	s.busy = s.millis(3)
	var wg sync.WaitGroup
	s.count = 1 + s.rng.IntN(3)
	for i := range s.count {
		rng := rand.New(rand.NewPCG(s.seed, uint64(i)+2))
		wg.Go(func() { s.instance(InstanceID(i), rng) })
	}
	closeAfter := s.rng.IntN(60)
	for i := range s.rng.IntN(60) {
		if i == closeAfter {
			s.d.Close()
		}
		s.send(&wg)
		if s.rng.IntN(8) == 0 {
			s.cancel()
		}
		if s.rng.IntN(3) > 0 {
			time.Sleep(time.Duration(s.rng.IntN(2000)) * time.Microsecond)
		}
	}
	s.d.Close()
	wg.Wait()
	s.check()
}

// send makes a request with unique values and reads its response on a goroutine.
func (s *schedule) send(wg *sync.WaitGroup) {
	rng, p := s.rng, &s.policy
	r := infer.NewDetached()
	r.BatchSize = 1 + rng.IntN(max(p.MaxBatchSize, 1))
	width := 1 + rng.IntN(2)
	data := make([]byte, r.BatchSize*width*2)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT", DataType: tensor.Uint8,
		Shape: []int64{int64(r.BatchSize), int64(width * 2)}, Data: data})
	if rng.IntN(2) == 0 {
		r.Priority = uint64(rng.IntN(6))
	}
	if rng.IntN(2) == 0 {
		r.Timeout = s.millis(6)
	}
	c := &caller{s: s, r: r, queued: time.Now(), level: s.d.level(r) + 1}
	q := s.queueOf(c.level)
	c.timeout = q.timeout(r)
	r.Observe(c)
	s.mu.Lock()
	s.of[r] = c
	s.mu.Unlock()
	if order := s.d.Order(); order != nil && rng.IntN(4) == 0 {
		c.cached = true
		order.Add(r)
		s.answer(r, data)
	} else if err := s.d.Enqueue(r); err != nil {
		if status.CodeOf(err) != status.Unavailable || !s.d.closed && q.MaxSize == 0 {
			s.Errorf("seed %d: Enqueue: %v", s.seed, err)
		}
		return
	}
	s.mu.Lock()
	s.callers = append(s.callers, c)
	s.mu.Unlock()
	wg.Go(c.read)
}

func (s *schedule) queueOf(level int) QueuePolicy {
	if q, ok := s.policy.LevelQueue[level]; ok && s.policy.Levels > 0 {
		return q
	}
	return s.policy.Queue
}

func (c *caller) read() {
	resp, err := c.r.Next(context.Background())
	if err != nil {
		c.s.Errorf("seed %d: no answer: %v", c.s.seed, err)
		return
	}
	c.responses++
	c.err, c.ended = resp.Err, time.Now()
	if resp.Err == nil {
		if out := resp.Output("OUTPUT"); out == nil || !slices.Equal(out.Data, c.r.Inputs[0].Data) {
			c.s.Errorf("seed %d: a caller got rows that are not its own", c.s.seed)
		}
	}
}

// cancel cancels some request. If it is in the queue, it must be answered before Cancel returns.
func (s *schedule) cancel() {
	synctest.Wait()
	s.mu.Lock()
	if len(s.callers) == 0 {
		s.mu.Unlock()
		return
	}
	c := s.callers[s.rng.IntN(len(s.callers))]
	c.cancelled = true
	s.mu.Unlock()
	c.r.Cancel()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.taken == 0 && !c.r.Answered() {
		s.Errorf("seed %d: a cancelled request is still in the queue", s.seed)
	}
}

// instance concatenates each batch to one tensor and splits it into rows again, as backends do.
func (s *schedule) instance(id InstanceID, rng *rand.Rand) {
	for {
		b, err := s.d.Next(context.Background(), id, nil)
		if errors.Is(err, ErrClosed) {
			return
		}
		s.took(b)
		b.Begin()
		var all []byte
		for _, r := range b.Requests {
			all = append(all, r.Inputs[0].Data...)
		}
		time.Sleep(s.busy)
		fails := rng.IntN(8) == 0
		for _, r := range b.Requests {
			n := len(r.Inputs[0].Data)
			if fails || rng.IntN(20) == 0 {
				r.Fail(errors.New("fails on purpose"))
			} else {
				s.answer(r, all[:n])
			}
			all = all[n:]
		}
		for _, r := range b.Requests {
			r.Release()
		}
		b.End()
	}
}

// answer gives a request its one response.
func (s *schedule) answer(r *infer.Request, data []byte) {
	resp := r.NewResponse()
	resp.AddOutput("OUTPUT", tensor.Uint8, r.Inputs[0].Shape, data, nil)
	resp.Final = true
	if err := r.Respond(resp); err != nil {
		s.Errorf("seed %d: %v", s.seed, err)
	}
}

// took checks a batch from Next.
func (s *schedule) took(b *infer.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, last := 0, 0
	for _, r := range b.Requests {
		c := s.of[r]
		c.taken++
		rows += r.BatchSize
		if c.level < last {
			s.Errorf("seed %d: level %d behind level %d in one batch", s.seed, c.level, last)
		}
		last = c.level
		if c.timeout > 0 && !s.queueOf(c.level).Delay && time.Since(c.queued) > c.timeout+time.Microsecond {
			s.Errorf("seed %d: ran %v after its arrival; its timeout is %v", s.seed, time.Since(c.queued), c.timeout)
		}
		if len(s.policy.Equal) > 0 && s.policy.MaxBatchSize > 1 &&
			r.Inputs[0].Shape[1] != b.Requests[0].Inputs[0].Shape[1] {
			s.Errorf("seed %d: different shapes in a batch", s.seed)
		}
	}
	s.checkStrategy(b)
	if rows != b.Rows || len(b.Requests) > 1 && rows > s.policy.MaxBatchSize {
		s.Errorf("seed %d: batch of %d rows says %d, the maximum is %d", s.seed, rows, b.Rows, s.policy.MaxBatchSize)
	}
	for _, c := range s.callers { // with several instances another may have it
		if s.count == 1 && c.taken == 0 && !c.r.Answered() && c.level < last && c.queued.Before(time.Now()) {
			s.Errorf("seed %d: level %d runs while level %d waits", s.seed, last, c.level)
		}
	}
	first := s.of[b.Requests[0]]
	if s.busy == 0 && s.policy.Levels == 0 && !s.policy.Queue.Delay &&
		time.Since(first.queued) > s.policy.MaxQueueDelay {
		s.Errorf("seed %d: waited %v for instances that take no time, the delay is %v", s.seed,
			time.Since(first.queued), s.policy.MaxQueueDelay)
	}
}

// checkStrategy checks that a batch keeps the strategy's limit. d.mu is not held: the limit does not change.
func (s *schedule) checkStrategy(b *infer.Batch) {
	v, ok := s.policy.Strategy.(*volume)
	if !ok || s.policy.MaxBatchSize < 2 || len(b.Requests) == 1 {
		return
	}
	bytes := 0
	for _, r := range b.Requests {
		bytes += bytesOf(r)
	}
	if bytes > v.most {
		s.Errorf("seed %d: a batch of %d bytes, the strategy allows %d", s.seed, bytes, v.most)
	}
}

// check checks all requests at the end.
func (s *schedule) check() {
	for i, c := range s.callers {
		switch code := status.CodeOf(c.err); {
		case c.responses != 1:
			s.Errorf("seed %d: request %d got %d answers", s.seed, i, c.responses)
		case c.cached && (c.taken > 0 || c.err != nil):
			s.Errorf("seed %d: request %d is cached, ran %d times and got %v", s.seed, i, c.taken, c.err)
		case c.cached:
		case c.taken > 1:
			s.Errorf("seed %d: request %d ran %d times", s.seed, i, c.taken)
		case c.taken == 0 && code == status.Unavailable:
			if got := c.ended.Sub(c.queued); c.timeout == 0 || got < c.timeout || got > c.timeout+time.Microsecond {
				s.Errorf("seed %d: request %d was refused after %v, its timeout is %v", s.seed, i, got, c.timeout)
			}
		case c.taken == 0 && !(code == status.Cancelled && c.cancelled):
			s.Errorf("seed %d: request %d never ran and got %v", s.seed, i, c.err)
		}
	}
	if !s.policy.PreserveOrdering {
		return
	}
	at := map[*caller]int{}
	for i, c := range s.callers {
		at[c] = i
	}
	for i := 1; i < len(s.ends); i++ {
		if at[s.ends[i-1]] > at[s.ends[i]] {
			s.Errorf("seed %d: request %d was answered before request %d", s.seed, at[s.ends[i-1]], at[s.ends[i]])
		}
	}
}
