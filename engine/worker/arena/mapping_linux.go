package arena

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxAddressSpace is the most address space in bytes that a mapping reserves. It costs nothing until it is used.
const maxAddressSpace = 64 << 30

// NewMapping creates a memfd of size bytes and maps it. The caller holds one reference.
func NewMapping(name string, size int64) (*Mapping, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot make memory to share with a worker (memfd_create): %w", err)
	}
	m := &Mapping{file: os.NewFile(uintptr(fd), name)}
	if err := m.file.Truncate(size); err != nil {
		return nil, fmt.Errorf("cannot make %d bytes of memory to share with a worker: %w", size,
			errors.Join(err, m.file.Close()))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("cannot seal memory that is shared with a worker: %w", errors.Join(err, m.file.Close()))
	}
	if err := m.mmap(size); err != nil {
		return nil, fmt.Errorf("cannot map memory that is shared with a worker: %w", errors.Join(err, m.file.Close()))
	}
	return m, nil
}

// OpenMapping maps the memory that the server has created and that is descriptor fd of this process. The caller holds
// one reference.
func OpenMapping(fd int, name string) (*Mapping, error) {
	unix.CloseOnExec(fd)
	m := &Mapping{file: os.NewFile(uintptr(fd), name)}
	info, err := m.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not the memory that is shared with the server: %w", fd, err)
	}
	if err := m.mmap(info.Size()); err != nil {
		return nil, fmt.Errorf("cannot map the memory that is shared with the server: %w", err)
	}
	return m, nil
}

// mmap maps as much address space as the system gives, at least size bytes.
func (m *Mapping) mmap(size int64) (err error) {
	for length := int64(maxAddressSpace); ; length /= 2 {
		m.mem, err = unix.Mmap(int(m.file.Fd()), 0, int(length), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_NORESERVE)
		if err == nil {
			break
		}
		if length/2 < size {
			return err
		}
	}
	m.size.Store(size)
	m.refs.Store(1)
	return nil
}

func (m *Mapping) unmap() {
	_ = unix.Munmap(m.mem) // fails only for what was never mapped
	m.mem = nil
	_ = m.file.Close() // memory, not a file that could lose something
}

// punch returns pages to the system; they read as zero afterwards. A failure only costs memory.
func (m *Mapping) punch(at, n int64) {
	_ = unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
}
