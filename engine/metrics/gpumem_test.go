package metrics

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"nereid/engine/gpumem"
)

// cards have memory at unused addresses.
type cards struct{}

func (cards) Pin(int) (uintptr, func() error, error) { return 4096, func() error { return nil }, nil }
func (cards) Allocate(int, int) (uintptr, func() error, error) {
	return 0, nil, errors.New("out of memory")
}
func (cards) Copy(int, []gpumem.Copy) error { return nil }
func (cards) Traffic() gpumem.Traffic       { return gpumem.Traffic{ToHost: 1, FromHost: 2, Within: 3} }

func TestGPUMemoryMetrics(t *testing.T) {
	text := func(o Options) string {
		o.Source, o.Proc, o.Log = threeRequests(), procFolder(t), slog.New(slog.DiscardHandler)
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Append(nil))
	}
	has := func(t *testing.T, text string, lines ...string) {
		t.Helper()
		for _, l := range lines {
			if !strings.Contains(text, l+"\n") {
				t.Errorf("no line %q in\n%s", l, text)
			}
		}
	}
	m := gpumem.New(gpumem.Options{Driver: cards{}, PinnedBytes: 4096, DeviceBytes: map[int]int64{1: 512},
		Log: slog.New(slog.DiscardHandler)})
	b := m.Pinned(gpumem.AnyNode, 300)
	m.Pinned(gpumem.AnyNode, 4096)
	m.Device(1, 100)
	m.Bound(false, 10)
	m.Bound(true, 20)
	t.Run("C070 E025 the pool of pinned memory", func(t *testing.T) {
		has(t, text(Options{GPUMemory: m, PinnedBytes: 4096}), "# TYPE nv_pinned_memory_pool_total_bytes gauge",
			"nv_pinned_memory_pool_total_bytes 4096",
			"# TYPE nv_pinned_memory_pool_used_bytes gauge", "nv_pinned_memory_pool_used_bytes 512",
			"nereid_pinned_memory_pool_misses_total 1")
		b.Free()
		has(t, text(Options{GPUMemory: m}), "nv_pinned_memory_pool_used_bytes 0")
	})
	t.Run("E025 without a GPU, as Triton shows it", func(t *testing.T) {
		none := text(Options{PinnedBytes: 268435456})
		has(t, none, "nv_pinned_memory_pool_total_bytes 268435456", "nv_pinned_memory_pool_used_bytes 0")
		if strings.Contains(none, "nereid_cuda_") || strings.Contains(none, "nereid_pinned_") {
			t.Errorf("there are pools without a GPU:\n%s", none)
		}
	})
	t.Run("C071 the pools on GPUs, and the bytes copied in each direction", func(t *testing.T) {
		has(t, text(Options{GPUMemory: m}), `nereid_cuda_memory_pool_total_bytes{gpu="1"} 512`,
			`nereid_cuda_memory_pool_used_bytes{gpu="1"} 0`,
			`nereid_cuda_memory_pool_misses_total{gpu="1"} 1`, `nereid_cuda_bound_bytes_total{tensors="input"} 10`,
			`nereid_cuda_bound_bytes_total{tensors="output"} 20`,
			`nereid_cuda_copied_bytes_total{way="to_host"} 1`, `nereid_cuda_copied_bytes_total{way="from_host"} 2`,
			`nereid_cuda_copied_bytes_total{way="within"} 3`)
	})
}
