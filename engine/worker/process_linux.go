package worker

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
)

// process is a running worker process and this side's ends of what it has.
type process struct {
	l       *Launcher
	proc    *os.Process
	pid     int
	socket  *os.File
	outputs [2]*os.File // its stdout and stderr
	kills   int64       // those of the launcher's account, before
	down    *mapping
	up      *mapping
}

// spawn starts a process with its arenas and pipes.
func (l *Launcher) spawn(s *Spec) (_ *process, err error) {
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, status.Errorf(status.NotFound, "cannot start %s: %w", s.Command[0], errors.Unwrap(err))
	}
	p := &process{l: l, kills: l.oom.before()}
	var files []*os.File // the child's
	defer func() {
		for _, f := range files {
			_ = f.Close() // the child has its own
		}
		if err != nil {
			p.close()
		}
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	files = append(files, null)
	for i := range p.outputs {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.outputs[i] = r
		files = append(files, w)
	}
	var theirs *os.File
	if p.socket, theirs, err = socketPair("worker"); err != nil {
		return nil, err
	}
	files = append(files, theirs)
	if p.down, err = newMapping("nereid-down", tableSize+s.Arena); err != nil {
		return nil, err
	}
	if p.up, err = newMapping("nereid-up", tableSize+s.Arena); err != nil {
		return nil, err
	}
	given := append(append([]*os.File{}, files...), p.down.file, p.up.file)
	vars := []string{"NEREID_WORKER=" + strconv.Itoa(Version)}
	attr := &os.ProcAttr{
		Dir: s.Dir, Env: environment(os.Environ(), append(vars, s.Env...)), Files: given,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if derr := l.do(func() {
		err = l.within(s, func() error { p.proc, err = startProcess(path, s.Command, attr); return err })
	}); derr != nil {
		return nil, derr
	}
	if err != nil {
		return nil, status.Errorf(status.Internal, "cannot start %s: %w", path, err)
	}
	p.pid = p.proc.Pid
	l.watched(p.pid, true)
	if err := p.limit(s.Limits); err != nil {
		p.killGroup()
		_, _ = p.wait()
		return nil, status.Errorf(status.Internal, "cannot limit what %s takes: %w", path, err)
	}
	return p, nil
}

// socketPair makes a socket between the server and a process.
func socketPair(name string) (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), name), os.NewFile(uintptr(pair[1]), name), nil
}

// startProcess is os.StartProcess, again while the program's file is open for writing: one that was just unpacked is for a
// moment, in every child that another thread has forked meanwhile and that has not run its own program yet.
func startProcess(path string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	for wait := time.Millisecond; ; wait *= 2 {
		if p, err = os.StartProcess(path, argv, attr); !errors.Is(err, unix.ETXTBSY) || wait > time.Second {
			return p, err
		}
		time.Sleep(wait)
	}
}

// environment is the server's with what is added, which replaces variables of the same name: of two, programs take the
// first.
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

// within runs start on this thread, the launcher's, while it keeps to the affinity that the process is to inherit.
func (l *Launcher) within(s *Spec, start func() error) error {
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
		l.log.Error("processes started from now on keep to a host policy that is not theirs", "policy", s.Affinity.String(), "err", back)
	}
	return err
}

// limit sets the limits of the running process. It waits for its first call until then.
func (p *process) limit(l Limits) error {
	set := func(what int, n uint64) error {
		return unix.Prlimit(p.pid, what, &unix.Rlimit{Cur: n, Max: n}, nil)
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
	preferWorker(p.pid)
	return errors.Join(errs...)
}

// killGroup ends the process and what it has started. The leader must not be reaped yet.
func (p *process) killGroup() { _ = unix.Kill(-p.pid, unix.SIGKILL) }

// wait waits for the process's end, ends what it has left behind and says how it ended.
func (p *process) wait() (*os.ProcessState, string) {
	for { // without reaping it: its number must not be another's when the group is killed
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.killGroup()
	state, err := p.proc.Wait()
	p.l.watched(p.pid, false)
	if err != nil {
		return nil, "it cannot be waited for: " + err.Error()
	}
	return state, p.ending(state)
}

// ending says in words how the process ended.
func (p *process) ending(state *os.ProcessState) string {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return "it ended with exit status " + strconv.Itoa(state.ExitCode())
	}
	text := fmt.Sprintf("it was ended by signal %d (%s)", ws.Signal(), ws.Signal())
	if ws.Signal() != unix.SIGKILL || !p.l.oom.since(p.kills) {
		return text
	}
	had := ""
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		had = fmt.Sprintf(", when it had %d MiB", usage.Maxrss>>10)
	}
	return text + ": out of memory: the kernel ended it" + had +
		"; give the machine or its container more, or bound what the model takes by its parameter MEMORY_LIMIT_BYTE_SIZE"
}

// hangUp makes reads of the socket end on both sides.
func (p *process) hangUp() {
	c, err := p.socket.SyscallConn()
	if err != nil {
		return // closed already
	}
	_ = c.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// sendNow sends a packet if that does not have to wait.
func (p *process) sendNow(packet []byte) error {
	c, err := p.socket.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := c.Control(func(fd uintptr) {
		for serr = unix.EINTR; serr == unix.EINTR; { //nolint:errorlint // a number of the kernel's
			serr = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		}
	}); err != nil {
		return err
	}
	return serr
}

// drain ends the reading of the output at a time. Where that cannot be, it ends it at once.
func (p *process) drain(end time.Time) {
	for _, f := range p.outputs {
		if err := f.SetReadDeadline(end); err != nil {
			_ = f.Close()
		}
	}
}

// close closes this side's ends.
func (p *process) close() {
	for _, f := range append(p.outputs[:], p.socket) {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
	for _, m := range []*mapping{p.down, p.up} {
		if m != nil {
			m.release()
		}
	}
}

// ResidentBytes returns the memory that the worker's process has, with what it shares; 0 if that is not known.
func (w *Worker) ResidentBytes() int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(w.p.pid) + "/statm")
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
