package tunecmd

import (
	"time"

	"nereid/app/tune"
	"nereid/engine/device"
	"nereid/engine/system/proc"
)

// consumption is what a process and its descendants use. Figures that the system does not report are zero.
type consumption struct {
	pid        int
	begin, end time.Time
	first      float64 // CPU seconds at begin
	last       float64 // and at end
	memory     int64   // bytes at most
	left       int64   // the fewest bytes that the machine had left
}

func newConsumption(pid int) *consumption {
	u := &consumption{pid: pid, end: time.Now()}
	u.sample()
	u.begin, u.first, u.memory, u.left = u.end, u.last, 0, 0
	return u
}

// sample reads what is used now.
func (u *consumption) sample() {
	now, err := proc.Tree(u.pid)
	if err != nil {
		return // the process has exited, which the caller finds out
	}
	u.last, u.end = now.CPU, time.Now()
	var memory int64
	for _, p := range now.Processes {
		memory += proc.Memory(p)
	}
	u.memory = max(u.memory, memory)
	if left := device.Host().Free; u.left == 0 || left < u.left {
		u.left = left
	}
}

// The system counts CPU time in steps of cpuStep. In less than cpuLeast a step too many or too few changes the figure
// by more than a tenth of a core.
const (
	cpuStep  = 10 * time.Millisecond
	cpuLeast = 100 * time.Millisecond
)

// measurement returns the figures since the begin.
func (u *consumption) measurement() tune.Measurement {
	m := tune.Measurement{Memory: u.memory, AvailableMemory: u.left}
	wall, used := u.end.Sub(u.begin), max(0, u.last-u.first)
	if m.CPUUnknown = wall < cpuLeast; m.CPUUnknown {
		used += cpuStep.Seconds()
	}
	m.CPU = used / max(wall, cpuStep).Seconds()
	return m
}
