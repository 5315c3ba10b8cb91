package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/system/proc"
	"nereid/engine/worker/arena"
)

// Start starts a process with its arenas and pipes. Errors: NotFound when the program does not exist, Internal when it
// cannot be started, Unavailable after Close.
func (l *Launcher) Start(s Spec) (_ *Process, err error) {
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, status.Errorf(status.NotFound, "cannot start %s: %w", s.Command[0], errors.Unwrap(err))
	}
	p := &Process{launcher: l, oomKills: l.oom.before(), id: l.newID()}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	theirs, err := p.open(s.Arena)
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own
		}
	}()
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{
		Dir: s.Dir, Env: environment(Environ(os.Environ(), l.env), append(slices.Clone(s.Env), idVar+"="+p.id)),
		Files: append(slices.Clone(theirs), p.Down.File(), p.Up.File()),
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if derr := l.do(func() {
		err = l.withAffinity(&s, func() error { p.proc, err = startProcess(path, s.Command, attr); return err })
	}); derr != nil {
		return nil, derr
	}
	if err != nil {
		return nil, status.Errorf(status.Internal, "cannot start %s: %w", path, err)
	}
	p.PID = p.proc.Pid
	l.notifyGuard(p.PID, true)
	if err := p.limit(s.Limits); err != nil {
		p.killGroup()
		p.Wait()
		return nil, status.Errorf(status.Internal, "cannot limit what %s takes: %w", path, err)
	}
	return p, nil
}

// open makes the pipes, the socket and the memory, and returns the child's ends in the order of their descriptors,
// without the memory.
func (p *Process) open(size int64) (theirs []*os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, null)
	for i := range p.outputs {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		p.outputs[i] = r
		theirs = append(theirs, w)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return theirs, fmt.Errorf("socketpair: %w", err)
	}
	p.Socket = os.NewFile(uintptr(pair[0]), "worker")
	theirs = append(theirs, os.NewFile(uintptr(pair[1]), "worker"))
	if p.Down, err = arena.NewMapping("nereid-down", arena.TableSize+size); err != nil {
		return theirs, err
	}
	p.Up, err = arena.NewMapping("nereid-up", arena.TableSize+size)
	return theirs, err
}

// startProcess is os.StartProcess with retries while the program's file is open for writing. A file that was just
// unpacked is open for a moment in every child that another thread has forked but that has not called exec yet.
func startProcess(path string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	for wait := time.Millisecond; ; wait *= 2 {
		if p, err = os.StartProcess(path, argv, attr); !errors.Is(err, unix.ETXTBSY) || wait > time.Second {
			return p, err
		}
		time.Sleep(wait)
	}
}

// environment returns base with added, which replaces variables of the same name: programs use the first of two.
func environment(base, added []string) []string {
	var all []string
	for _, v := range base {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(added, func(a string) bool { return strings.HasPrefix(a, name+"=") }) {
			all = append(all, v)
		}
	}
	return append(all, added...)
}

// withAffinity runs start on this thread, the launcher's, while the thread has the host policy that the child inherits.
func (l *Launcher) withAffinity(s *Spec, start func() error) error {
	if !s.Affinity.Restricts() {
		return start()
	}
	before, err := affinity.Current()
	if err != nil {
		return err
	}
	memory, err := s.Affinity.Apply()
	if err == nil {
		if memory != nil {
			l.log.Warn("a host policy holds for cores alone", "instance", s.Name, "why", memory)
		}
		err = start()
	}
	if back := s.Affinity.Restore(before); back != nil {
		l.log.Error("processes started from now on keep to a host policy that is not theirs",
			"policy", s.Affinity.String(), "err", back)
	}
	return err
}

// limit sets the limits of the running process, which has not been called yet.
func (p *Process) limit(l Limits) error {
	set := func(what int, n uint64) error {
		return unix.Prlimit(p.PID, what, &unix.Rlimit{Cur: n, Max: n}, nil)
	}
	errs := []error{set(unix.RLIMIT_CORE, 0)}
	if l.Memory == 0 {
		l.Memory = availableMemory()
	}
	if l.Memory > 0 {
		errs = append(errs, set(unix.RLIMIT_DATA, uint64(l.Memory)))
	}
	if l.Files > 0 {
		errs = append(errs, set(unix.RLIMIT_NOFILE, l.Files))
	}
	if l.Processes > 0 {
		errs = append(errs, set(unix.RLIMIT_NPROC, l.Processes))
	}
	preferOOMKill(p.PID)
	return errors.Join(errs...)
}

// killGroup kills the process and what it has started. The process must not be reaped yet.
func (p *Process) killGroup() { _ = unix.Kill(-p.PID, unix.SIGKILL) }

// Wait waits for the end of the process, kills what it has left behind and returns how it ended, in words.
func (p *Process) Wait() string {
	for { // without reaping it: its number must not be reused before the group is killed
		err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.killGroup()
	p.killKin()
	state, err := p.proc.Wait()
	p.launcher.notifyGuard(p.PID, false)
	if err != nil {
		return "it cannot be waited for: " + err.Error()
	}
	return p.describeEnd(state)
}

// describeEnd returns in words how the process ended.
func (p *Process) describeEnd(state *os.ProcessState) string {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return "it ended with exit status " + strconv.Itoa(state.ExitCode())
	}
	text := fmt.Sprintf("it was ended by signal %d (%s)", ws.Signal(), ws.Signal())
	if ws.Signal() != unix.SIGKILL || !p.launcher.oom.since(p.oomKills) {
		return text
	}
	had := ""
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		had = fmt.Sprintf(", when it had %d MiB", usage.Maxrss>>10)
	}
	return text + ": out of memory: the kernel ended it" + had +
		"; give the machine or its container more, or bound what the model takes by its parameter " +
		"MEMORY_LIMIT_BYTE_SIZE"
}

// HangUp makes reads of the socket end on both sides.
func (p *Process) HangUp() {
	c, err := p.Socket.SyscallConn()
	if err != nil {
		return // closed already
	}
	_ = c.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// TrySend sends a packet. It returns an error if the socket is full, in place of waiting.
func (p *Process) TrySend(packet []byte) error {
	c, err := p.Socket.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := c.Control(func(fd uintptr) {
		for serr = unix.EINTR; serr == unix.EINTR; { //nolint:errorlint // an error number of the kernel
			_, serr = unix.SendmsgN(int(fd), packet, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
	}); err != nil {
		return err
	}
	return serr
}

// StopOutput ends the reading of the output at a time, or at once where no such time can be set.
func (p *Process) StopOutput(end time.Time) {
	for _, f := range p.outputs {
		if err := f.SetReadDeadline(end); err != nil {
			_ = f.Close()
		}
	}
}

// Close closes this side's ends.
func (p *Process) Close() {
	for _, f := range append(p.outputs[:], p.Socket) {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
	for _, m := range []*arena.Mapping{p.Down, p.Up} {
		if m != nil {
			m.Release()
		}
	}
}

// ResidentBytes returns the process's memory in bytes, with what is shared with it; 0: not known.
func (p *Process) ResidentBytes() int64 {
	b, err := proc.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/statm")
	if err != nil {
		return 0 // it has ended
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
