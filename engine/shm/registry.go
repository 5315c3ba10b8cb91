package shm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Kind is the kind of a region's memory.
type Kind uint8

// The kinds.
const (
	System Kind = iota
	CUDA
)

// String returns the kind as in most of Triton's texts: "system" or "cuda".
func (k Kind) String() string {
	if k == CUDA {
		return "cuda"
	}
	return "system"
}

// title returns the kind as in the rest of Triton's texts.
func (k Kind) title() string {
	if k == CUDA {
		return "CUDA"
	}
	return "system"
}

// HandleSize is the size of an exported handle of device memory, a cudaIpcMemHandle_t, in bytes.
const HandleSize = 64

// Importer opens device memory that another process exported.
type Importer interface {
	// Import opens the memory behind a handle on a device. Its ReadAt and WriteAt return when the copy is done, and
	// may be called concurrently. Errors: ErrNoGPU, ErrBeyond for memory of less than size bytes, others for a handle
	// that cannot be opened.
	Import(handle [HandleSize]byte, device int64, size uint64) (Memory, error)
}

// Errors of an Importer that are not about the handle.
var (
	ErrNoGPU  = errors.New("there is no GPU that CUDA can use")
	ErrBeyond = errors.New("the memory is smaller than the region")
)

// Memory is the content of a region. Offsets are relative to the region. Close is called once, after the last use.
type Memory interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// DeviceMemory is a Memory on a GPU, which models on this GPU can use without a copy.
type DeviceMemory interface {
	Memory
	// Address returns its address in the primary context of its GPU.
	Address() uintptr
	// CopyFrom copies n bytes of the same GPU's memory to an offset of this one, and returns when the copy is done.
	CopyFrom(address uintptr, n int, off int64) error
}

// Options of a Registry. The zero value allows system regions.
type Options struct {
	// Disabled refuses registrations: --allow-client-shm=false. Registry.Disable changes it.
	Disabled bool
	// MaxRegions bounds the registered regions; each has a file descriptor. 0: 1024.
	MaxRegions int
	// Direct lets models use inputs of fixed-size types in the region, without a copy. A client that shrinks an
	// object during a request then crashes the server, and one that writes into it changes a running request. So the
	// clients must be as trusted as the server.
	Direct bool
	// AnyOwner lets clients register objects of all users. By default an object must belong to the client's user,
	// because the server could open objects that the client must not read.
	AnyOwner bool
	// CUDA imports device memory; nil: CUDA registrations are refused.
	CUDA Importer
	// InputBuffer, if not nil, returns a buffer of n bytes that the process of a model can read without a further
	// copy; nil: there is none. The process can write to the buffer.
	InputBuffer func(model string, version int64, n int) *tensor.Buffer
	// OnDevice, if not nil, reports whether a model takes inputs from a GPU's memory, and leaves outputs there.
	OnDevice func(model string, version int64, gpu int) bool
	// Folder is where the objects of system regions are. "": /dev/shm.
	Folder string
}

// anyOwner is an owner of openSystem.
const anyOwner = -1

const (
	defaultMaxRegions = 1024
	maxName           = 1024 // bytes of a region's name
)

// errDisabled refuses to register and unregister. The text is Triton's.
var errDisabled = status.New(status.Unsupported,
	"Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.")

// Registry holds the regions by name. A nil *Registry has none and refuses registrations. Its methods are safe for
// concurrent use.
type Registry struct {
	o        Options
	disabled atomic.Bool

	mu      sync.RWMutex
	regions map[string]*region // guarded by mu, as is the next
	closed  bool
}

// region is a registered part of an object. The registry has a reference while the name is registered, and so has every
// request that uses the region.
type region struct {
	kind   Kind
	name   string
	key    string // of a system region
	offset uint64 // within the object
	device int64  // of a CUDA region
	size   uint64
	mem    Memory
	mapped []byte // for Options.Direct; nil: not mapped
	refs   atomic.Int64
}

func (r *region) retain() *region {
	r.refs.Add(1)
	return r
}

func (r *region) release() error {
	if r.refs.Add(-1) == 0 {
		return r.mem.Close()
	}
	return nil
}

