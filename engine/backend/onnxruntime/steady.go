package onnxruntime

import (
	"context"
	"math/bits"
	"slices"
	"sync"

	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// steadyRows chooses how many rows the runs of a session on a GPU have.
//
// ONNX Runtime's CUDA provider plans all convolutions of a model again if a run has another shape than the one before.
// On an H100 that takes 43 ms for 3 convolutions and 265 ms for the 53 of ResNet-50, where a run takes 0.2 and 2 ms.
// So a run of fewer rows than the one before is filled up, and the number of rows falls only after many small runs.
type steadyRows struct {
	mu    sync.Mutex // instances may share a session
	most  int        // guarded by mu, as all below: no run is filled up to more; max_batch_size at first
	rows  int        // of the last run; 0: there was none
	row   []int64    // the inputs' other dimensions in the last run
	small int        // how many runs in a row needed less
	need  int        // the most rows that one of these needed
}

// smallRuns is the number of small runs in a row after which runs are no longer filled up to the former size.
const smallRuns = 64

// take returns how many rows a run with n rows of requests has, n at least. The number is a power of two or most, so
// that it grows in few steps. row is the inputs' other dimensions. Where they change, the run is planned again anyway.
func (s *steadyRows) take(n int, row []int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 1 || n > s.most {
		return n
	}
	need := min(1<<bits.Len(uint(n-1)), s.most)
	if need >= s.rows || !slices.Equal(row, s.row) {
		s.rows, s.small, s.need = need, 0, 0
		s.row = append(s.row[:0], row...)
		return need
	}
	s.small++
	s.need = max(s.need, need)
	if s.small == smallRuns {
		s.rows, s.small, s.need = s.need, 0, 0
	}
	return s.rows
}

// failed lowers the limit after a run failed that was filled up to this number of rows, if its requests alone did not
// fail.
func (s *steadyRows) failed(rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = min(s.most, rows/2)
	s.rows = min(s.rows, s.most)
}

// takeRows sets how many rows the run of these requests has.
func (x *instance) takeRows(requests []*infer.Request) {
	rows := int(infer.Rows(requests))
	x.rows, x.fill = rows, 0
	if x.steady == nil {
		return
	}
	x.shape = x.shape[:0]
	for i := range x.m.inputs {
		if in := x.input(requests[0], i); in != nil && len(in.Shape) > 0 {
			x.shape = append(x.shape, in.Shape[1:]...)
		}
	}
	x.rows = x.steady.take(rows, x.shape)
	x.fill = x.rows - rows
}

// runUnfilled repeats a run that was filled up and failed, with the rows of the requests alone. The GPU may lack memory
// for more rows, or the model may not accept them.
func (x *instance) runUnfilled(ctx context.Context, b *infer.Batch, requests []*infer.Request) error {
	steady, rows := x.steady, x.rows
	x.steady = nil
	err := x.run(ctx, b, requests)
	x.steady = steady
	if err == nil {
		steady.failed(rows)
	}
	return err
}

// convolutions are the operators that ONNX Runtime plans for one shape.
var convolutions = []string{"Conv", "ConvTranspose", "FusedConv"}

// fillsRuns reports whether runs of a session at a place may have more rows than the requests. The rows of a model with
// dynamic batching do not depend on each other. Runs are not filled up if there are ragged or batch inputs, strings,
// states, or outputs that batch_output describes.
func (m *model) fillsRuns(where place) bool {
	if !where.gpu || !m.batched || m.spec.Config.GetDynamicBatching() == nil && !m.fillAll {
		return false
	}
	if _, tensorRT, err := gpuOptions(m.spec.Config, where.device); err != nil || tensorRT != nil {
		return false
	}
	for i := range m.inputs {
		if p := &m.inputs[i]; p.ragged || p.batchInput != nil || p.dt == tensor.Bytes {
			return false
		}
	}
	for i := range m.outputs {
		if p := &m.outputs[i]; p.split != nil || p.state {
			return false
		}
	}
	return m.fillAll || slices.ContainsFunc(convolutions, func(op string) bool { return m.info.Ops[op] > 0 })
}

// steady returns what chooses the rows of a session's runs, nil if runs are not filled up. All instances of the session
// get the same.
func (m *model) steady(s *capi.Session, where place) *steadyRows {
	if !m.fillsRuns(where) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[s]
	if r == nil {
		r = &steadyRows{most: int(m.spec.Config.GetMaxBatchSize())}
		m.rows[s] = r
	}
	return r
}
