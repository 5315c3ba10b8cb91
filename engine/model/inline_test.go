package model

import (
	"testing"

	"nereid/engine/backend/builtin"
	"nereid/engine/instance"
	"nereid/engine/tensor"
)

func TestInlinePolicy(t *testing.T) {
	const io = `input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } output { name: "OUTPUT0" data_type: TYPE_FP32 ` +
		`dims: 1 } max_batch_size: 8 `
	for _, tt := range []struct {
		name, config string
		want         inlinePolicy
	}{
		{"plain", ``, inlineUnlessQueued},
		{"dynamic batching", `dynamic_batching {}`, inlineAfterLoneRun},
		{"with a delay", `dynamic_batching { max_queue_delay_microseconds: 100 }`, inlineNever},
		{"C006 order preserved", `dynamic_batching { preserve_ordering: true }`, inlineNever},
		{"execution that waits", `parameters { key: "execute_delay_ms" value { string_value: "1" } }`, inlineNever},
		{"rate limited", `instance_group { count: 1 kind: KIND_CPU rate_limiter { priority: 2 } }`, inlineNever},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec(config(t, io+tt.config), t.TempDir(), builtin.Identity())
			s.Limiter = instance.NewLimiter(nil)
			m := serve(t, s)
			if m.inline.policy != tt.want {
				t.Errorf("policy %v, want %v", m.inline.policy, tt.want)
			}
			if tt.want != inlineAfterLoneRun {
				return
			}
			for i := range 2 * loneRun {
				before := m.inline.lone.Load()
				r := request(input("INPUT0", tensor.FP32, 4, 1, 1))
				if _, err := ask(t, m, r); err != nil {
					t.Fatal(err)
				}
				r.Release()
				if want := min(int32(i), loneRun); before != want {
					t.Errorf("%d requests in a row count as alone, want %d", before, want)
				}
			}
			m.inflight.Add(1) // another one is inside
			defer m.leave()
			r := request(input("INPUT0", tensor.FP32, 4, 1, 1))
			defer r.Release()
			if _, err := ask(t, m, r); err != nil || m.inline.lone.Load() != 0 {
				t.Errorf("err %v; %d requests in a row count as alone beside another, want 0", err,
					m.inline.lone.Load())
			}
		})
	}
}

// A model in a separate process runs a request inline only if it has no other request, on goroutines that may block.
func TestInlineWithoutOtherRequests(t *testing.T) {
	const io = `input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } output { name: "OUTPUT0" data_type: TYPE_FP32 ` +
		`dims: 1 } max_batch_size: 8 `
	m := serve(t, spec(config(t, io), t.TempDir(), builtin.Identity()))
	in := inlining{policy: inlineWhenIdle, waits: true}
	r := request(input("INPUT0", tensor.FP32, 4, 1, 1))
	defer r.Release()
	for _, tt := range []struct {
		name   string
		inside int64 // requests, with this one
		client bool
		want   bool
	}{
		{"alone", 1, true, true},
		{"alone on a goroutine that may not wait", 1, false, false},
		{"beside another", 2, true, false},
	} {
		if r.Client = nil; tt.client {
			r.Client = t.Context()
		}
		before := m.inflight.Load()
		m.inflight.Store(tt.inside)
		if got := in.wanted(m, r); got != tt.want {
			t.Errorf("%s: inline %v, want %v", tt.name, got, tt.want)
		}
		m.inflight.Store(before)
	}
}
