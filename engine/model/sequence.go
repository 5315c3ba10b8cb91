package model

import (
	"context"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/sched"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// sequencePolicy reads sequence_batching, and the files of initial states in the model's folder. Errors: InvalidArg for
// what is wrong with those.
func sequencePolicy(folder string, cfg *inferencepb.ModelConfig) (sched.SequencePolicy, error) {
	sb := cfg.GetSequenceBatching()
	p := sched.SequencePolicy{
		Slots: max(int(cfg.GetMaxBatchSize()), 1), MaxBatchSize: int(cfg.GetMaxBatchSize()),
		Batched: cfg.GetMaxBatchSize() > 0,
		Idle:    microseconds(sb.GetMaxSequenceIdleMicroseconds()), Iterative: sb.GetIterativeSequence(),
	}
	if o := sb.GetOldest(); o != nil {
		p.Oldest, p.PreserveOrdering = true, o.GetPreserveOrdering()
		p.MaxQueueDelay = microseconds(o.GetMaxQueueDelayMicroseconds())
		if n := int(o.GetMaxCandidateSequences()); n > 0 {
			p.Slots = n
		}
		for _, n := range o.GetPreferredBatchSize() {
			p.Preferred = append(p.Preferred, int(n))
		}
	} else if d := sb.GetDirect(); d != nil {
		p.MaxQueueDelay = microseconds(d.GetMaxQueueDelayMicroseconds())
		p.MinimumUtilization = float64(d.GetMinimumSlotUtilization())
	}
	p.Equal, p.SameInputs = equalInputs(cfg)
	for _, in := range sb.GetControlInput() {
		for _, c := range in.GetControl() {
			p.Controls = append(p.Controls, control(in.GetName(), c))
		}
	}
	for _, st := range sb.GetState() {
		one, err := stateSpec(folder, cfg, st)
		if err != nil {
			return p, err
		}
		p.States = append(p.States, one)
	}
	for _, in := range cfg.GetInput() {
		if slices.ContainsFunc(p.Controls, func(c sched.Control) bool { return c.Name == in.GetName() }) ||
			slices.ContainsFunc(p.States, func(st infer.StateSpec) bool { return st.Input == in.GetName() }) {
			p.Shadowed = append(p.Shadowed, in.GetName())
		}
	}
	return p, nil
}

// control reads one control. The configuration is valid.
func control(name string, c *inferencepb.ModelSequenceBatching_Control) sched.Control {
	out := sched.Control{Name: name}
	switch c.GetKind() {
	case inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_START:
		out.Kind = sched.ControlStart
	case inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END:
		out.Kind = sched.ControlEnd
	case inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_READY:
		out.Kind = sched.ControlReady
	case inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID:
		out.Kind, out.DataType = sched.ControlCorrelationID, tensor.DataType(c.GetDataType())
	}
	switch i, f, b := c.GetInt32FalseTrue(), c.GetFp32FalseTrue(), c.GetBoolFalseTrue(); {
	case len(i) == 2:
		out.DataType = tensor.Int32
		out.False, out.True = word(uint32(i[0])), word(uint32(i[1]))
	case len(f) == 2:
		out.DataType = tensor.FP32
		out.False, out.True = word(math.Float32bits(f[0])), word(math.Float32bits(f[1]))
	case len(b) == 2:
		out.DataType = tensor.Bool
		out.False, out.True = flag(b[0]), flag(b[1])
	}
	return out
}

func word(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func flag(on bool) []byte {
	if on {
		return []byte{1}
	}
	return []byte{0}
}

// stateSpec reads one state. Without an initial_state it begins with zeros, its variable dimensions with 1.
func stateSpec(folder string, cfg *inferencepb.ModelConfig,
	st *inferencepb.ModelSequenceBatching_State) (infer.StateSpec, error) {
	out := infer.StateSpec{Input: st.GetInputName(), Output: st.GetOutputName(),
		DataType: tensor.DataType(st.GetDataType())}
	fail := func(format string, args ...any) (infer.StateSpec, error) {
		return out, status.Errorf(status.InvalidArg, "model '%s', state '%s': "+format,
			append([]any{cfg.GetName(), st.GetInputName()}, args...)...)
	}
	dims := st.GetDims()
	var init *inferencepb.ModelSequenceBatching_InitialState
	if all := st.GetInitialState(); len(all) > 0 {
		init = all[0]
		dims = init.GetDims()
	}
	if cfg.GetMaxBatchSize() > 0 {
		out.Shape = append(out.Shape, 1)
	}
	for _, d := range dims {
		if d < 0 {
			d = 1
		}
		out.Shape = append(out.Shape, d)
	}
	n, err := tensor.Elements(out.Shape)
	if err != nil {
		return fail("%w", err)
	}
	size := int64(out.DataType.Size())
	if out.DataType == tensor.Bytes {
		size = 4 // of an empty string: its length
	}
	if n > maxFile || n*size > maxFile {
		return fail("%d elements are larger than the %d bytes that an initial state may have", n, maxFile)
	}
	file, ok := init.GetStateData().(*inferencepb.ModelSequenceBatching_InitialState_DataFile)
	if !ok {
		out.Initial = make([]byte, n*size)
		return out, nil
	}
	if !filepath.IsLocal(file.DataFile) {
		return fail("data_file %q must be inside the model's initial_state folder", file.DataFile)
	}
	if out.Initial, err = readFile(folderOf(folder, "initial_state/"+file.DataFile)); err != nil {
		return fail("cannot read data_file: %w", err)
	}
	if out.DataType == tensor.Bytes {
		err = tensor.CheckBytes(out.Initial, n)
	} else if got := int64(len(out.Initial)); got < n*size {
		err = status.Errorf(status.InvalidArg,
			"initial_state setting expects %d bytes, but the data provided from %s only has %d bytes.", n*size,
			file.DataFile, got)
	} else {
		out.Initial = out.Initial[:n*size]
	}
	if err != nil {
		return fail("%w", err)
	}
	return out, nil
}

// Sequenced reports whether the model has a sequence batcher.
func (m *Model) Sequenced() bool { return m.sequences != nil }

// AcquireSequence is Acquire for a request that continues a sequence: also a model that refuses new requests takes it,
// while it holds the sequence.
func (m *Model) AcquireSequence(id infer.CorrelationID) bool {
	if m.sequences == nil || !m.sequences.Continues(id) {
		return false
	}
	m.inflight.Add(1)
	return true
}

// HoldsRoaming reports whether the model holds a sequence that a request without a version has started.
func (m *Model) HoldsRoaming(id infer.CorrelationID) bool {
	return m.sequences != nil && m.sequences.Roams(id)
}

// EndSequence ends a sequence after the requests of it that the model has: it starts again on another model.
func (m *Model) EndSequence(id infer.CorrelationID) {
	if m.sequences != nil {
		m.sequences.EndSequence(id)
	}
}

// Linger refuses new requests, except those of the sequences that the model holds, and waits until these have ended, or
// ctx. The caller then calls Close. For a model without sequences it returns at once.
func (m *Model) Linger(ctx context.Context) {
	m.shut()
	if m.sequences == nil {
		return
	}
	select {
	case <-m.drained: // a request admitted before may have begun a sequence
	case <-ctx.Done():
		return
	}
	_ = m.sequences.Wait(ctx) // its error is that of ctx; the caller closes the model in any case
}
