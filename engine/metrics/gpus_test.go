package metrics

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"nereid/engine/device"
)

type twoCards struct{ lost bool }

func (twoCards) GPUs() ([]device.GPU, error) {
	return []device.GPU{{UUID: "GPU-a", Name: "A", Major: 8}, {UUID: "GPU-b", Name: "B", Major: 8}}, nil
}
func (twoCards) Close() error { return nil }
func (c twoCards) Read(uuid string) (device.Reading, error) {
	if uuid == "GPU-b" && c.lost {
		return device.Reading{}, errors.New("lost")
	}
	r := device.Reading{Utilization: 0.5, MemoryUsed: 1000, MemoryTotal: 4000, Power: 58.954, PowerLimit: 300,
		Energy: 7, Temperature: 41, Known: 63}
	if uuid == "GPU-b" {
		r.Known &^= device.HasEnergy
	}
	return r, nil
}

func TestGPUMetrics(t *testing.T) {
	text := func(c twoCards, visible string) string {
		m, err := device.NewMachine(device.Options{Driver: c, Visible: &visible, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Options{Source: threeRequests(), GPUs: m, Proc: procFolder(t),
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Append(nil))
	}
	has := func(t *testing.T, text string, lines ...string) {
		for _, l := range lines {
			if !strings.Contains(text, l+"\n") {
				t.Errorf("no line %q in\n%s", l, text)
			}
		}
	}
	both := text(twoCards{}, "1,0")
	t.Run("E019 nv_gpu_utilization", func(t *testing.T) {
		has(t, both, "# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)", "# TYPE nv_gpu_utilization gauge",
			`nv_gpu_utilization{gpu_uuid="GPU-a"} 0.5`, `nv_gpu_utilization{gpu_uuid="GPU-b"} 0.5`)
	})
	t.Run("E020 nv_gpu_memory", func(t *testing.T) {
		has(t, both, `nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 4000`,
			`nv_gpu_memory_used_bytes{gpu_uuid="GPU-b"} 1000`)
	})
	t.Run("E021 nv_gpu_power", func(t *testing.T) {
		has(t, both, `nv_gpu_power_usage{gpu_uuid="GPU-a"} 58.954`, `nv_gpu_power_limit{gpu_uuid="GPU-a"} 300`)
	})
	t.Run("E022 nv_energy_consumption since the start, of GPUs that report it", func(t *testing.T) {
		has(t, both, "# TYPE nv_energy_consumption counter", `nv_energy_consumption{gpu_uuid="GPU-a"} 0`)
		if strings.Contains(both, `nv_energy_consumption{gpu_uuid="GPU-b"}`) {
			t.Error("a figure that a card does not tell is written")
		}
	})
	t.Run("numbers of models and of the machine", func(t *testing.T) {
		has(t, both, `nereid_gpu_info{gpu_uuid="GPU-b",gpu="0",physical_gpu="1",name="B"} 1`,
			`nereid_gpu_temperature_celsius{gpu_uuid="GPU-b"} 41`)
	})
	t.Run("C072 a card that is lost", func(t *testing.T) {
		lost := text(twoCards{lost: true}, "0,1")
		has(t, lost, `nereid_gpu_info{gpu_uuid="GPU-b",gpu="1",physical_gpu="1",name="B"} 0`,
			`nv_gpu_utilization{gpu_uuid="GPU-a"} 0.5`)
		if strings.Contains(lost, `nv_gpu_utilization{gpu_uuid="GPU-b"}`) {
			t.Error("a lost card has figures")
		}
	})
	t.Run("without GPUs there are no families of them", func(t *testing.T) {
		if none := text(twoCards{}, ""); strings.Contains(none, "gpu") {
			t.Errorf("metrics without GPUs:\n%s", none)
		}
	})
}
