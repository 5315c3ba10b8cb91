package tunecmd

import (
	"time"

	"nereid/engine/device"
	"nereid/engine/system/proc"
)

// consumption is what a process and those that it started take; all zero where the system does not tell.
type consumption struct {
	pid        int
	begin, end time.Time
	first      float64 // seconds of processors, when it began
	last       float64
	memory     int64 // bytes at most
	left       int64 // bytes that the machine had left at least
}

func newConsumption(pid int) *consumption {
	u := &consumption{pid: pid, end: time.Now()}
	u.look()
	u.begin, u.first, u.memory, u.left = u.end, u.last, 0, 0
	return u
}

// look reads what is taken now.
func (u *consumption) look() {
	now, err := proc.Tree(u.pid)
	if err != nil {
		return // it has ended, which is found out elsewhere
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

// cores is how many were busy on average.
func (u *consumption) cores() float64 {
	if wall := u.end.Sub(u.begin); wall > 0 {
		return max(0, (u.last-u.first)/wall.Seconds())
	}
	return 0
}
