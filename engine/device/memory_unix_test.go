//go:build unix

package device

import (
	"errors"
	"log/slog"
	"maps"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// reporting is a driver that reports the memory of processes.
type reporting struct {
	*cards
	processes map[string]map[int]uint64
}

func (d reporting) Processes(uuid string) (map[int]uint64, error) {
	all, ok := d.processes[uuid]
	if !ok {
		return nil, ErrNotReported
	}
	return all, nil
}

func machine(t *testing.T, d Driver, visible string) *Machine {
	t.Helper()
	m, err := NewMachine(Options{Driver: d, Visible: &visible, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGroupMemory(t *testing.T) {
	// A process of another group, with a child, whose memory counts for the group.
	cmd := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leader := cmd.Process.Pid
	defer func() {
		if err := syscall.Kill(-leader, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}()
	child, b := 0, make([]byte, 1)
	for {
		if _, err := out.Read(b); err != nil {
			t.Fatal(err)
		}
		if b[0] == '\n' {
			break
		}
		child = 10*child + int(b[0]-'0')
	}
	own := syscall.Getpgrp()
	c := four(8, 8, 8, 8)
	d := reporting{c, map[string]map[int]uint64{
		c.gpus[0].UUID: {leader: 100, child: 20, syscall.Getpid(): 3, 1 << 30: 7},
		c.gpus[1].UUID: {syscall.Getpid(): 5},
		c.gpus[3].UUID: {child: 1},
	}}
	for _, tt := range []struct {
		name    string
		driver  Driver
		visible string
		groups  []int
		want    map[int]int64
	}{
		{"a group and what it started", d, "0,1,2,3", []int{leader}, map[int]int64{0: 120, 3: 1}},
		{"two groups", d, "0,1,2,3", []int{leader, own}, map[int]int64{0: 123, 1: 5, 3: 1}},
		{"by the numbers of this process", d, "3,0", []int{leader}, map[int]int64{0: 1, 1: 120}},
		{"of none", d, "0,1,2,3", nil, nil},
		{"a driver that knows no processes", c, "0,1", []int{leader}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := machine(t, tt.driver, tt.visible).GroupMemory(tt.groups); !maps.Equal(got, tt.want) {
				t.Errorf("GroupMemory(%v) = %v, want %v", tt.groups, got, tt.want)
			}
		})
	}
	if got := (*Machine)(nil).GroupMemory([]int{leader}); got != nil {
		t.Errorf("without GPUs: %v", got)
	}
	if _, err := d.Processes("GPU-x"); !errors.Is(err, ErrNotReported) {
		t.Error(err)
	}
}

// The memory of many models is read together, with one call of the driver.
func TestGroupMemoryIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := four(8)
		all := map[int]uint64{syscall.Getpid(): 5}
		m := machine(t, reporting{c, map[string]map[int]uint64{c.gpus[0].UUID: all}}, "0")
		group := []int{syscall.Getpgrp()}
		for _, want := range []int64{5, 5, 6} {
			if got := m.GroupMemory(group); got[0] != want {
				t.Errorf("GroupMemory = %v, want %d", got, want)
			}
			all[syscall.Getpid()] = 6
			time.Sleep(processInterval / 2)
		}
		all[syscall.Getpid()] = 7
		m.Watch(nil).End()
		if got := m.GroupMemory(group); got[0] != 7 {
			t.Errorf("GroupMemory = %v after a load, want 7", got)
		}
	})
}

func TestWatch(t *testing.T) {
	used := func(c *cards, gpu int, n uint64) {
		c.figure[c.gpus[gpu].UUID] = Reading{MemoryUsed: n, Known: HasMemory}
	}
	for _, tt := range []struct {
		name string
		run  func(c *cards, m *Machine) map[int]int64
		want map[int]int64
	}{
		{"a load alone", func(c *cards, m *Machine) map[int]int64 {
			w := m.Watch([]int{0, 1})
			used(c, 0, 150)
			return w.End()
		}, map[int]int64{0: 50, 1: 0}},
		{"another one on the same GPU, begun after", func(c *cards, m *Machine) map[int]int64 {
			w, other := m.Watch([]int{0, 1}), m.Watch([]int{1})
			used(c, 0, 150)
			used(c, 1, 150)
			other.End()
			return w.End()
		}, map[int]int64{0: 50}},
		{"another one, begun before", func(c *cards, m *Machine) map[int]int64 {
			other := m.Watch([]int{0})
			w := m.Watch([]int{0})
			other.End()
			used(c, 0, 150)
			return w.End()
		}, map[int]int64{}},
		{"one after the other", func(c *cards, m *Machine) map[int]int64 {
			m.Watch([]int{0}).End()
			w := m.Watch([]int{0})
			used(c, 0, 101)
			return w.End()
		}, map[int]int64{0: 1}},
		{"memory that others gave back", func(c *cards, m *Machine) map[int]int64 {
			w := m.Watch([]int{0})
			used(c, 0, 50)
			return w.End()
		}, map[int]int64{}},
		{"a card that is lost meanwhile", func(c *cards, m *Machine) map[int]int64 {
			w := m.Watch([]int{0})
			delete(c.figure, c.gpus[0].UUID)
			return w.End()
		}, map[int]int64{}},
		{"a card that does not tell", func(c *cards, m *Machine) map[int]int64 {
			c.figure[c.gpus[0].UUID] = Reading{}
			return m.Watch([]int{0}).End()
		}, map[int]int64{}},
		{"one that is not there", func(_ *cards, m *Machine) map[int]int64 { return m.Watch([]int{7}).End() },
			map[int]int64{}},
		{"no machine", func(_ *cards, _ *Machine) map[int]int64 { return (*Machine)(nil).Watch([]int{0}).End() },
			map[int]int64{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := four(8, 8)
			used(c, 0, 100)
			used(c, 1, 100)
			if got := tt.run(c, machine(t, c, "0,1")); !maps.Equal(got, tt.want) {
				t.Errorf("grown by %v, want %v", got, tt.want)
			}
		})
	}
}
