package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// streamer is a backend whose models answer n with n responses, and an empty final one; from the third on, with an
// error if N is 13. Its model keeps memory that it reports.
type streamer struct{}

func (streamer) Name() string           { return "streamer" }
func (streamer) Traits() backend.Traits { return backend.Traits{} }

func (streamer) Load(context.Context, backend.Spec) (backend.Model, error) { return streamer{}, nil }

func (streamer) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return streamer{}, nil
}
func (streamer) Close() error                     { return nil }
func (streamer) MemoryBytes() int64               { return 12345 }
func (streamer) DeviceMemoryBytes() map[int]int64 { return map[int]int64{1: 77, 0: 66} }

func (streamer) Execute(_ context.Context, b *infer.Batch) error {
	for _, r := range b.Requests {
		n := numbers(r.Inputs[0].Data)[0]
		for i := range n {
			if n == 13 && i == 2 {
				r.Fail(status.New(status.Internal, "unlucky"))
				break
			}
			resp := r.NewResponse()
			resp.AddOutput("OUT", tensor.Int32, []int64{1}, words(i), nil)
			if err := r.Respond(resp); err != nil {
				return err
			}
		}
		if !r.Answered() {
			resp := r.NewResponse()
			resp.Final = true
			if err := r.Respond(resp); err != nil {
				return err
			}
		}
	}
	return nil
}

const streamerConfig = `backend: "streamer"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1, 1 ] reshape { shape: [ 1 ] } }
`

func TestResponseStatistics_E034_I011(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/s/config.pbtxt", streamerConfig)
	write(t, root+"/s/1/.keep", "")
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: []backend.Backend{streamer{}}},
	})
	send := func(n int32) (count int) {
		r := infer.New()
		defer r.Release()
		r.ModelName = "s"
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{1},
			Data: words(n)})
		if err := e.Infer(t.Context(), r); err != nil {
			t.Fatal(err, e.StartFailures())
		}
		for {
			resp, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range resp.Outputs {
				if count++; !slices.Equal(o.Shape, []int64{1, 1}) {
					t.Errorf("response %d has the shape %v, want that of the configuration", count, o.Shape)
				}
			}
			final := resp.Final
			resp.Release()
			if final {
				return count
			}
		}
	}
	for _, n := range []int32{3, 1, 0, 13} {
		if got, want := send(n), map[int32]int{3: 3, 1: 1, 0: 0, 13: 2}[n]; got != want {
			t.Fatalf("%d gave %d responses, want %d", n, got, want)
		}
	}
	for range 2 {
		send(1100) // longer than what is counted by place
	}
	s, err := e.ModelStatistics("s", -1)
	if err != nil {
		t.Fatal(err)
	}
	m := s.GetModelStats()[0]
	t.Run("E034 each place in the streams has its counts", func(t *testing.T) {
		for key, want := range map[string]string{
			"0": "success 5 fail 0 empty 1 infer 5 output 5", "1": "success 4 fail 0 empty 1 infer 4 output 4",
			"2": "success 3 fail 1 empty 0 infer 4 output 4",
			"3": "success 2 fail 0 empty 1 infer 2 output 2", "1023": "success 2 fail 0 empty 0 infer 2 output 2",
			"1024": "success 0 fail 0 empty 0 infer 0 output 0",
		} {
			r := m.GetResponseStats()[key]
			got := fmt.Sprintf("success %d fail %d empty %d infer %d output %d", r.GetSuccess().GetCount(),
				r.GetFail().GetCount(), r.GetEmptyResponse().GetCount(),
				r.GetComputeInfer().GetCount(), r.GetComputeOutput().GetCount())
			if got != want || r.GetSuccess().GetCount() > 0 &&
				(r.GetSuccess().GetNs() == 0 || r.GetSuccess().GetNs() > uint64(1e12)) {
				t.Errorf("place %s: %s in %d ns, want %s", key, got, r.GetSuccess().GetNs(), want)
			}
		}
		if len(m.GetResponseStats()) != 1024 {
			t.Errorf("%d places are counted", len(m.GetResponseStats()))
		}
	})
	t.Run("E034 a model that gives one response has none", func(t *testing.T) {
		id := start(t, engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: []string{ensembles(t)}},
		})
		r := diamond("word", 1, "INPUT0")
		defer r.Release()
		if _, err := all(t, id, r); err != nil {
			t.Fatal(err)
		}
		s, err := id.ModelStatistics("word", -1)
		if err != nil || len(s.GetModelStats()[0].GetResponseStats()) != 0 ||
			len(s.GetModelStats()[0].GetMemoryUsage()) != 0 {
			t.Errorf("statistics %v, %v", s, err)
		}
		stream := infer.New()
		defer stream.Release()
		stream.ModelName = "stream"
		stream.Inputs = append(stream.Inputs,
			tensor.Tensor{Name: "N", DataType: tensor.Int32, Shape: []int64{1}, Data: words(2)})
		if _, err := all(t, id, stream); err != nil {
			t.Fatal(err)
		}
		s, err = id.ModelStatistics("stream", -1)
		if err != nil {
			t.Fatal(err)
		}
		got := s.GetModelStats()[0].GetResponseStats()
		if slices.Sorted(maps.Keys(got))[0] != "0" || got["0"].GetSuccess().GetCount() != 1 ||
			got["1"].GetSuccess().GetCount() != 1 || got["0"].GetSuccess().GetNs() > 1e12 {
			t.Errorf("a decoupled ensemble has %v", got)
		}
	})
	t.Run("E011 how long its load took", func(t *testing.T) {
		if s := e.Snapshots(nil); len(s) != 1 || s[0].LoadTime <= 0 || s[0].LoadTime > time.Minute {
			t.Errorf("snapshots %+v", s)
		}
	})
	t.Run("E035 memory by kind, as the backend reports it", func(t *testing.T) {
		var got []string
		for _, u := range m.GetMemoryUsage() {
			got = append(got, fmt.Sprint(u.GetType(), " ", u.GetId(), " ", u.GetByteSize()))
		}
		if s := strings.Join(got, ", "); s != "CPU 0 12345, GPU 0 66, GPU 1 77" {
			t.Errorf("memory usage %s", s)
		}
	})
}
