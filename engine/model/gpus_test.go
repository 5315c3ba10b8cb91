package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// fullCard is a machine with one GPU. share is the part of its memory that is in use; below 0 it cannot be read.
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
		{"above the limit", gpu, 0.6, map[int]float64{0: 0.5},
			"memory limit set for GPU 0 has exceeded, model loading is rejected: 60 % is in use and the limit is 50 %"},
		{"no limit", gpu, 0.9, nil, ""},
		{"a limit for another", gpu, 0.9, map[int]float64{1: 0.5}, ""},
		{"on the CPU", cpu, 0.9, map[int]float64{0: 0.5}, ""},
		{"a card that cannot be read", gpu, -1, map[int]float64{0: 0.5}, "the memory of GPU 0 cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machine, err := device.NewMachine(device.Options{Driver: fullCard(tt.used),
				Log: slog.New(slog.DiscardHandler)})
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

// meter is a machine with two GPUs. A test sets how much memory loads take and what the driver knows of processes.
type meter struct {
	mu        sync.Mutex
	used      [2]uint64
	processes map[int]uint64 // of GPU 1; nil: the driver does not report them
}

func (*meter) GPUs() ([]device.GPU, error) {
	return []device.GPU{{UUID: "0", Major: 8}, {UUID: "1", Major: 8}}, nil
}
func (*meter) Close() error { return nil }
func (d *meter) Read(uuid string) (device.Reading, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return device.Reading{MemoryUsed: d.used[uuid[0]-'0'], MemoryTotal: 1 << 20, Known: device.HasMemory}, nil
}
func (d *meter) Processes(uuid string) (map[int]uint64, error) {
	if d.processes == nil || uuid != "1" {
		return nil, device.ErrNotReported
	}
	return d.processes, nil
}

// greedy is a backend whose instances take memory of their GPU.
type greedy struct {
	backend.Backend
	machine *meter
	wrap    func(backend.Model) backend.Model
}

func (g greedy) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	m, err := g.Backend.Load(ctx, s)
	if err != nil {
		return nil, err
	}
	return g.wrap(greedyModel{m, g.machine}), nil
}

type greedyModel struct {
	backend.Model
	machine *meter
}

func (m greedyModel) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	if p.Kind == inferencepb.ModelInstanceGroup_KIND_GPU {
		m.machine.mu.Lock()
		m.machine.used[p.Device] += 1000
		m.machine.mu.Unlock()
		p.Kind, p.Device = inferencepb.ModelInstanceGroup_KIND_CPU, 0
	}
	return m.Model.NewInstance(ctx, p)
}

type allocating struct {
	backend.Model
	bytes map[int]int64
}

func (m allocating) DeviceMemoryBytes() map[int]int64 { return m.bytes }

type owning struct{ backend.Model }

func (owning) Processes() []backend.Process {
	return []backend.Process{{Instance: "m_0", PID: syscall.Getpgrp()}, {Instance: "m_1"}}
}

func TestMemoryOfGPUs(t *testing.T) {
	const both = `instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]`
	plain := func(m backend.Model) backend.Model { return m }
	mine := map[int]uint64{syscall.Getpid(): 70}
	for _, tt := range []struct {
		name      string
		group     string
		wrap      func(backend.Model) backend.Model
		processes map[int]uint64
		disturbed bool // another load is under way
		want      map[int]int64
		source    MemorySource
	}{
		{"not reported: by how much it grew", both, plain, nil, false, map[int]int64{0: 2000, 1: 2000}, FromDifference},
		{"another load at the same time: its files", both, plain, nil, true, map[int]int64{0: 3, 1: 3}, FromFiles},
		{"the allocator", both, func(m backend.Model) backend.Model {
			return allocating{m,
				map[int]int64{0: 11, 1: 12}}
		}, nil, true,
			map[int]int64{0: 11, 1: 12}, FromAllocator},
		{"the allocator of one", both, func(m backend.Model) backend.Model {
			return allocating{m,
				map[int]int64{0: 11}}
		}, nil, false,
			map[int]int64{0: 11, 1: 2000}, FromDifference},
		{"an allocator that does not tell", both, func(m backend.Model) backend.Model { return allocating{m, nil} },
			nil, false,
			map[int]int64{0: 2000, 1: 2000}, FromDifference},
		{"its processes", `instance_group { kind: KIND_GPU gpus: 1 }`,
			func(m backend.Model) backend.Model { return owning{m} }, mine, true,
			map[int]int64{1: 70}, FromProcess},
		{"its processes, from instances on no GPU", `instance_group { kind: KIND_CPU }`,
			func(m backend.Model) backend.Model { return owning{m} }, mine, false,
			map[int]int64{1: 70}, FromProcess},
		{"a driver that does not know them", `instance_group { kind: KIND_GPU gpus: 1 }`,
			func(m backend.Model) backend.Model { return owning{m} }, nil, false,
			map[int]int64{1: 1000}, FromDifference},
		{"on the CPU", `instance_group { kind: KIND_CPU }`, plain, nil, false, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &meter{processes: tt.processes}
			machine, err := device.NewMachine(device.Options{Driver: d, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if tt.disturbed {
				defer machine.Watch([]int{0, 1}).End()
			}
			folder := t.TempDir()
			if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "1", "file"), []byte("abc"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := spec(config(t, `backend: "identity" `+tt.group), folder, greedy{builtin.Identity(), d, tt.wrap})
			s.Machine = machine
			m := serve(t, s)
			if got := m.Memory(); !maps.Equal(got.GPU, tt.want) || got.GPUSource != tt.source {
				t.Errorf("%v from %q, want %v from %q", got.GPU, got.GPUSource, tt.want, tt.source)
			}
		})
	}
}

// Instances that are added while the model serves are counted; those on a GPU that it no longer uses are not.
func TestMemoryOfGPUsFollowsInstances(t *testing.T) {
	d := &meter{}
	machine, err := device.NewMachine(device.Options{Driver: d, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	group := func(count int, gpus string) *inferencepb.ModelConfig {
		return config(t, fmt.Sprintf(`backend: "identity" instance_group { count: %d kind: KIND_GPU gpus: [ %s ] }`,
			count, gpus))
	}
	s := spec(group(1, "0"), t.TempDir(),
		greedy{builtin.Identity(), d, func(m backend.Model) backend.Model { return m }})
	s.Machine = machine
	m := serve(t, s)
	for _, step := range []struct {
		count int
		gpus  string
		want  map[int]int64
	}{
		{3, "0", map[int]int64{0: 3000}},
		{3, "0, 1", map[int]int64{0: 3000, 1: 3000}},
		{3, "1", map[int]int64{1: 3000}},
	} {
		if err := m.Resize(t.Context(), group(step.count, step.gpus)); err != nil {
			t.Fatal(err)
		}
		if got := m.Memory(); !maps.Equal(got.GPU, step.want) || got.GPUSource != FromDifference {
			t.Errorf("%d on %s: %v from %q, want %v", step.count, step.gpus, got.GPU, got.GPUSource, step.want)
		}
	}
}
