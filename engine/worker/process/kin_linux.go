package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"nereid/engine/system/proc"
)

// The processes that a model's process has started, its kin, must end with it, also in another session or process
// group. They are found in two ways. Children inherit the variable idVar. A process that was started with another
// environment is found as a descendant, if it still is one when the server kills the model's process.

// idVar names a process and all that it starts: the launcher's id, which no other launcher has, and a number.
const idVar = "NEREID_PROCESS_ID"

func (l *Launcher) newID() string { return l.id + "-" + strconv.FormatUint(l.last.Add(1), 10) }

// kin is a process. Its start time distinguishes it from a later process of the same number.
type kin struct {
	pid   int
	start int64
}

// NoteKin notes the descendants of the process, which is about to be killed. They are killed after it.
func (p *Process) NoteKin() {
	found := descendants(p.PID, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kin = append(p.kin, found...)
}

// descendants adds the children of a process, and theirs, to all.
func descendants(pid int, all []kin) []kin {
	folder := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := os.ReadDir(folder)
	if err != nil {
		return all // it has ended
	}
	for _, t := range tasks {
		b, err := os.ReadFile(folder + "/" + t.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(f)
			if start := startTime(child); err == nil && start != 0 {
				all = descendants(child, append(all, kin{child, start}))
			}
		}
	}
	return all
}

// startTime returns when a process was started, see proc.Stat; 0: there is none.
func startTime(pid int) int64 {
	s, err := proc.ReadStat("/proc", strconv.Itoa(pid))
	if err != nil {
		return 0
	}
	return s.Start
}

// killKin kills what the process has started and still runs. The process itself has ended.
func (p *Process) killKin() {
	p.mu.Lock()
	for _, k := range p.kin {
		killIf(k.pid, func() bool { return startTime(k.pid) == k.start })
	}
	p.kin = nil
	p.mu.Unlock()
	mark := []byte("\x00" + idVar + "=" + p.id + "\x00")
	for range 10 { // what is killed may just have started another one
		if !killMarked(mark, p.PID) {
			return
		}
	}
}

// killMarked kills the processes whose environment contains mark, except for one. It reports whether there was any.
func killMarked(mark []byte, except int) (found bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == except {
			continue
		}
		marked := func() bool {
			environ, err := os.ReadFile("/proc/" + e.Name() + "/environ") // empty for a zombie
			return err == nil && bytes.Contains(append([]byte{0}, environ...), mark)
		}
		if marked() {
			found = true
			killIf(pid, marked)
		}
	}
	return found
}

// killIf kills a process if is, which looks at the process of this number, says so. os.FindProcess opens a pidfd before
// that, so that a later process of the same number is not killed. A kernel without pidfds has a moment for this.
func killIf(pid int, is func() bool) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = p.Release() }() // it only closes the pidfd
	if is() {
		_ = p.Kill() // an error: it has ended
	}
}
