package sched

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// TestRandomSequences runs random schedules of sequences on a fake clock. They use both strategies, instances that come
// and go, executions that fail, clients that abandon, cancel or restart a sequence, timeouts in the backlog, and a
// scheduler that closes. The requests of a sequence must be executed in order, one at a time, in one row of one
// instance. Each must get the state of the one before and the right controls. Slots must become free, and every request
// gets one response.
func TestRandomSequences(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seeds := uint64(2500)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := &sequenceSchedule{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7))}
			s.run()
		})
		if t.Failed() {
			return
		}
	}
}

type sequenceSchedule struct {
	*testing.T
	seed   uint64
	rng    *rand.Rand
	policy SequencePolicy
	d      *Sequences
	busy   time.Duration
	wg     sync.WaitGroup

	mu     sync.Mutex
	rounds []*round // guarded by mu, as is all in them
}

// round is one sequence, from its START on.
type round struct {
	id    infer.CorrelationID
	sent  []*sequenceCall
	ended bool // END was sent
	free  bool // a request was cancelled or refused, or it was left for long: it may be over

	next int   // the index that may run next, at least
	sum  int64 // the state
	inst InstanceID
	row  int
	runs int
	done bool        // END ran
	last infer.Stamp // something happened
}

type sequenceCall struct {
	of        *round
	index     int
	r         *infer.Request
	timeout   time.Duration
	queued    time.Time
	cancelled bool
	taken     int
}

func (s *sequenceSchedule) fault(format string, args ...any) {
	s.Helper()
	s.Errorf("seed %d: "+format, append([]any{s.seed}, args...)...)
}

func (s *sequenceSchedule) randomPolicy() {
	rng := s.rng
	p := SequencePolicy{MaxBatchSize: rng.IntN(5), Idle: time.Duration(5+rng.IntN(20)) * ms, Oldest: rng.IntN(2) == 0}
	p.Batched = p.MaxBatchSize > 0
	p.Slots = max(p.MaxBatchSize, 1)
	if rng.IntN(2) == 0 {
		p.MaxQueueDelay = time.Duration(rng.IntN(4)) * ms
	}
	if p.Oldest {
		p.Slots = 1 + rng.IntN(6)
		p.PreserveOrdering = rng.IntN(3) == 0
		if rng.IntN(2) == 0 && p.MaxBatchSize > 1 {
			p.Preferred = []int{1 + rng.IntN(p.MaxBatchSize)}
		}
	} else if rng.IntN(2) == 0 {
		p.MinimumUtilization = rng.Float64()
	}
	p.Controls = []Control{
		{Name: "START", Kind: ControlStart, DataType: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Name: "END", Kind: ControlEnd, DataType: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Name: "READY", Kind: ControlReady, DataType: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Name: "CORRID", Kind: ControlCorrelationID, DataType: tensor.Bytes},
	}
	p.States = []infer.StateSpec{{Input: "SUM_IN", Output: "SUM_OUT", DataType: tensor.Int64, Shape: []int64{1},
		Initial: make([]byte, 8)}}
	if rng.IntN(3) == 0 {
		p.Equal = []EqualInput{{Name: "INPUT"}}
	}
	s.policy = p
}

func (s *sequenceSchedule) run() {
	s.randomPolicy()
	s.d = NewSequences(s.policy)
	s.busy = time.Duration(s.rng.IntN(3000)) * time.Microsecond
	count := 1 + s.rng.IntN(3)
	for i := range count {
		s.instance(InstanceID(i))
	}
	var open []*round
	for range s.rng.IntN(80) {
		open = s.step(open)
		if s.rng.IntN(40) == 0 { // one more, and one less
			s.instance(InstanceID(count))
			s.d.Detach(InstanceID(s.rng.IntN(count)))
			count++
		}
		if s.rng.IntN(3) > 0 {
			time.Sleep(time.Duration(s.rng.IntN(2000)) * time.Microsecond)
		}
	}
	if s.rng.IntN(2) == 0 {
		// The clients are gone: in time every sequence is over, and every slot free.
		limit := 200*s.policy.Idle + 100*(s.busy+s.policy.MaxQueueDelay)
		time.Sleep(limit)
		if n := s.d.Live(); n != 0 {
			s.fault("%d sequences are live %v after the last request, with an idle time of %v", n, limit, s.policy.Idle)
		}
	}
	s.d.Close()
	s.wg.Wait()
	if n := s.d.Live(); n != 0 {
		s.fault("%d sequences are live after Close", n)
	}
}

