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

// request has an input of 8 bytes.
func request() *infer.Request {
	return &infer.Request{Content: infer.Content{ModelName: "m", Inputs: []tensor.Tensor{
		{Name: "X", DataType: tensor.Int64, Shape: []int64{1}, Data: make([]byte, 8)}}}}
}

// offer offers a request that failed if err is not nil.
func offer(r *Recorder, id int64, err error) {
	r.offer(id, request(), &infer.Response{Err: err, Final: true})
}

// After a restart with a clock that is behind, a request has no ID of contents that were captured before. So its
// contents replace no others, and it is not the oldest.
func TestIDsFollowThoseOfTheCapturedContents(t *testing.T) {
	before := newRecorder(t)
	future := time.Now().Add(24 * 365 * time.Hour).UnixMicro()
	for _, model := range []string{"m", "n/o"} {
		if err := before.folders.add(model, future, []byte("{}"), 1<<20); err != nil {
			t.Fatal(err)
		}
		future++
	}
	o := before.o
	o.Log = requests.New()
	after, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Log.StartAfter(7) // of the requests that were kept
	if id := o.Log.Begin("http", nil, 0).ID; id != future {
		t.Errorf("the first ID is %d, want %d", id, future)
	}
	if after.Kept("m", future) || !after.Kept("n/o", future-1) {
		t.Error("the new request is taken for one that was captured")
	}
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

// responses offers a request with a response for each text, as a decoupled model answers. The last one is final.
func responses(r *Recorder, id int64, texts ...string) *infer.Request {
	req := request()
	for i, text := range texts {
		resp := &infer.Response{Final: i == len(texts)-1, Empty: text == ""}
		if text != "" {
			resp.AddOutput("Y", tensor.Uint8, []int64{int64(len(text))}, []byte(text), nil)
		}
		r.offer(id, req, resp)
		_ = req.Respond(resp)
	}
	return req
}

func TestAllResponsesOfADecoupledModelAreJoined(t *testing.T) {
	r := newRecorder(t)
	r.o.Memory = tensor.NewBudget(3 << 20)
	set(t, r, Settings{Until: time.Now().Add(time.Hour)})
	for name, texts := range map[string][]string{"with an empty end": {"ab", "c", ""}, "without": {"ab", "c"}} {
		responses(r, 1, texts...)
		s := <-r.queue
		c := s.contents
		if c.Responses != 2 || len(c.Outputs) != 1 || string(c.Outputs[0].Data) != "abc" || c.Outputs[0].Shape[0] != 3 {
			t.Errorf("%s: %d responses, %+v", name, c.Responses, c.Outputs)
		}
		if s.size != 8+3 {
			t.Errorf("%s: %d bytes, want those of the input and of the outputs", name, s.size)
		}
		r.o.Memory.Give(s.size)
	}
	if used := r.o.Memory.Used(); used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}

func TestStreamsThatBeganInAnOlderCaptureAreDropped(t *testing.T) {
	r := newRecorder(t)
	r.o.Memory = tensor.NewBudget(3 << 20)
	set(t, r, Settings{Until: time.Now().Add(time.Hour)})
	req := request()
	first := &infer.Response{}
	r.offer(1, req, first)
	_ = req.Respond(first)
	if used := r.o.Memory.Used(); used != 1<<20 {
		t.Errorf("%d bytes are counted for a stream, want the most that it may have", used)
	}
	set(t, r, Settings{Until: time.Now().Add(time.Hour)})
	if used := r.o.Memory.Used(); used != 0 {
		t.Errorf("%d bytes are still counted for a stream that is dropped", used)
	}
	r.offer(1, req, &infer.Response{Final: true})
	if len(r.queue) != 0 {
		t.Error("the end of a stream is captured whose beginning is not")
	}
}
