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

// openSystem opens an object in the folder and checks that it contains the region and belongs to the user owner. mapped
// is nil unless Options.Direct is set.
func openSystem(
	o Options, object, name, key string, offset, size uint64, owner int,
) (mem Memory, mapped []byte, err error) {
	errOpen := status.Errorf(status.Internal, "Unable to open shared memory region: '%s'", key)
	dir, err := unix.Open(o.Folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errOpen
	}
	defer unix.Close(dir)
	// Links are not followed, and opening a FIFO does not block.
	fd, err := unix.Openat(dir, object, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errOpen
	}
	s := &systemMemory{base: int64(min(offset, math.MaxInt64))}
	defer func() {
		if err != nil && s.f != nil {
			_ = s.Close() // it has not been used
		} else if err != nil {
			_ = unix.Close(fd)
		}
	}()
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < 0 {
		return nil, nil, status.Errorf(status.Internal, "Invalid shared memory region: '%s'", key)
	}
	if owner != anyOwner && st.Uid != uint32(owner) {
		return nil, nil, status.Errorf(status.InvalidArg, "Unable to open shared memory region: '%s': it belongs to "+
			"another user than the client; --client-shm-any-owner allows that", key)
	}
	if length := uint64(st.Size); size == 0 || offset > length || size > length-offset {
		return nil, nil, errInvalidArgs(name)
	}
	if err = unix.SetNonblock(fd, false); err != nil {
		return nil, nil, errOpen
	}
	s.f = os.NewFile(uintptr(fd), object)
	// If this fails, the file is read and written.
	s.window, s.before, _ = s.mmap(offset, size, unix.PROT_READ|unix.PROT_WRITE)
	if o.Direct {
		if s.whole, _, err = s.mmap(offset, size, unix.PROT_READ); err != nil {
			return nil, nil, status.Errorf(status.InvalidArg,
				"failed to register shared memory region '%s': unable to map it: %w", name, err)
		}
		mapped = s.whole[uint64(len(s.whole))-size:]
	}
	return s, mapped, nil
}

// systemMemory is a part of an object under /dev/shm.
type systemMemory struct {
	f     *os.File
	base  int64  // offset of the region in the object
	whole []byte // a mapping for Options.Direct, from the page in which the region begins; nil: none
	// window is a mapping for copyGuarded, which takes a fraction of the time of pread and pwrite. nil: it could not be
	// mapped.
	window []byte
	before int64 // bytes of window before the region
}

func (s *systemMemory) mmap(offset, size uint64, how int) (mem []byte, before int64, err error) {
	first := offset % uint64(os.Getpagesize())
	if size > math.MaxInt-first {
		return nil, 0, unix.EINVAL
	}
	mem, err = unix.Mmap(int(s.f.Fd()), int64(offset-first), int(first+size), how, unix.MAP_SHARED)
	return mem, int64(first), err
}

// part returns n bytes of the window. False: it does not have them, or the client has shrunk the object. Bytes behind
// the end of a shrunk object can be accessed on its last page, but are lost.
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

// maxGuardedCopy is the number of bytes that are copied at once: the goroutine cannot be preempted during a copy.
const maxGuardedCopy = 4 << 20

// copyGuarded copies between the server's memory and a mapping that a client may shrink at any time. Both have the same
// length. It returns false if a page no longer exists; without the guard, that would end the process.
func copyGuarded(dst, src []byte) (ok bool) {
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
		piece := src[:min(len(src), maxGuardedCopy)]
		tensor.Copy(dst, piece)
		dst, src = dst[len(piece):], src[len(piece):]
	}
	return true
}

// ReadAt reads from the region.
func (s *systemMemory) ReadAt(p []byte, off int64) (int, error) {
	if b, ok := s.part(off, int64(len(p))); ok && copyGuarded(p, b) {
		return len(p), nil
	}
	n, err := s.f.ReadAt(p, s.base+off) // says what is wrong
	return n, bare(err)
}

// WriteAt writes into the region. It does not extend an object that the client has shrunk.
func (s *systemMemory) WriteAt(p []byte, off int64) (int, error) {
	if b, ok := s.part(off, int64(len(p))); ok && copyGuarded(b, p) {
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

// Close unmaps and closes the object.
func (s *systemMemory) Close() error {
	var err error
	for _, mem := range [][]byte{s.whole, s.window} {
		if mem != nil {
			err = cmp.Or(err, unix.Munmap(mem))
		}
	}
	return bare(cmp.Or(err, s.f.Close()))
}
