package socket

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// PollSet watches many descriptors for something to read without a goroutine or a thread for each. It is an epoll set
// that the Go runtime's poller waits for. Add and Remove may be called while another goroutine is in Wait.
type PollSet struct {
	file   *os.File
	raw    syscall.RawConn
	events [256]unix.EpollEvent // of Wait
	ready  []int                // of Wait
}

// NewPollSet returns an empty set. It fails on systems other than Linux. Close must be called.
func NewPollSet() (*PollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile gives it to the runtime's poller
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &PollSet{file: os.NewFile(uintptr(fd), "poll set")}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// Add starts watching fd.
func (p *PollSet) Add(fd int) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP)
}

// Remove stops watching fd, which must still be open.
func (p *PollSet) Remove(fd int) {
	_ = p.control(unix.EPOLL_CTL_DEL, fd, 0) // it fails only if fd is not in the set
}

func (p *PollSet) control(op, fd int, events uint32) error {
	var cerr error
	err := p.raw.Control(func(set uintptr) {
		event := &unix.EpollEvent{Events: events, Fd: int32(fd)} //nolint:gosec // descriptors are small
		cerr = unix.EpollCtl(int(set), op, fd, event)
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("epoll_ctl", cerr)
}

// Wait blocks until descriptors have something to read or were hung up, and returns them. The slice is valid until the
// next call. Wait fails when the set is closed.
func (p *PollSet) Wait() ([]int, error) {
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

// Close makes Wait return and frees the set.
func (p *PollSet) Close() { _ = p.file.Close() }
