package capture

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/engine/tensor"
	"nereid/store"
)

func newRecorder(t *testing.T) *Recorder {
	t.Helper()
	s, err := store.OpenMemory(t.Context(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r, err := New(t.Context(), Options{Log: requests.New(), Store: s, Folder: t.TempDir(),
		Errors: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func set(t *testing.T, r *Recorder, s Settings) {
	t.Helper()
	s.MaxBytes, s.Budget = 1<<20, 1<<20
	if err := r.Set(t.Context(), "m", &s); err != nil {
		t.Fatal(err)
	}
}

// until returns when is is true. The time limit of the tests ends it otherwise.
func until(is func() bool) {
	for !is() {
		runtime.Gosched()
	}
}

// offer offers a request with an input of 8 bytes that failed if err is not nil.
func offer(r *Recorder, id int64, err error) {
	req := &infer.Request{Content: infer.Content{ModelName: "m", Inputs: []tensor.Tensor{
		{Name: "X", DataType: tensor.Int64, Shape: []int64{1}, Data: make([]byte, 8)}}}}
	r.offer(id, req, &infer.Response{Err: err})
}

func TestAFullQueueDropsAndCounts(t *testing.T) {
	r := newRecorder(t)
	set(t, r, Settings{Until: time.Now().Add(time.Hour)})
	for id := range int64(queueLength + 3) { // nobody writes, and yet none of them waits
		offer(r, id, nil)
	}
	if s, err := r.Status("m"); err != nil || s.Dropped != 3 {
		t.Errorf("dropped: %d, %v", s.Dropped, err)
	}
	if !r.Kept("m", queueLength-1) || r.Kept("m", queueLength) {
		t.Error("what waits is not what will be kept")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	until(func() bool { s, _ := r.Status("m"); return s.Captured == queueLength })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s, _ := r.Status("m"); s.Kept != queueLength || s.Dropped != 3 {
		t.Errorf("kept %d, dropped %d", s.Kept, s.Dropped)
	}
}

func TestACaptureEndsByItsTime(t *testing.T) {
	r := newRecorder(t)
	set(t, r, Settings{Until: time.Now().Add(50 * time.Millisecond)})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	until(func() bool { return len(*r.active.Load()) == 0 })
	offer(r, 1, nil)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s, _ := r.Status("m"); s.On || s.Captured+s.Dropped != 0 || s.Kept != 0 {
		t.Errorf("after its end: %+v", s)
	}
}

func TestErrorsAreLeftOutIfARuleAppliesToTheRequest(t *testing.T) {
	r := newRecorder(t)
	for _, c := range []struct{ rule, want, leftOut string }{{"Y*", "bad X", ""}, {"X*", "", ByRule}} {
		set(t, r, Settings{Until: time.Now().Add(time.Hour), LeaveOut: []string{c.rule}})
		offer(r, 1, errors.New("bad X"))
		if got := (<-r.queue).contents; got.Error != c.want || got.ErrorLeftOut != c.leftOut {
			t.Errorf("with the rule %s: %q, %q", c.rule, got.Error, got.ErrorLeftOut)
		}
	}
}
