package shm

import (
	"cmp"
	"math"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

const systemSupported = true

// openSystem opens an object of the folder and checks that it has the region. mapped is nil unless o asks for a mapping.
func openSystem(o Options, object, name, key string, offset, size uint64) (mem Memory, mapped []byte, err error) {
	errOpen := status.Errorf(status.Internal, "Unable to open shared memory region: '%s'", key)
	dir, err := unix.Open(o.Folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errOpen
	}
	defer unix.Close(dir)
	// No link is followed out of the folder, and a FIFO does not hold the call.
	fd, err := unix.Openat(dir, object, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errOpen
	}
	s := &systemMemory{base: int64(min(offset, math.MaxInt64))}
	defer func() {
		if err != nil && s.f != nil {
			_ = s.Close() // it was never used
		} else if err != nil {
			_ = unix.Close(fd)
		}
	}()
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < 0 {
		return nil, nil, status.Errorf(status.Internal, "Invalid shared memory region: '%s'", key)
	}
	if length := uint64(st.Size); size == 0 || offset > length || size > length-offset {
		return nil, nil, errInvalidArgs(name)
	}
	if err = unix.SetNonblock(fd, false); err != nil {
		return nil, nil, errOpen
	}
	s.f = os.NewFile(uintptr(fd), object)
	s.window, s.before, _ = s.mmap(offset, size, unix.PROT_READ|unix.PROT_WRITE) // without it, the file is read and written
	if o.Direct {
		if s.whole, _, err = s.mmap(offset, size, unix.PROT_READ); err != nil {
			return nil, nil, status.Errorf(status.InvalidArg, "failed to register shared memory region '%s': unable to map it: %w", name, err)
		}
		mapped = s.whole[uint64(len(s.whole))-size:]
	}
	return s, mapped, nil
}

// systemMemory is a part of an object under /dev/shm.
type systemMemory struct {
	f     *os.File
	base  int64  // where the region begins
	whole []byte // a mapping for Options.Direct, from the page in which the region begins; nil: none
	// window is a mapping to copy through (copyGuarded), which takes a fraction of what pread and pwrite take: they look up
	// each page. The region begins before bytes into it. nil: it could not be mapped.
	window []byte
	before int64
}

func (s *systemMemory) mmap(offset, size uint64, how int) (mem []byte, before int64, err error) {
	first := offset % uint64(os.Getpagesize())
	if size > math.MaxInt-first {
		return nil, 0, unix.EINVAL
	}
	mem, err = unix.Mmap(int(s.f.Fd()), int64(offset-first), int(first+size), how, unix.MAP_SHARED)
	return mem, int64(first), err
}

// part returns n bytes of the window; false: it does not have them, or the object has been shrunk. A shrunk object's last
// page can be used behind its end, but what is there is nobody's.
func (s *systemMemory) part(off, n int64) ([]byte, bool) {
	at := s.before + off
	if off < 0 || at > int64(len(s.window)) || n > int64(len(s.window))-at {
		return nil, false
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(s.f.Fd()), &st); err != nil || st.Size < s.base+off+n {
		return nil, false
	}
	return s.window[at : at+n], true
}

// guardedAtOnce is how much is copied without giving the scheduler a chance.
const guardedAtOnce = 4 << 20

// copyGuarded copies between the server's memory and a mapping of memory that a client may shrink at any time, and reports
// whether it could: a page that is not there any more ends the copy, not the process. Both are of one length. around: what is
// copied is not looked at here again, and leaves the caches to others.
func copyGuarded(dst, src []byte, around bool) (ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
			ok = false
		}
	}()
	for len(src) > 0 {
		piece := src[:min(len(src), guardedAtOnce)]
		if around {
			copy(dst, piece) // for what this does with 1 MiB and more see tensor.Copy
		} else {
			tensor.Copy(dst, piece)
		}
		dst, src = dst[len(piece):], src[len(piece):]
	}
	return true
}

// ReadAt reads from the region.
func (s *systemMemory) ReadAt(p []byte, off int64) (int, error) {
	if b, ok := s.part(off, int64(len(p))); ok && copyGuarded(p, b, false) {
		return len(p), nil
	}
	n, err := s.f.ReadAt(p, s.base+off) // says what is wrong
	return n, bare(err)
}

// WriteAt writes into the region. It does not lengthen an object that the client has shrunk.
func (s *systemMemory) WriteAt(p []byte, off int64) (int, error) { return s.write(p, off, false) }

func (s *systemMemory) writeAround(p []byte, off int64) (int, error) { return s.write(p, off, true) }

func (s *systemMemory) write(p []byte, off int64, around bool) (int, error) {
	if b, ok := s.part(off, int64(len(p))); ok && copyGuarded(b, p, around) {
		return len(p), nil
	}
	info, err := s.f.Stat()
	if err != nil {
		return 0, bare(err)
	}
	if info.Size() < s.base+off+int64(len(p)) {
		return 0, errShrunk
	}
	n, err := s.f.WriteAt(p, s.base+off)
	return n, bare(err)
}

// Close lets the object go.
func (s *systemMemory) Close() error {
	var err error
	for _, mem := range [][]byte{s.whole, s.window} {
		if mem != nil {
			err = cmp.Or(err, unix.Munmap(mem))
		}
	}
	return bare(cmp.Or(err, s.f.Close()))
}