// New returns an empty registry. The caller closes it.
func New(o Options) *Registry {
	o.MaxRegions = cmp.Or(o.MaxRegions, defaultMaxRegions)
	o.Folder = cmp.Or(o.Folder, "/dev/shm")
	g := &Registry{o: o, regions: map[string]*region{}}
	g.disabled.Store(o.Disabled)
	return g
}

// Disable refuses registrations from now on, or no longer. Disabling also unregisters all regions. It returns the
// errors of Unregister.
func (g *Registry) Disable(disabled bool) error {
	if !disabled {
		g.disabled.Store(false)
		return nil
	}
	g.mu.Lock() // register reads it with mu held
	g.disabled.Store(true)
	g.mu.Unlock()
	return errors.Join(g.unregister(System, ""), g.unregister(CUDA, ""))
}

// Allows reports whether regions of a kind can be registered here.
func (g *Registry) Allows(k Kind) bool {
	if g == nil || g.disabled.Load() {
		return false
	}
	if k == CUDA {
		return g.o.CUDA != nil
	}
	return systemSupported
}

// Client returns the user of a client, false if it is not known.
type Client func() (uid int, known bool)

// Self is the Client of this process.
func Self() (uid int, known bool) { return os.Getuid(), true }

// RegisterSystem registers size bytes at an offset of the object that shm_open would open for key. Errors:
//   - Unsupported: shared memory is disabled or missing in the system
//   - InvalidArg: the arguments are invalid, or the object is not the client's
//   - Internal: the object cannot be opened
//   - AlreadyExists: the name is in use
//   - Unavailable: there are too many regions
func (g *Registry) RegisterSystem(name, key string, offset, size uint64, client Client) error {
	if err := g.checkName(System, name); err != nil {
		return err
	}
	object, err := objectName(name, key)
	if err != nil {
		return err
	}
	if err := g.free(name); err != nil { // before the object is opened; register checks again
		return err
	}
	owner := anyOwner
	if !g.o.AnyOwner {
		uid, known := client()
		if !known {
			return status.Errorf(status.InvalidArg, "cannot register shared memory region '%s': the server cannot "+
				"tell which user of its machine the client is; --client-shm-any-owner lets all clients register", name)
		}
		if uid != 0 { // root may open everything
			owner = uid
		}
	}
	mem, mapped, err := openSystem(g.o, object, name, key, offset, size, owner)
	if err != nil {
		return err
	}
	return g.register(&region{
		kind: System, name: strings.Clone(name), key: strings.Clone(key), offset: offset, size: size,
		mem: mem, mapped: mapped,
	})
}

// RegisterCUDA registers size bytes of the device memory that another process exported as handle. Errors are those of
// RegisterSystem, and InvalidArg without a GPU, for a handle of another length and for one that cannot be opened.
func (g *Registry) RegisterCUDA(name string, handle []byte, device int64, size uint64) error {
	if err := g.checkName(CUDA, name); err != nil {
		return err
	}
	if g.o.CUDA == nil {
		return errNoGPU(name)
	}
	if len(handle) != HandleSize {
		return status.Errorf(status.InvalidArg,
			"failed to register CUDA shared memory region '%s': its handle has %d bytes, want %d",
			name, len(handle), HandleSize)
	}
	if size == 0 || device < 0 {
		return errInvalidArgs(name)
	}
	if err := g.free(name); err != nil {
		return err
	}
	mem, err := g.o.CUDA.Import([HandleSize]byte(handle), device, size)
	switch {
	case errors.Is(err, ErrNoGPU):
		return errNoGPU(name)
	case errors.Is(err, ErrBeyond):
		return errInvalidArgs(name)
	case err != nil:
		return status.Errorf(status.InvalidArg, "failed to register CUDA shared memory region '%s': %w", name, err)
	}
	return g.register(&region{kind: CUDA, name: strings.Clone(name), device: device, size: size, mem: mem})
}

func (g *Registry) checkName(k Kind, name string) error {
	switch {
	case g == nil || g.disabled.Load():
		return errDisabled
	case name == "":
		return status.Errorf(status.InvalidArg, "'region name' is necessary to register %s shared memory region", k)
	case len(name) > maxName:
		return status.Errorf(status.InvalidArg,
			"the name of a shared memory region must have at most %d bytes, it has %d", maxName, len(name))
	case !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0:
		return status.Errorf(status.InvalidArg,
			"the name of a shared memory region must be UTF-8 without NUL, it is %q", name)
	}
	return nil
}

