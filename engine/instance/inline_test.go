package instance

import (
	"context"
	"sync"
	"testing"
	"time"

	"nereid/engine/infer"
)

func inline(s *Set) bool {
	r := infer.New()
	defer r.Release()
	r.BatchSize = 1
	return s.Inline(r) && r.Answered()
}

// A request runs on the caller's goroutine if an instance is free and its executions are short, on one goroutine at a
// time, and never on a closed instance.
func TestInline(t *testing.T) {
	var running sync.Mutex
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	var during func()
	m := &fake{execute: func(b *infer.Batch) error {
		if !running.TryLock() {
			t.Error("two goroutines execute one instance")
		}
		defer running.Unlock()
		if during != nil {
			during()
		}
		return answer(b)
	}}
	o := options(m, "a")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !inline(s) {
		t.Error("a free instance does not take a request")
	}
	during = func() { entered <- struct{}{}; <-hold }
	r := infer.New()
	defer r.Release()
	r.BatchSize = 1
	if err := o.Batcher.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	<-entered
	if inline(s) {
		t.Error("a busy instance takes a request")
	}
	hold <- struct{}{}
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	during = nil
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				r := infer.New()
				r.BatchSize = 1
				if !s.Inline(r) && send(t, o, r) != nil {
					t.Error("no answer")
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	o.Batcher.Close()
	s.Close(t.Context())
	if inline(s) {
		t.Error("a closed instance takes a request")
	}
}

// After long executions, requests wait in the queue, where they can be cancelled.
func TestInlineOnlyForShortExecutions(t *testing.T) {
	m := &fake{execute: func(b *infer.Batch) error {
		for begin := time.Now(); time.Since(begin) < 10*inlineMost; {
		}
		return answer(b)
	}}
	o := options(m, "a")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !inline(s) {
		t.Error("the first request is not run inline")
	}
	if inline(s) {
		t.Errorf("a request is run inline after one that took %v", 10*inlineMost)
	}
	o.Batcher.Close()
	s.Close(t.Context())
}

// The scheduler does not see inline executions, and may choose an instance that has a long one while another is free.
func TestInlineNeedsAKnownTimeIfThereAreSeveralInstances(t *testing.T) {
	m := &fake{execute: answer}
	o := options(m, "a", "b")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	defer o.Batcher.Close()
	if inline(s) {
		t.Error("an instance that has not executed anything takes a request")
	}
	for !inline(s) { // until an instance has executed a short one, and is free
		r := infer.New()
		r.BatchSize = 1
		if err := send(t, o, r); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
}

// A model may call itself while it executes a request inline. The scheduler does not see that execution, and may give
// the call to the busy instance.
func TestInlineRequestsMayCallTheirModel_D040(t *testing.T) {
	var o Options
	m := &fake{execute: func(b *infer.Batch) error {
		if b.Requests[0].Priority > 0 {
			call := infer.New()
			call.BatchSize = 1
			call.Priority = b.Requests[0].Priority - 1
			defer call.Release()
			if err := o.Batcher.Enqueue(call); err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			resp, err := call.Next(ctx)
			if err != nil {
				t.Error("the call waits for the execution that made it")
				call.Cancel()
				return err
			}
			resp.Release()
		}
		return answer(b)
	}}
	o = options(m, "a", "b", "c")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	defer o.Batcher.Close()
	for calls := range uint64(200) {
		ask := func(do func(r *infer.Request) bool) bool {
			r := infer.New()
			defer r.Release()
			r.BatchSize = 1
			r.Priority = calls % 3 // as many as there are other instances
			return do(r)
		}
		for !t.Failed() && !ask(s.Inline) { // until the instances have executed short ones
			ask(func(r *infer.Request) bool { return send(t, o, r) == nil })
		}
	}
}
