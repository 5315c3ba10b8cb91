package device

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cards is a machine whose cards have the figures that a test sets.
type cards struct {
	gpus   []GPU
	figure map[string]Reading
	err    error
	reads  int
}

func (c *cards) GPUs() ([]GPU, error) { return c.gpus, c.err }
func (c *cards) Close() error         { return nil }
func (c *cards) Read(uuid string) (Reading, error) {
	c.reads++
	r, ok := c.figure[uuid]
	if !ok {
		return r, errors.New("lost")
	}
	return r, nil
}

// four is a machine with a card of each of these capabilities.
func four(capabilities ...float64) *cards {
	c := &cards{figure: map[string]Reading{}}
	for i, v := range capabilities {
		g := GPU{UUID: fmt.Sprintf("GPU-%x%x-0", i/2, i), Name: "card", Major: int(v), Minor: int(v*10+0.5) % 10,
			MemoryBytes: 1 << 30}
		c.gpus = append(c.gpus, g)
		c.figure[g.UUID] = Reading{}
	}
	return c
}

func TestVisibleGPUs(t *testing.T) {
	set := func(s string) *string { return &s }
	for _, tt := range []struct {
		name    string
		visible *string
		least   float64
		want    string // index:physical
		warns   string
	}{
		{name: "all", want: "0:0 1:1 2:2 3:3"},
		{name: "C059 H090 CUDA_VISIBLE_DEVICES renumbers", visible: set("2,0"), want: "0:2 1:0"},
		{name: "C059 by UUID, and its beginning", visible: set("GPU-13-0, GPU-00"), want: "0:3 1:0"},
		{name: "none", visible: set(""), want: ""},
		{name: "ended by -1", visible: set("1,-1,2"), want: "0:1"},
		{name: "what comes after an unknown one is not seen", visible: set("1,9,2"), want: "0:1",
			warns: `none of the 4 GPUs`},
		{name: "a word", visible: set("x"), want: "", warns: `none of the 4 GPUs`},
		{name: "one twice hides all", visible: set("1,1"), want: "", warns: "named twice"},
		{name: "a beginning that fits two", visible: set("GPU-0"), want: "", warns: "fits several"},
		{name: "a part of a card", visible: set("MIG-x"), want: "", warns: "whole GPUs"},
		{name: "C068 too old ones are left alone, and keep their numbers", least: 7.5, want: "1:1 2:2",
			warns: "below --min-supported-compute-capability"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			m, err := NewMachine(Options{Driver: four(6.1, 7.5, 9.0, 5.2), Visible: tt.visible, MinCapability: tt.least,
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range m.GPUs() {
				got = append(got, fmt.Sprintf("%d:%d", g.Index, g.Physical))
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("GPUs %s, want %s", s, tt.want)
			}
			if tt.warns == "" && strings.Contains(log.String(), "WARN") || !strings.Contains(log.String(), tt.warns) {
				t.Errorf("log %s, want %q", &log, tt.warns)
			}
		})
	}
	if _, err := NewMachine(Options{Driver: &cards{err: errors.New("no")}}); err == nil {
		t.Error("cards that cannot be listed pass")
	}
	var none *Machine
	if r, errs := none.Readings(); none.IDs() != nil || r != nil || errs != nil || none.Close() != nil ||
		none.MinCapability() != 6 {
		t.Error("no machine has GPUs")
	}
}

func TestReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := four(8)
		id := c.gpus[0].UUID
		c.figure[id] = Reading{Energy: 1000, MemoryUsed: 1, MemoryTotal: 4, Known: HasEnergy | HasMemory}
		m, err := NewMachine(Options{Driver: c, ReadEvery: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		energy := func(joules float64) float64 {
			c.figure[id] = Reading{Energy: joules, Known: HasEnergy}
			time.Sleep(time.Second)
			r, errs := m.Readings()
			if errs[0] != nil {
				t.Error(errs[0])
			}
			return r[0].Energy
		}
		if share, ok := m.MemoryShare(0); share != 0.25 || !ok {
			t.Errorf("MemoryShare = %v, %v; want a quarter", share, ok)
		}
		if _, ok := m.MemoryShare(1); ok {
			t.Error("a card that is not there has memory")
		}
		if got := energy(1250); got != 250 {
			t.Errorf("energy %v J, want the 250 since the start", got)
		}
		before := c.reads
		for range 10 {
			m.Readings()
		}
		if c.reads != before {
			t.Error("read again although no time has passed")
		}
		delete(c.figure, id)
		for range 3 { // logged once
			time.Sleep(time.Second)
			if _, errs := m.Readings(); errs[0] == nil {
				t.Error("a lost card is read")
			}
		}
		if n := strings.Count(log.String(), "cannot be reached"); n != 1 {
			t.Errorf("it is logged %d times: %s", n, &log)
		}
		if energy(1300) != 300 || !strings.Contains(log.String(), "reached again") {
			t.Errorf("a GPU that is back is not logged: %s", &log)
		}
		if got := energy(5); got != 0 {
			t.Errorf("energy %v J after the driver was loaded again", got)
		}
	})
}

// hanging is a driver whose reads wait while gate is not nil.
type hanging struct {
	*cards
	mu   sync.Mutex
	gate chan struct{}
}

func (h *hanging) Read(uuid string) (Reading, error) {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return h.cards.Read(uuid)
}

func (h *hanging) set(gate chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = gate
}

// A driver that hangs holds up a caller for a second, and one call of the driver is under way.
func TestADriverThatHangsIsLeftAlone_F9(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := &hanging{cards: four(8)}
		h.figure[h.gpus[0].UUID] = Reading{Known: HasUtilization, Utilization: 0.5}
		m, err := NewMachine(Options{Driver: h, ReadEvery: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		h.set(gate)
		time.Sleep(time.Second)
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				for range 3 {
					begin := time.Now()
					r, errs := m.Readings()
					took := time.Since(begin)
					if took > time.Second || len(r) != 1 || errs[0] == nil || r[0].Known != 0 {
						t.Errorf("after %v: %v, %v; want an error within a second", took, r, errs)
					}
					time.Sleep(time.Second)
				}
			})
		}
		callers.Wait()
		h.set(nil)
		close(gate)
		time.Sleep(2 * time.Second)
		if r, errs := m.Readings(); errs[0] != nil || r[0].Utilization != 0.5 || h.reads != 3 {
			t.Errorf("afterwards: %v, %v after %d calls; want the third", r, errs, h.reads)
		}
		if n := strings.Count(log.String(), "cannot be reached"); n != 1 ||
			!strings.Contains(log.String(), "reached again") {
			t.Errorf("the log says %s", &log)
		}
	})
}