// errNoGPU has Triton's text for a build or a machine without CUDA.
func errNoGPU(name string) error {
	return status.Errorf(status.InvalidArg,
		"failed to register CUDA shared memory region: '%s', GPUs not supported", name)
}

// errInvalidArgs has Triton's text for an offset and a size outside of the object.
func errInvalidArgs(name string) error {
	return status.Errorf(status.InvalidArg, "failed to register shared memory region '%s': invalid args", name)
}

// free returns an error if a name cannot be registered.
func (g *Registry) free(name string) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.freeLocked(name)
}

func (g *Registry) freeLocked(name string) error {
	switch {
	case g.closed:
		return status.New(status.Unavailable, "the server is shutting down")
	case g.disabled.Load():
		return errDisabled
	case g.regions[name] != nil:
		return status.Errorf(status.AlreadyExists, "shared memory region '%s' already in manager", name)
	case len(g.regions) >= g.o.MaxRegions:
		return status.Errorf(status.Unavailable, "failed to register shared memory region '%s': "+
			"%d regions are registered, which is the limit; unregister what is not used", name, len(g.regions))
	}
	return nil
}

// register adds r, or releases it on an error.
func (g *Registry) register(r *region) error {
	r.refs.Store(1)
	g.mu.Lock()
	err := g.freeLocked(r.name)
	if err == nil {
		g.regions[r.name] = r
	}
	g.mu.Unlock()
	if err != nil {
		_ = r.release() // it has not been used
	}
	return err
}

// Unregister removes the region of a name, or for "" all of the kind. An unknown name or one of the other kind is not
// an error. Requests that use a region keep it until they end. Errors: Unsupported if shared memory is disabled,
// Internal for memory that cannot be unmapped.
func (g *Registry) Unregister(k Kind, name string) error {
	if g == nil || g.disabled.Load() {
		return errDisabled
	}
	return g.unregister(k, name)
}

func (g *Registry) unregister(k Kind, name string) error {
	var failed []string
	for _, r := range g.take(k, name) {
		if err := r.release(); err != nil {
			failed = append(failed, r.name)
		}
	}
	if len(failed) > 0 {
		return status.Errorf(status.Internal,
			"Failed to unregister the following %s shared memory regions: %s", k, strings.Join(failed, " ,"))
	}
	return nil
}

// take removes regions, and returns them with the registry's references.
func (g *Registry) take(k Kind, name string) (out []*region) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name != "" {
		if r := g.regions[name]; r != nil && r.kind == k {
			delete(g.regions, name)
			out = append(out, r)
		}
		return out
	}
	for n, r := range g.regions {
		if r.kind == k {
			delete(g.regions, n)
			out = append(out, r)
		}
	}
	return out
}

// Close unregisters every region and refuses further registrations. Requests that use a region keep it until they end.
func (g *Registry) Close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	var failed []string
	for _, k := range []Kind{System, CUDA} {
		for _, r := range g.take(k, "") {
			if err := r.release(); err != nil {
				failed = append(failed, r.name)
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("shared memory regions that cannot be closed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// Status describes a registered region.
type Status struct {
	Name     string
	Key      string // of a system region, as it was registered
	Offset   uint64 // of a system region, in bytes within the object
	DeviceID int64  // of a CUDA region
	ByteSize uint64
}

// Status returns the region of a name, or for "" all of the kind, sorted by name. Errors: NotFound.
func (g *Registry) Status(k Kind, name string) ([]Status, error) {
	all := []Status{}
	if g != nil {
		g.mu.RLock()
		defer g.mu.RUnlock()
	}
	if name != "" {
		var r *region
		if g != nil {
			r = g.regions[name]
		}
		switch {
		case r == nil:
			return nil, status.Errorf(status.NotFound, "Unable to find %s shared memory region: '%s'", k, name)
		case r.kind != k:
			return nil, status.Errorf(status.NotFound,
				"The region named '%s' is registered as %s shared memory, not %s shared memory",
				name, r.kind.title(), k.title())
		}
		return append(all, r.status()), nil
	}
	if g == nil {
		return all, nil
	}
	for _, r := range g.regions {
		if r.kind == k {
			all = append(all, r.status())
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (r *region) status() Status {
	return Status{Name: r.name, Key: r.key, Offset: r.offset, DeviceID: r.device, ByteSize: r.size}
}
