package model

import (
	"sync/atomic"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// inlinePolicy says when a request may be executed on its own goroutine.
type inlinePolicy int

const (
	inlineNever inlinePolicy = iota
	// inlineUnlessQueued: while no request waits. For models that do not batch.
	inlineUnlessQueued
	// inlineWhenIdle: while the model has no other request. For models in another process that do not batch: requests
	// that come meanwhile are sent there together, which costs less than one by one.
	inlineWhenIdle
	// inlineAfterLoneRun: while requests come one at a time. For models with dynamic batching: with several clients a
	// request that was executed at once would not be batched with others.
	inlineAfterLoneRun
)

// loneRun is how many requests in a row must have been alone before the next lone one runs inline.
const loneRun = 8

// inlining decides whether requests run inline.
type inlining struct {
	policy inlinePolicy
	waits  bool         // an execution waits for another process: only on goroutines that may wait
	lone   atomic.Int32 // requests in a row that were alone, up to loneRun
}

func inlinePolicyOf(cfg *inferencepb.ModelConfig, loaded backend.Model, limited bool) inlinePolicy {
	traits := loaded.Traits()
	if !traits.RunsInline && !traits.WaitsInline || traits.DeviceBlocking ||
		cfg.GetModelTransactionPolicy().GetDecoupled() || cfg.GetSequenceBatching() != nil {
		return inlineNever
	}
	for _, g := range cfg.GetInstanceGroup() {
		if limited && g.GetRateLimiter() != nil { // each execution has to acquire it
			return inlineNever
		}
	}
	if db := cfg.GetDynamicBatching(); db != nil {
		if db.GetMaxQueueDelayMicroseconds() > 0 || db.GetPreserveOrdering() { // the queue keeps the order
			return inlineNever
		}
		return inlineAfterLoneRun
	}
	if traits.WaitsInline {
		return inlineWhenIdle
	}
	return inlineUnlessQueued
}

// InputBuffer returns memory for n bytes of an input that the backend need not copy, nil if it has none. See
// backend.InputMemory.
func (m *Model) InputBuffer(n int) *tensor.Buffer {
	if own, ok := m.loaded.(backend.InputMemory); ok {
		return own.InputBuffer(n)
	}
	return nil
}

// wanted reports whether a request that has just been admitted is to be executed inline.
func (in *inlining) wanted(m *Model, r *infer.Request) bool {
	if in.waits && r.Client == nil {
		return false
	}
	switch in.policy {
	case inlineUnlessQueued:
		return m.stats.Pending() == 1 // itself
	case inlineWhenIdle:
		return m.alone()
	case inlineAfterLoneRun:
		lone := in.lone.Load()
		if !m.alone() {
			if lone != 0 {
				in.lone.Store(0)
			}
			return false
		}
		if lone < loneRun {
			in.lone.Add(1)
			return false
		}
		return true
	}
	return false
}
