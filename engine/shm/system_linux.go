package shm

import (
	"math"
	"os"

	"golang.org/x/sys/unix"

	"nereid/engine/status"
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
	if o.Direct {
		if err = s.mmap(offset, size); err != nil {
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
	whole []byte // the mapping, from the page in which the region begins; nil: none
}

func (s *systemMemory) mmap(offset, size uint64) (err error) {
	before := offset % uint64(os.Getpagesize())
	if size > math.MaxInt-before {
		return unix.EINVAL
	}
	s.whole, err = unix.Mmap(int(s.f.Fd()), int64(offset-before), int(before+size), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// ReadAt reads from the region.
func (s *systemMemory) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.f.ReadAt(p, s.base+off)
	return n, bare(err)
}

// WriteAt writes into the region. It does not lengthen an object that the client has shrunk.
func (s *systemMemory) WriteAt(p []byte, off int64) (int, error) {
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
	if s.whole != nil {
		err = unix.Munmap(s.whole)
	}
	if cerr := s.f.Close(); err == nil {
		err = cerr
	}
	return bare(err)
}
