package onnxruntime_test

import (
	"errors"
	"path/filepath"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// What is kept is for the next run. Loads and unloads leave nothing there: no run of them would start the timer.
func TestWeightsAreNotKeptForRuns(t *testing.T) {
	b := open(t)
	capi.Trim()
	s := mlpSpec()
	s.Config.Parameters = map[string]*inferencepb.ModelParameter{"intra_op_thread_count": {StringValue: "2"}}
	m, err := b.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	kept := func(what string) {
		if bytes, _ := capi.Kept(); bytes != 0 {
			t.Errorf("%s leaves %d bytes", what, bytes)
		}
	}
	kept("a load")
	var all []backend.Instance
	for range 2 { // the second one has its own session
		inst, err := m.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, inst)
	}
	kept("a session")
	for _, inst := range all {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	}
	kept("the end of a session")
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// What is kept is also for the runs of other models, so the end of one model leaves it there.
func TestMemoryOfRunsIsKeptUntilTheLastModelEnds(t *testing.T) {
	b := open(t)
	capi.Trim()
	other, err := b.Load(t.Context(), mlpSpec())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("another model", func(t *testing.T) {
		h := newHarness(t, filepath.Join("..", "..", "..", "models-sample", "digits"),
			config(16, []tensorIO{{"image", tensor.FP32, []int64{1, 28, 28}}},
				[]tensorIO{{"scores", tensor.FP32, []int64{10}}}),
			tensor.Tensor{Name: "image", DataType: tensor.FP32, Shape: []int64{1, 1, 28, 28},
				Data: make([]byte, 28*28*4)}, 16)
		h.once(t.Context(), t)
	}) // its model is closed
	if bytes, _ := capi.Kept(); bytes == 0 {
		t.Error("the end of a model frees what is kept for the others")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if bytes, _ := capi.Kept(); bytes != 0 {
		t.Errorf("the end of the last model leaves %d bytes", bytes)
	}
}

// The weights of a model on GPUs are there, so its file says nothing about the memory of the host.
func TestHostMemoryOfModelsOnGPUs(t *testing.T) {
	for kind, want := range map[inferencepb.ModelInstanceGroup_Kind]int64{
		inferencepb.ModelInstanceGroup_KIND_GPU: 0, inferencepb.ModelInstanceGroup_KIND_CPU: -1,
	} {
		o := fakeGPUs(t, 1<<20, 1<<20)
		s := gpuMemoryModels()[0].spec(t)
		s.Config.InstanceGroup = []*inferencepb.ModelInstanceGroup{{Kind: kind, Count: 1}}
		m, err := o.b.Load(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := m.NewInstance(t.Context(), backend.Placement{Name: "m_0_0", Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		if n := m.(backend.MemoryReporter).MemoryBytes(); n != want {
			t.Errorf("%s: %d bytes, want %d", kind, n, want)
		}
		if err := errors.Join(inst.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}
