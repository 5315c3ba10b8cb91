package model

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"nereid/engine/backend/builtin"
	"nereid/engine/device"
	"nereid/engine/status"
)

// fullCard is a machine with one GPU of whose memory a share is in use; below 0 it cannot be read.
type fullCard float64

func (fullCard) GPUs() ([]device.GPU, error) { return []device.GPU{{UUID: "GPU-a", Major: 8}}, nil }
func (fullCard) Close() error                { return nil }
func (c fullCard) Read(string) (device.Reading, error) {
	if c < 0 {
		return device.Reading{}, errors.New("lost")
	}
	return device.Reading{MemoryUsed: uint64(float64(c) * 1000), MemoryTotal: 1000, Known: device.HasMemory}, nil
}

func TestModelLoadGPULimit_A073_H085(t *testing.T) {
	const gpu, cpu = `instance_group { count: 1 kind: KIND_GPU gpus: 0 }`, `instance_group { count: 1 kind: KIND_CPU }`
	for _, tt := range []struct {
		name, group string
		used        float64
		limits      map[int]float64
		want        string
	}{
		{"below the limit", gpu, 0.4, map[int]float64{0: 0.5}, ""},
		{"above the limit", gpu, 0.6, map[int]float64{0: 0.5}, "memory limit set for GPU 0 has exceeded, model loading is rejected: 60 % is in use and the limit is 50 %"},
		{"no limit", gpu, 0.9, nil, ""},
		{"a limit for another", gpu, 0.9, map[int]float64{1: 0.5}, ""},
		{"on the CPU", cpu, 0.9, map[int]float64{0: 0.5}, ""},
		{"a card that cannot be read", gpu, -1, map[int]float64{0: 0.5}, "the memory of GPU 0 cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machine, err := device.NewMachine(device.Options{Driver: fullCard(tt.used), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			s := spec(config(t, `backend: "identity" `+tt.group), t.TempDir(), builtin.Identity())
			s.Machine, s.GPULimits = machine, tt.limits
			m, err := Load(t.Context(), s)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := m.Close(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v, want Unavailable with %q", err, tt.want)
			}
		})
	}
}
