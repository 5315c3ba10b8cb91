package instance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/sched"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Random operations on a set of instances, on a fake clock. Instances under a rate limiter are added and removed while
// requests of mixed sizes with timeouts and cancellations run. Executions and single requests fail, the backend panics
// or does not respond, and the set is closed, with or without time to finish. Every caller gets exactly its own rows or
// one error. Every request is counted once. At the end nothing waits, no instance is open and no resource is held.
func TestRandomSetOperations(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			l := &life{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 23))}
			l.run()
		})
		if t.Failed() {
			return
		}
	}
}

type life struct {
	*testing.T
	seed  uint64
	rng   *rand.Rand
	o     Options
	set   *Set
	model *fake
	busy  time.Duration
	wg    sync.WaitGroup

	mu        sync.Mutex
	chance    *rand.Rand // guarded by mu, as are the next three: of executions
	succeeded uint64
	failed    uint64
	asked     uint64
}

func (l *life) fault(format string, args ...any) {
	l.Helper()
	l.Errorf("seed %d: "+format, append([]any{l.seed}, args...)...)
}

func (l *life) dice(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chance.IntN(n)
}

// execute gathers the rows of a batch and distributes them to the responses, as backends do, or fails in a random way.
func (l *life) execute(b *infer.Batch) error {
	time.Sleep(l.busy)
	switch l.dice(14) {
	case 0:
		return errors.New("the batch fails on purpose")
	case 1:
		panic("on purpose")
	}
	var all []byte
	for _, r := range b.Requests {
		all = append(all, r.Inputs[0].Data...)
	}
	for _, r := range b.Requests {
		n := len(r.Inputs[0].Data)
		mine := all[:n]
		all = all[n:]
		switch l.dice(20) {
		case 0:
			r.Fail(errors.New("fails on purpose"))
			continue
		case 1:
			continue // without a response
		}
		resp := r.NewResponse()
		resp.AddOutput("OUT", tensor.Uint8, r.Inputs[0].Shape, mine, nil)
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			l.fault("Respond: %v", err)
		}
	}
	return nil
}

func (l *life) places() (all []backend.Placement) {
	for i := range 1 + l.rng.IntN(4) {
		p := backend.Placement{Name: fmt.Sprint("m_", i)}
		if l.o.Limiter != nil {
			p.RateLimiter = limits(uint32(i%3), local("R", uint32(1+i%2)), global("G", 1))
		}
		all = append(all, p)
	}
	return all
}

func (l *life) run() {
	rng := l.rng
	l.chance = rand.New(rand.NewPCG(l.seed, 29))
	l.busy = time.Duration(rng.IntN(4)) * time.Millisecond
	l.model = &fake{execute: l.execute}
	l.o = options(l.model)
	l.o.Parallel = rng.IntN(3)
	policy := sched.Policy{MaxBatchSize: rng.IntN(9), MaxQueueDelay: time.Duration(rng.IntN(3)) * time.Millisecond,
		PreserveOrdering: rng.IntN(3) == 0}
	if rng.IntN(2) == 0 {
		policy.Queue = sched.QueuePolicy{Timeout: time.Duration(1+rng.IntN(8)) * time.Millisecond, AllowOverride: true}
	}
	l.o.Batcher = sched.NewDynamic(policy)
	if rng.IntN(2) == 0 {
		l.o.Limiter = NewLimiter([]Resource{{"R", 2, EveryDevice}, {"G", uint32(1 + rng.IntN(3)), GlobalDevice}})
	}
	l.o.Placements = l.places()
	var err error
	if l.set, err = Start(context.Background(), l.o); err != nil {
		l.Fatal(err)
	}
	for range rng.IntN(50) {
		l.send(1 + rng.IntN(max(policy.MaxBatchSize, 1)))
		switch rng.IntN(12) {
		case 0:
			if err := l.set.Resize(context.Background(), l.places()); err != nil {
				l.fault("Resize: %v", err)
			}
		case 1, 2, 3:
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		}
	}
	l.o.Batcher.Close()
	ctx, cancel := context.WithCancel(context.Background())
	if rng.IntN(3) == 0 {
		cancel()
	}
	l.set.Close(ctx)
	cancel()
	l.wg.Wait()
	l.check()
}

// Finished counts a request as the model does.
func (l *life) Finished(r *infer.Request, resp *infer.Response) {
	if r.Batch == nil {
		l.o.Stats.Left(1)
	}
	l.o.Stats.Finished(r, resp, stats.Other)
}

// send sends a request with unique rows and reads its response on another goroutine.
func (l *life) send(rows int) {
	r := infer.NewDetached()
	r.BatchSize = rows
	data := make([]byte, rows)
	for i := range data {
		data[i] = byte(l.rng.Uint32())
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Uint8, Shape: []int64{int64(rows), 1},
		Data: data})
	if l.rng.IntN(3) == 0 {
		r.Timeout = time.Duration(1+l.rng.IntN(5)) * time.Millisecond
	}
	r.Times.Arrived = infer.Now()
	r.Observe(l)
	l.o.Stats.Admitted()
	if err := l.o.Batcher.Enqueue(r); err != nil {
		l.fault("Enqueue: %v", err)
		return
	}
	l.mu.Lock()
	l.asked++
	l.mu.Unlock()
	if l.rng.IntN(8) == 0 {
		after := time.Duration(l.rng.IntN(4)) * time.Millisecond
		l.wg.Go(func() {
			time.Sleep(after)
			r.Cancel()
		})
	}
	l.wg.Go(func() {
		resp, err := r.Next(context.Background())
		if err != nil {
			l.fault("no answer: %v", err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if resp.Err != nil {
			l.failed++
			return
		}
		l.succeeded++
		if !slices.Equal(resp.Outputs[0].Data, data) || !resp.Final {
			l.fault("a caller got rows that are not its own")
		}
	})
}

// check checks the counts and the resources at the end.
func (l *life) check() {
	var s stats.Snapshot
	l.o.Stats.Snapshot(&s)
	if s.Success.Count != l.succeeded || s.Fail.Count != l.failed || l.succeeded+l.failed != l.asked || s.Pending != 0 {
		l.fault("%d requests: %d succeeded and %d failed; counted are %d, %d, and %d that wait", l.asked, l.succeeded,
			l.failed, s.Success.Count, s.Fail.Count, s.Pending)
	}
	if open := l.model.names(); len(open) > 0 {
		l.fault("instances %v are open", open)
	}
	if l.o.Limiter != nil && len(l.o.Limiter.Uses()) > 0 {
		l.fault("resources %v are held", l.o.Limiter.Uses())
	}
	if code := status.CodeOf(l.o.Batcher.Enqueue(infer.NewDetached())); code != status.Unavailable {
		l.fault("a request after the end got %v", code)
	}
}
