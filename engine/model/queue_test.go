package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// held is the identity backend whose instances wait for permission before each batch.
type held struct {
	*recorder
	began chan int // rows of a batch that waits for permission
	leave chan struct{}
}

func (h *held) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	m, err := h.recorder.Load(ctx, s)
	return &beforeModel{m, func(b *infer.Batch) error {
		h.began <- b.Rows
		<-h.leave
		return nil
	}}, err
}

const queued = `
	backend: "identity" max_batch_size: 4
	input { name: "INPUT0" data_type: TYPE_UINT8 dims: 4 }
	output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: 4 }
	instance_group { count: 1 kind: KIND_CPU }
	dynamic_batching { `

// send hands a request of one row to the model.
func send(t *testing.T, m *Model, change func(r *infer.Request)) (*infer.Request, error) {
	t.Helper()
	r := request(input("INPUT0", tensor.Uint8, 4, 1, 4))
	if change != nil {
		change(r)
	}
	if !m.Acquire() {
		t.Fatal("the model is closing")
	}
	return r, m.Infer(r)
}

func TestRefusedRequestsAreCounted(t *testing.T) {
	h := &held{recorder: record(), began: make(chan int), leave: make(chan struct{})}
	s := spec(config(t, queued+`default_queue_policy { max_queue_size: 2 default_timeout_microseconds: 60000000 `+
		`allow_timeout_override: true } }`), t.TempDir(), h)
	m := serve(t, s)
	failures := func() [stats.NumReasons]uint64 {
		var snap stats.Snapshot
		s.Stats.Snapshot(&snap)
		return snap.Failures
	}
	running, err := send(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-h.began // the instance is busy from here on
	waiting, err := send(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("E1 C012 C013 request timeout: Unavailable, REJECTED", func(t *testing.T) {
		r, err := send(t, m, func(r *infer.Request) { r.Timeout = 1 })
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.Next(t.Context())
		if err != nil || status.CodeOf(resp.Err) != status.Unavailable || failures()[stats.Rejected] != 1 ||
			!strings.Contains(resp.Err.Error(), "Request timeout expired") {
			t.Errorf("answer %v %+v, failures %v; want Unavailable with the reason, and one REJECTED", err, resp,
				failures())
		}
	})
	t.Run("C055 cancelled in the queue: CANCELED", func(t *testing.T) {
		r, err := send(t, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Cancel()
		resp, err := r.Next(t.Context())
		if err != nil || status.CodeOf(resp.Err) != status.Cancelled || failures()[stats.Canceled] != 1 {
			t.Errorf("answer %v %+v, failures %v; want Cancelled and one CANCELED", err, resp, failures())
		}
	})
	t.Run("E1 C014 queue full: Unavailable, REJECTED", func(t *testing.T) {
		if _, err := send(t, m, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := send(t, m, nil); status.CodeOf(err) != status.Unavailable || failures()[stats.Rejected] != 2 ||
			!strings.Contains(err.Error(), "Exceeds maximum queue size") {
			t.Errorf("Infer = %v, failures %v; want Unavailable with the reason, and two REJECTED", err, failures())
		}
	})
	h.leave <- struct{}{}
	if rows := <-h.began; rows != 2 {
		t.Errorf("the next batch has %d rows, want the 2 that still wait", rows)
	}
	h.leave <- struct{}{}
	for _, r := range []*infer.Request{running, waiting} {
		if resp, err := r.Next(t.Context()); err != nil || resp.Err != nil {
			t.Errorf("a request that was not refused: %v %v", err, resp.Err)
		}
	}
}

// A thousand clients send requests of mixed sizes: every response has the values of its request.
func TestConcurrentRequestsGetTheirOwnRows(t *testing.T) {
	for _, tt := range []struct{ name, batching string }{
		{"E5 plain", ``},
		{"E5 delay and preferred sizes", `preferred_batch_size: 3 max_queue_delay_microseconds: 300`},
		{"E5 C006 in order", `preserve_ordering: true`},
		{"E5 C007 priorities and timeouts", `priority_levels: 3 default_priority_level: 2 default_queue_policy { ` +
			`timeout_action: DELAY default_timeout_microseconds: 100 }`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, queued+tt.batching+"}")
			cfg.InstanceGroup[0].Count = 2
			m := serve(t, spec(cfg, t.TempDir(), record()))
			var wg sync.WaitGroup
			for k := range 1000 {
				wg.Go(func() {
					for n := range 3 {
						if err := one(t, m, k, n); err != nil {
							t.Errorf("client %d: %v", k, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func one(t *testing.T, m *Model, k, n int) error {
	rows := 1 + (k+n)%4
	in := input("INPUT0", tensor.Uint8, 4*rows, int64(rows), 4)
	for i := range rows {
		binary.LittleEndian.PutUint32(in.Data[4*i:], uint32(k<<8|n<<4|i))
	}
	r := infer.New()
	defer r.Release()
	r.ModelName, r.ID, r.Priority = "m", fmt.Sprint(k), uint64(k%5)
	r.Inputs = append(r.Inputs, in)
	out, err := ask(t, m, r)
	if err != nil {
		return err
	}
	if len(out) != 1 || !bytes.Equal(out[0].Data, in.Data) {
		return fmt.Errorf("got %v, want its own %x", out, in.Data)
	}
	return nil
}
