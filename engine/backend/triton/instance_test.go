package triton

import (
	"testing"
	"testing/synctest"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// A failed execution releases a response that was held for its final flag, and ends the goroutine that hands on the
// responses of a slow client. The end of the bubble waits for that goroutine.
func TestAFailedExecutionForgetsItsResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &requests{open: map[uint64]*pending{}}
		r := infer.NewDetached()
		freed := false
		buf := tensor.NewBuffer(make([]byte, 4), func(*tensor.Buffer) { freed = true })
		var c capi.Instance
		c.Begin()
		h := q.add(r, nil)
		c.Add(h, r)
		q.set([]uint64{h}, c.Make(1))

		held := r.NewResponse()
		held.AddOutput("OUTPUT0", tensor.FP32, []int64{1}, buf.Bytes(), buf)
		p := q.open[h]
		p.held = held
		p.waiting = make(chan *infer.Response, maxWaiting)
		go forward(r.Retain(), p.waiting)
		q.forget([]uint64{h})
		synctest.Wait()
		if !freed || len(q.open) != 0 {
			t.Errorf("the held response is freed: %v; %d requests are open", freed, len(q.open))
		}
		r.Release()
	})
}