// step performs one random action of a client.
func (s *sequenceSchedule) step(open []*round) []*round {
	rng := s.rng
	switch n := rng.IntN(10); {
	case n < 3 || len(open) == 0:
		q := &round{id: infer.CorrelationID{Number: uint64(1 + rng.IntN(12))}}
		if rng.IntN(4) == 0 {
			q.id = infer.CorrelationID{Text: string(rune('a' + rng.IntN(6)))}
		}
		for i, other := range open {
			if other.id == q.id { // it starts twice
				open = append(open[:i:i], open[i+1:]...)
				break
			}
		}
		s.mu.Lock()
		s.rounds = append(s.rounds, q)
		s.mu.Unlock()
		open = append(open, q)
		s.send(q)
		if q.ended {
			open = open[:len(open)-1]
		}
	case n == 9:
		s.cancel()
	default:
		i := rng.IntN(len(open))
		q := open[i]
		s.send(q)
		if q.ended || rng.IntN(30) == 0 { // or its client is gone
			open = append(open[:i:i], open[i+1:]...)
		}
	}
	return open
}

func (s *sequenceSchedule) send(q *round) {
	rng := s.rng
	r := infer.NewDetached()
	r.ModelName, r.BatchSize, r.Correlation = "m", 1, q.id
	c := &sequenceCall{of: q, index: len(q.sent), r: r, queued: time.Now()}
	if c.index == 0 {
		r.Flags |= infer.SequenceStart
	}
	if rng.IntN(6) == 0 {
		r.Flags |= infer.SequenceEnd
	}
	if rng.IntN(6) == 0 {
		c.timeout = time.Duration(1+rng.IntN(8)) * ms
		r.Timeout = c.timeout
	}
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(s.rounds)-1))
	for i, other := range s.rounds {
		if other == q {
			binary.LittleEndian.PutUint64(data, uint64(i))
		}
	}
	data = binary.LittleEndian.AppendUint64(data, uint64(c.index))
	shape := []int64{1, 16}
	if rng.IntN(2) == 0 {
		shape = []int64{1, 8, 2}
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT", DataType: tensor.Uint8, Shape: shape, Data: data})
	s.mu.Lock()
	idle := infer.Now().Sub(q.last) > s.policy.Idle
	waits := q.next < len(q.sent)
	mayFail := q.free || q.last != 0 && idle && !waits
	q.sent = append(q.sent, c)
	q.last = infer.Now()
	q.ended = r.Flags&infer.SequenceEnd != 0
	s.mu.Unlock()
	err := s.d.Enqueue(r)
	if err != nil {
		s.mu.Lock()
		if q.free = true; !mayFail || c.index == 0 || status.CodeOf(err) != status.InvalidArg {
			s.fault("request %d of sequence %v (sent after %v of idling, %v): %v", c.index, q.id,
				infer.Now().Sub(q.last), waits, err)
		}
		q.ended = true
		s.mu.Unlock()
		r.Release()
		return
	}
	s.wg.Go(func() { s.read(c) })
}

