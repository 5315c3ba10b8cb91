//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"nereid/engine/gpumem"
	"nereid/engine/shm"
)

// Driver is NVIDIA's driver. It is loaded at the first use. Its methods are safe for concurrent use.
type Driver struct {
	log *slog.Logger

	toHost, fromHost, within atomic.Int64 // bytes that were copied

	mu       sync.Mutex // guards all below
	loaded   bool
	warned   bool // that it does not load
	closed   bool
	count    int // of the devices
	contexts map[int64]*primary
}

var _ shm.Importer = (*Driver)(nil)

// New returns a driver that is not loaded yet. The caller must close it, after the registry that uses it.
func New(log *slog.Logger) *Driver { return &Driver{log: log, contexts: map[int64]*primary{}} }

// primary is a device's primary context, which CUDA's runtime uses too. It is retained until the driver is closed and
// no region is left, because making one takes up to a second.
type primary struct {
	device cu.Device
	ctx    cu.CUContext
	refs   int // the driver's, the regions' and the pools'; guarded by Driver.mu

	mu      sync.Mutex
	streams []cu.Stream // guarded by mu: unused streams for copies within the GPU
}

// in runs f with the context as the current one.
func (p *primary) in(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.PushCurrentCtx(p.ctx); err != nil {
		return of(err)
	}
	err := f()
	if _, perr := cu.PopCurrentCtx(); err == nil && perr != nil {
		err = of(perr)
	}
	return err
}

// Import implements shm.Importer. Devices have CUDA's numbers in this process. Errors: shm.ErrNoGPU without a driver
// or a device, shm.ErrBeyond for a size beyond that of the memory, others are CUDA's.
func (d *Driver) Import(handle [shm.HandleSize]byte, device int64, size uint64) (shm.Memory, error) {
	p, err := d.retain(device)
	if err != nil {
		return nil, err
	}
	m := &memory{driver: d, primary: p}
	if err := p.in(func() error { return m.open(&handle, size) }); err != nil {
		d.release(p)
		return nil, err
	}
	return m, nil
}

// retain returns the context of a device with a reference.
func (d *Driver) retain(device int64) (*primary, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.load(); err != nil {
		return nil, err
	}
	if device < 0 || device >= int64(d.count) {
		return nil, fmt.Errorf("failed to open CUDA IPC handle: %w", invalidDevice)
	}
	p := d.contexts[device]
	if p == nil {
		p = &primary{refs: 1}
		var err error
		if p.device, err = cu.GetDevice(int(device)); err == nil {
			p.ctx, err = p.device.RetainPrimaryCtx()
		}
		if err != nil {
			return nil, fmt.Errorf("the context of GPU %d cannot be opened: %w", device, of(err))
		}
		d.contexts[device] = p
	}
	p.refs++
	return p, nil
}

// load initializes CUDA, once. If it fails, it is tried again at the next use. d.mu is held.
func (d *Driver) load() error {
	switch {
	case d.closed:
		return errors.New("the server is shutting down")
	case d.loaded:
		return nil
	}
	err := load()
	if err == nil {
		if d.count, err = cu.NumDevices(); err != nil {
			err = of(err)
		} else if d.count == 0 {
			err = noDevice
		}
	}
	if err != nil {
		if !d.warned { // clients may try again and again
			d.log.Warn("clients' CUDA shared memory cannot be opened; see whether nvidia-smi works", "err", err)
		}
		d.warned = true
		return fmt.Errorf("%w: %w", shm.ErrNoGPU, err)
	}
	d.loaded, d.warned = true, false
	d.log.Info("CUDA is open for clients' shared memory", "devices", d.count, "version", cu.Version())
	return nil
}

func (d *Driver) release(p *primary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseLocked(p)
}

func (d *Driver) releaseLocked(p *primary) {
	if p.refs--; p.refs > 0 {
		return
	}
	if err := p.in(p.dropStreams); err != nil {
		d.log.Warn("the streams of a GPU cannot be destroyed", "gpu", int(p.device), "err", err)
	}
	if err := p.device.ReleasePrimaryCtx(); err != nil {
		d.log.Warn("the context of a GPU cannot be released", "gpu", int(p.device), "err", of(err))
	}
}

// Close releases the contexts, each when its last region is closed.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for device, p := range d.contexts {
		delete(d.contexts, device)
		d.releaseLocked(p)
	}
}

// memory is a region of device memory. Its copies run one after the other on its own stream, so that they do not wait
// for the computation of models.
type memory struct {
	driver  *Driver
	primary *primary
	base    cu.DevicePtr
	stream  cu.Stream
}

var _ shm.DeviceMemory = (*memory)(nil)

// open maps the handle. The context must be the current one.
func (m *memory) open(handle *[shm.HandleSize]byte, size uint64) (err error) {
	if m.base, err = openHandle(handle); err != nil {
		return fmt.Errorf("failed to open CUDA IPC handle: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeHandle(m.base))
		}
	}()
	length, start, err := m.base.AddressRange()
	if err != nil {
		return fmt.Errorf("the size of the memory is not known: %w", of(err))
	}
	before := uint64(m.base - start)
	if before > uint64(length) || size > uint64(length)-before || size > math.MaxInt64 {
		return shm.ErrBeyond
	}
	if m.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return fmt.Errorf("no stream can be made on the GPU: %w", of(err))
	}
	return nil
}

// ReadAt copies from the device. The caller has checked the range.
func (m *memory) ReadAt(p []byte, off int64) (int, error) { return m.copy(p, off, false) }

// WriteAt copies to the device. The caller has checked the range.
func (m *memory) WriteAt(p []byte, off int64) (int, error) { return m.copy(p, off, true) }

func (m *memory) copy(p []byte, off int64, toDevice bool) (int, error) {
	err := m.primary.in(func() error { return copyAt(m.base+cu.DevicePtr(off), p, m.stream, toDevice) })
	if err != nil {
		return 0, named(err)
	}
	if toDevice {
		m.driver.fromHost.Add(int64(len(p)))
	} else {
		m.driver.toHost.Add(int64(len(p)))
	}
	return len(p), nil
}

// Address returns its address in the primary context of its GPU.
func (m *memory) Address() uintptr { return uintptr(m.base) }

// CopyFrom copies n bytes of the same GPU's memory into this one. The caller has checked the range.
func (m *memory) CopyFrom(address uintptr, n int, off int64) error {
	err := m.primary.in(func() error {
		return copyWithin([]gpumem.Copy{{To: uintptr(m.base) + uintptr(off), From: address, Size: n}}, m.stream)
	})
	if err == nil {
		m.driver.within.Add(int64(n))
	}
	return named(err)
}

// named adds CUDA's name to the error if it is a Result.
func named(err error) error {
	var r Result
	if errors.As(err, &r) {
		return fmt.Errorf("CUDA says %w (%s)", err, r.Name())
	}
	return err
}

// Close unmaps the memory.
func (m *memory) Close() error {
	err := m.primary.in(func() error {
		serr := m.stream.Destroy()
		if serr != nil {
			serr = of(serr)
		}
		return errors.Join(serr, closeHandle(m.base))
	})
	m.driver.release(m.primary)
	return err
}
