package infer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

type observer struct{ n int }

func (o *observer) Finished(*Request, *Response) { o.n++ }

func TestRespondOnce(t *testing.T) {
	r := New()
	defer r.Release()
	o := &observer{}
	r.Observe(o)
	resp := r.NewResponse()
	resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{2}, []byte{1, 2}, nil)
	resp.Final = true
	if err := r.Respond(resp); err != nil {
		t.Fatal(err)
	}
	late := r.NewResponse()
	late.Final = true
	if err := r.Respond(late); status.CodeOf(err) != status.Internal {
		t.Errorf("second final response: %v, want Internal", err)
	}
	r.Fail(errors.New("too late"))
	got, err := r.Next(context.Background())
	if err != nil || got.Err != nil || len(got.Outputs) != 1 || got.Outputs[0].Data[1] != 2 {
		t.Errorf("Next = %+v, %v; want the first response", got, err)
	}
	if o.n != 1 {
		t.Errorf("observer called %d times, want 1", o.n)
	}
}

func TestReleaseFreesUnreadResponses(t *testing.T) {
	freed := 0
	free := func(*tensor.Buffer) { freed++ }
	r := New()
	r.Own(tensor.NewBuffer(make([]byte, 1), free))
	resp := r.NewResponse()
	resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{1}, []byte{1}, tensor.NewBuffer(make([]byte, 1), free))
	resp.Final = true
	r.Retain()
	if err := r.Respond(resp); err != nil {
		t.Fatal(err)
	}
	r.Release()
	if freed != 0 {
		t.Fatalf("%d buffers freed while a reference is held", freed)
	}
	r.Release()
	if freed != 2 {
		t.Errorf("%d buffers freed, want 2", freed)
	}
}

func TestNextEndsWithContext(t *testing.T) {
	r := New()
	defer r.Release()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next = %v, want context.Canceled", err)
	}
}

func TestCancelBeforeAndAfterDone(t *testing.T) {
	r := New()
	d := r.Done()
	r.Cancel()
	r.Cancel()
	<-d
	r.Release()
	r = New()
	if r.Cancelled() {
		t.Error("a new request is cancelled")
	}
	r.Cancel()
	<-r.Done()
	r.Release()
}

func TestStreamBlocksAFastSenderUntilRead(t *testing.T) {
	r := New()
	big := make([]byte, streamLimit)
	var wg sync.WaitGroup
	wg.Add(1)
	r.Retain()
	go func() {
		defer wg.Done()
		defer r.Release()
		for range 3 {
			resp := r.NewResponse()
			resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{int64(len(big))}, big, nil)
			if err := r.Respond(resp); err != nil {
				t.Error(err)
			}
		}
		end := r.NewResponse()
		end.Final, end.Empty = true, true
		if err := r.Respond(end); err != nil {
			t.Error(err)
		}
	}()
	n := 0
	for {
		resp, err := r.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
		n++
		if resp.Final {
			break
		}
	}
	wg.Wait()
	if n != 4 {
		t.Errorf("%d responses, want 4", n)
	}
	r.Release()
}

func BenchmarkUnary(b *testing.B) {
	ctx := context.Background()
	work := make(chan *Request, 64)
	go func() {
		for r := range work {
			resp := r.NewResponse()
			resp.Final = true
			_ = r.Respond(resp)
			r.Release()
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		r := New()
		work <- r.Retain()
		resp, err := r.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		resp.Release()
		r.Release()
	}
	close(work)
}

// Done and Cancel from two goroutines must not both close the channel.
func TestCancelAndDoneAtOnce(t *testing.T) {
	for range 20000 {
		r := New()
		start := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { <-start; r.Cancel() })
		wg.Go(func() { <-start; <-r.Done() })
		close(start)
		wg.Wait()
		r.Release()
	}
}

// A client that never reads must not block a decoupled model forever. If it reads after all, it is told that responses
// may be missing.
func TestRequestIsCancelledIfItsReaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewDetached()
		start := time.Now()
		for i := 0; !r.Cancelled(); i++ {
			if i > 2*streamLimit/responseCost {
				t.Fatal("empty responses are queued without a limit")
			}
			_ = r.Respond(r.NewResponse())
		}
		if d := time.Since(start); d != slowReaderTimeout {
			t.Errorf("cancelled after %v, want %v", d, slowReaderTimeout)
		}
		last := r.NewResponse()
		last.Final, last.Empty = true, true
		if err := r.Respond(last); err != nil {
			t.Fatal(err)
		}
		for {
			resp, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !resp.Final {
				continue
			}
			if status.CodeOf(resp.Err) != status.Unavailable || resp.Empty || r.Failed == nil {
				t.Errorf("the final response has the error %v, empty %v; want Unavailable", resp.Err, resp.Empty)
			}
			break
		}
		r.Release()
	})
}

func TestAPatientRequestWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewDetached()
		r.Patient = true
		const n = 2 * streamLimit / responseCost
		go func() {
			for i := range n {
				resp := r.NewResponse()
				resp.Final = i == n-1
				_ = r.Respond(resp)
			}
		}()
		for i := range n {
			if i%(n/4) == 0 {
				time.Sleep(10 * slowReaderTimeout)
			}
			resp, err := r.Next(t.Context())
			if err != nil || resp.Err != nil || resp.Final != (i == n-1) {
				t.Fatalf("response %d of %d: %v, %+v", i, n, err, resp)
			}
		}
		if r.Cancelled() {
			t.Error("it is cancelled")
		}
		r.Release()
	})
}

// The reader of a patient request may wait for the model's instance, which sends the responses. So the model does not
// wait for ever, unless they are very large.
func TestTheStreamOfAPatientRequestGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewDetached()
		r.Patient = true
		start, data := time.Now(), make([]byte, streamLimit-responseCost)
		for i := range 4 {
			resp := r.NewResponse()
			resp.AddOutput("o", tensor.Uint8, []int64{int64(len(data))}, data, nil)
			resp.Final = i == 3
			_ = r.Respond(resp)
		}
		if took := time.Since(start); took != 2*slowReaderTimeout {
			t.Errorf("four times the limit took %v, want %v", took, 2*slowReaderTimeout)
		}
		for i := range 4 {
			if resp := r.Poll(); resp == nil || resp.Err != nil {
				t.Errorf("response %d: %+v", i, resp)
			}
		}
		r.Release()
		endless := NewDetached()
		endless.Patient = true
		go respond(endless, data)
		time.Sleep(100 * slowReaderTimeout)
		if n, _ := endless.Answers(); n != patientLimit/streamLimit {
			t.Errorf("%d responses wait, want %d", n, patientLimit/streamLimit)
		}
		endless.Cancel()
	})
}

// respond sends responses until the request is cancelled.
func respond(r *Request, data []byte) {
	for !r.Cancelled() {
		resp := r.NewResponse()
		resp.AddOutput("o", tensor.Uint8, []int64{int64(len(data))}, data, nil)
		_ = r.Respond(resp)
	}
}

// The server paces the process of a model: only the server's own stream grows.
func TestTheStreamOfABoundedRequestDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewDetached()
		r.Patient, r.Bounded = true, true
		data := make([]byte, streamLimit-responseCost)
		go respond(r, data)
		time.Sleep(100 * slowReaderTimeout)
		if n, _ := r.Answers(); n != 1 || r.Cancelled() {
			t.Errorf("%d responses wait, want 1; cancelled: %v", n, r.Cancelled())
		}
		r.Cancel()
	})
}

func TestAStreamThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	r := NewDetached()
	defer r.Release()
	_ = r.Respond(r.NewResponse())
	for range 10000 {
		_ = r.Respond(r.NewResponse())
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(r.stream.queue.items); n > 1000 {
		t.Errorf("the queue of a stream with 2 responses has room for %d", n)
	}
}

// A request that leaves the order is answered at once, and nothing waits for it, even if it was failed before.
func TestRequestsLeaveTheirOrder(t *testing.T) {
	for _, failed := range []bool{false, true} {
		var o Order
		var all []*Request
		for range 4 {
			r := NewDetached()
			o.Add(r)
			all = append(all, r)
		}
		all[3].Fail(errors.New("last"))
		if failed {
			all[1].Fail(errors.New("in its place"))
		}
		all[1].LeaveOrder()
		all[1].Fail(errors.New("at once"))
		all[1].LeaveOrder() // nothing more happens
		if resp := all[1].Poll(); resp == nil || (resp.Err.Error() == "in its place") != failed {
			t.Errorf("failed before %v: it has the response %+v", failed, resp)
		}
		all[0].Fail(errors.New("first"))
		if all[0].Poll() == nil || all[3].Poll() != nil {
			t.Error("the order of the others is lost")
		}
		all[2].LeaveOrder()
		if all[3].Poll() == nil {
			t.Error("a response still waits for a request that left")
		}
		for i, r := range all {
			if n := r.refs.Load(); n != 1 && i != 2 {
				t.Errorf("request %d has %d references", i, n)
			}
		}
	}
}

func TestAllCancelled(t *testing.T) {
	for _, tt := range []struct {
		name      string
		cancelled []bool
		null      int // a stand-in for an empty slot, from 1; 0: none
		want      bool
	}{
		{"none", []bool{false, false}, 0, false},
		{"some", []bool{true, false, true}, 0, false},
		{"all but the first", []bool{false, true}, 0, false},
		{"all", []bool{true, true}, 0, true},
		{"all beside a stand-in", []bool{true, false}, 2, true},
		{"a stand-in beside one that waits", []bool{false, false}, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBatch()
			for i, cancelled := range tt.cancelled {
				r := New()
				defer r.Release()
				if r.Null = i+1 == tt.null; cancelled {
					r.Cancel()
				}
				b.Requests = append(b.Requests, r)
			}
			if got := b.AllCancelled(); got != tt.want {
				t.Errorf("AllCancelled() = %v, want %v", got, tt.want)
			}
		})
	}
}
