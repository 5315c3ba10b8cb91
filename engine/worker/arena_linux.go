package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserve is the most address space that an arena takes; where there is less, it gets what it can. It costs nothing until
// it is used.
const reserve = 64 << 30

// newMapping makes an arena's file and maps it. The caller holds one reference.
func newMapping(name string, size int64) (*mapping, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot make memory to share with a worker (memfd_create): %w", err)
	}
	m := &mapping{file: os.NewFile(uintptr(fd), name)}
	if err := m.file.Truncate(size); err != nil {
		return nil, fmt.Errorf("cannot make %d bytes of memory to share with a worker: %w", size, closing(m.file, err))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("cannot seal memory that is shared with a worker: %w", closing(m.file, err))
	}
	for length := int64(reserve); ; length /= 2 {
		m.mem, err = unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
		if err == nil {
			break
		}
		if length/2 < size {
			return nil, fmt.Errorf("cannot map memory that is shared with a worker: %w", closing(m.file, err))
		}
	}
	m.size.Store(size)
	m.refs.Store(1)
	return m, nil
}

// openMapping maps an arena that the server has made and that is descriptor fd of this process. The caller holds one
// reference.
func openMapping(fd int, name string) (*mapping, error) {
	unix.CloseOnExec(fd)
	m := &mapping{file: os.NewFile(uintptr(fd), name)}
	info, err := m.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not the memory that is shared with the server: %w", fd, err)
	}
	for length := int64(reserve); ; length /= 2 {
		m.mem, err = unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
		if err == nil {
			break
		}
		if length/2 < info.Size() {
			return nil, fmt.Errorf("cannot map the memory that is shared with the server: %w", err)
		}
	}
	m.size.Store(info.Size())
	m.refs.Store(1)
	return m, nil
}

// closing closes f and returns err.
func closing(f *os.File, err error) error {
	_ = f.Close() // err is why
	return err
}

func (m *mapping) unmap() {
	_ = unix.Munmap(m.mem) // fails only for what was never mapped
	m.mem = nil
	_ = m.file.Close() // memory, not a file that could lose something
}

// punch gives pages back to the system; they read as zero from then on.
func (m *mapping) punch(at, n int64) {
	_ = unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n) // only thrift
}
