package httpapi

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollSet tells which of many descriptors have something to read, without a goroutine or a thread for each. It is an
// epoll set that is itself waited for by the Go runtime's poller. add and remove are safe for concurrent use with wait.
type pollSet struct {
	file   *os.File
	raw    syscall.RawConn
	events [256]unix.EpollEvent // of wait
	ready  []int                // of wait
}

func newPollSet() (*pollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile gives it to the runtime's poller
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &pollSet{file: os.NewFile(uintptr(fd), "parked connections")}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// add begins to watch fd.
func (p *pollSet) add(fd int) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP)
}

// remove ends it. The descriptor must still be open.
func (p *pollSet) remove(fd int) {
	_ = p.control(unix.EPOLL_CTL_DEL, fd, 0) // only if it is not there
}

func (p *pollSet) control(op, fd int, events uint32) error {
	var cerr error
	err := p.raw.Control(func(set uintptr) {
		cerr = unix.EpollCtl(int(set), op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}) //nolint:gosec // descriptors are small
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("epoll_ctl", cerr)
}

// wait blocks until descriptors have something to read, or are hung up, and returns them; the slice is valid until the
// next call. It fails when the set is closed.
func (p *pollSet) wait() ([]int, error) {
	n := 0
	var werr error
	err := p.raw.Read(func(set uintptr) bool {
		n, werr = unix.EpollWait(int(set), p.events[:], 0)
		if werr == unix.EINTR {
			werr = nil
		}
		return werr != nil || n > 0
	})
	if err == nil && werr != nil {
		err = os.NewSyscallError("epoll_wait", werr)
	}
	p.ready = p.ready[:0]
	for _, e := range p.events[:max(n, 0)] {
		p.ready = append(p.ready, int(e.Fd))
	}
	return p.ready, err
}

// close ends the set; wait returns.
func (p *pollSet) close() { _ = p.file.Close() }