// read reads and checks the response to a request.
func (s *sequenceSchedule) read(c *sequenceCall) {
	resp, err := c.r.Next(context.Background())
	if err != nil {
		s.fault("%v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case resp.Err == nil && c.taken != 1 || c.taken > 1:
		s.fault("request %d of sequence %v was in %d batches, answer %v", c.index, c.of.id, c.taken, resp.Err)
	case errors.Is(resp.Err, errExpired):
		c.of.free = true
		least := time.Duration(1 << 62)
		for _, other := range c.of.sent {
			if other.timeout > 0 {
				least = min(least, time.Until(other.queued)+other.timeout)
			}
		}
		if least > -1 { // the earliest end of a wait is in the future
			s.fault("request %d of sequence %v expired %v too early", c.index, c.of.id, least)
		}
	case errors.Is(resp.Err, errCancelled):
		if !c.of.free {
			s.fault("request %d of sequence %v was cancelled by the scheduler", c.index, c.of.id)
		}
	case resp.Err != nil && !errors.Is(resp.Err, errExecution):
		s.fault("request %d of sequence %v: %v", c.index, c.of.id, resp.Err)
	}
	c.r.Release()
}

func (s *sequenceSchedule) cancel() {
	s.mu.Lock()
	q := s.rounds[s.rng.IntN(len(s.rounds))]
	c := q.sent[s.rng.IntN(len(q.sent))]
	over := c.r == nil || c.cancelled || c.taken > 0 || q.free
	if !over {
		c.cancelled, q.free = true, true
	}
	s.mu.Unlock()
	if !over {
		c.r.Retain()
		c.r.Cancel()
		c.r.Release()
	}
}

var errExecution = errors.New("the execution failed")

// instance executes batches until there are no more.
func (s *sequenceSchedule) instance(id InstanceID) {
	rng := rand.New(rand.NewPCG(s.seed, uint64(id)+100))
	s.d.Attach(id)
	s.wg.Go(func() {
		for {
			b, err := s.d.Next(context.Background(), id, nil)
			if err != nil {
				if !errors.Is(err, ErrClosed) {
					s.fault("Next: %v", err)
				}
				return
			}
			b.Begin()
			s.begin(id, b)
			time.Sleep(time.Duration(rng.Int64N(int64(s.busy) + 1)))
			for _, r := range b.Requests {
				s.execute(r, rng.IntN(20) == 0)
				r.Release()
			}
			b.End()
		}
	})
}

func text(r *infer.Request, name string) string {
	in := r.Input(name)
	if in == nil {
		return ""
	}
	return string(in.Data)
}

// begin checks a batch.
func (s *sequenceSchedule) begin(id InstanceID, b *infer.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.Requests) > max(s.policy.MaxBatchSize, 1) || len(b.Requests) != b.Rows {
		s.fault("a batch of %d requests and %d rows, at most %d", len(b.Requests), b.Rows, s.policy.MaxBatchSize)
	}
	seen := map[*round]bool{}
	nulls := 0
	for row, r := range b.Requests {
		if text(r, "READY") != string([]byte{map[bool]byte{true: 0, false: 1}[r.Null]}) {
			s.fault("row %d (null %v) has READY %q", row, r.Null, text(r, "READY"))
		}
		if r.Null {
			nulls++
			if s.policy.Oldest || len(r.Inputs) != 6 ||
				text(r, "SUM_IN") != string(make([]byte, 8)) || text(r, "CORRID") != "\x00\x00\x00\x00" {
				s.fault("row %d is a null request %v", row, r.Inputs)
			}
			continue
		}
		in := r.Input("INPUT").Data
		q := s.rounds[binary.LittleEndian.Uint64(in)]
		c := q.sent[binary.LittleEndian.Uint64(in[8:])]
		c.taken++
		start, end := c.index == 0, r.Flags&infer.SequenceEnd != 0
		switch {
		case seen[q]:
			s.fault("sequence %v twice in a batch", q.id)
		case c.index != q.next && !q.free:
			s.fault("request %d of sequence %v runs in place of %d", c.index, q.id, q.next)
		case c.index < q.next || q.done:
			s.fault("request %d of sequence %v runs after %d (END ran: %v)", c.index, q.id, q.next-1, q.done)
		case q.runs > 0 && (q.inst != id || !s.policy.Oldest && q.row != row):
			s.fault("request %d of sequence %v runs on instance %d, row %d; those before on %d, %d", c.index, q.id, id,
				row, q.inst, q.row)
		case text(r, "START") != string([]byte{map[bool]byte{true: 1}[start]}),
			text(r, "END") != string([]byte{map[bool]byte{true: 1}[end]}):
			s.fault("request %d of sequence %v has START %q, END %q", c.index, q.id, text(r, "START"), text(r, "END"))
		case len(text(r, "CORRID")) < 4 || text(r, "CORRID")[4:] != q.id.String():
			s.fault("a request of sequence %v has CORRID %q", q.id, text(r, "CORRID"))
		case text(r, "SUM_IN") != string(binary.LittleEndian.AppendUint64(nil, uint64(q.sum))):
			s.fault("request %d of sequence %v has the state %x, want %d", c.index, q.id, text(r, "SUM_IN"), q.sum)
		case len(r.Inputs) != 6:
			s.fault("%d inputs", len(r.Inputs))
		}
		seen[q] = true
		q.next, q.inst, q.row, q.done = c.index+1, id, row, end
		q.runs++
	}
	if nulls != b.Nulls || nulls > 0 && b.Requests[len(b.Requests)-1].Null {
		s.fault("%d null requests of %d, the batch says %d", nulls, len(b.Requests), b.Nulls)
	}
}

// execute answers a request, and sets the next state.
func (s *sequenceSchedule) execute(r *infer.Request, fails bool) {
	if r.Null {
		r.Fail(errExecution)
		return
	}
	s.mu.Lock()
	q := s.rounds[binary.LittleEndian.Uint64(r.Input("INPUT").Data)]
	q.last = infer.Now()
	if !fails {
		q.sum += int64(s.seed%7) + 1
	}
	sum := q.sum
	s.mu.Unlock()
	if fails {
		r.Fail(errExecution)
		return
	}
	data := binary.LittleEndian.AppendUint64(nil, uint64(sum))
	if err := r.States.Set("SUM_OUT", tensor.Int64, []int64{1}, data, nil); err != nil {
		s.fault("%v", err)
	}
	resp := r.NewResponse()
	resp.Final = true
	if err := r.Respond(resp); err != nil {
		s.fault("%v", err)
	}
}
