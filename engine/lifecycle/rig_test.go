package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/repo"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// picky is the identity backend with faults for tests: it fails to load a version folder that has a file named broken,
// and calls hooks in Load and Execute.
type picky struct {
	backend.Backend
	load    func(ctx context.Context, s backend.Spec) error
	execute func(ctx context.Context)
	sizeNow func() int64 // in place of size
	size    int64        // the memory that every model loaded from now on reports; 0: it reports none
	onGPU   int64        // the memory of GPU 1 that it reports; 0: it reports none
	lost    atomic.Bool  // the process of the models that are loaded has ended for good
	down    atomic.Bool  // the models that are loaded take no requests

	mu      sync.Mutex
	open    int // guarded by mu, as the others: models that are loaded
	loading int
	most    int // loads at once
	loads   int
}

func newPicky() *picky { return &picky{Backend: builtin.Identity()} }

func (p *picky) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	p.mu.Lock()
	p.loads++
	p.loading++
	p.most = max(p.most, p.loading)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.loading--
		p.mu.Unlock()
	}()
	if p.load != nil {
		if err := p.load(ctx, s); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(s.VersionFolder, "broken")); err == nil {
		return nil, status.New(status.Internal, "this file is broken")
	}
	if _, err := os.Stat(filepath.Join(s.VersionFolder, "file")); err != nil {
		return nil, status.Errorf(status.NotFound, "no model file: %w", err)
	}
	m, err := p.Backend.Load(ctx, s)
	if err == nil {
		p.mu.Lock()
		p.open++
		p.mu.Unlock()
	}
	p.lost.Store(false)
	p.down.Store(false)
	return &pickyModel{m, p, p.size}, err
}

func (p *picky) count() (open, loads, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.loads, p.most
}

type pickyModel struct {
	backend.Model
	p    *picky
	size int64
}

func (m *pickyModel) Traits() backend.Traits { return backend.Traits{} }

func (m *pickyModel) NewInstance(ctx context.Context, place backend.Placement) (backend.Instance, error) {
	i, err := m.Model.NewInstance(ctx, place)
	return &pickyInstance{i, m.p}, err
}

func (m *pickyModel) Processes() []backend.Process {
	return []backend.Process{{Quarantined: m.p.lost.Load()}}
}

func (m *pickyModel) Healthy() error {
	if m.p.down.Load() {
		return status.New(status.Unavailable, "the process is being started again")
	}
	return nil
}

func (m *pickyModel) MemoryBytes() int64 {
	if m.p.sizeNow != nil {
		return m.p.sizeNow()
	}
	return cmp.Or(m.size, -1)
}

func (m *pickyModel) DeviceMemoryBytes() map[int]int64 {
	if m.p.onGPU == 0 {
		return nil
	}
	return map[int]int64{1: m.p.onGPU}
}

func (m *pickyModel) Close() error {
	m.p.mu.Lock()
	m.p.open--
	m.p.mu.Unlock()
	return m.Model.Close()
}

type pickyInstance struct {
	backend.Instance
	p *picky
}

func (i *pickyInstance) Execute(ctx context.Context, b *infer.Batch) error {
	if i.p.execute != nil {
		i.p.execute(ctx)
	}
	return i.Instance.Execute(ctx, b)
}

// rig is a manager with a temporary repository.
type rig struct {
	*Manager
	t    testing.TB
	root string
	b    *picky

	mu   sync.Mutex
	cond *sync.Cond
	n    int // guarded by mu: changes so far
}

func newRig(t testing.TB, edit func(*Options)) *rig {
	r := &rig{t: t, root: t.TempDir(), b: newPicky()}
	r.cond = sync.NewCond(&r.mu)
	before := runtime.NumGoroutine()
	o := Options{
		Repositories: []string{r.root}, Backends: []backend.Backend{r.b}, Log: slog.New(slog.DiscardHandler),
		Settle: time.Nanosecond, OverrideFolder: t.TempDir(), Events: Events{Changed: r.changed},
	}
	if edit != nil {
		edit(&o)
	}
	r.Manager = NewManager(o, nil, stats.NewRegistry(stats.Detail{}))
	t.Cleanup(func() {
		r.Close(context.Background())
		if open, _, _ := r.b.count(); open != 0 {
			t.Errorf("%d models are open after Close", open)
		}
		for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) { // the runtime needs a moment to reap what has returned
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines after Close, %d before:\n%s", runtime.NumGoroutine(), before,
					buf[:runtime.Stack(buf, true)])
			}
		}
		left, err := os.ReadDir(o.OverrideFolder)
		if err != nil || len(left) != 0 {
			t.Errorf("override folders are left after Close: %v, %v", left, err)
		}
	})
	return r
}

func (r *rig) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.cond.Broadcast()
}

// until waits until ok returns true; it checks after each change.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	stop := time.AfterFunc(time.Minute+time.Second, r.changed)
	defer stop.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		n := r.n
		r.mu.Unlock()
		done := ok()
		r.mu.Lock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("never happened: %s", what)
		}
		for r.n == n {
			r.cond.Wait()
		}
	}
}

// poll scans the repositories until no change is pending, as Run does over time.
func (r *rig) pollAll() {
	clear(r.poller.waiting)
	for {
		found, unread := repo.Scan(r.scanOptions())
		next := r.poller.poll(found, len(unread) == 0)
		r.wait()
		if next == 0 && len(r.poller.waiting) == 0 {
			quiet := true
			if len(unread) == 0 {
				for _, s := range r.Models() {
					quiet = quiet && found[s.Name] != nil
				}
			}
			for name, src := range found {
				quiet = quiet && !r.poller.differs(name, src, len(unread) == 0)
			}
			if quiet {
				return
			}
		}
	}
}

// loadPolled loads a model like polling that found src; look finds the model again.
func (r *rig) loadPolled(src *repo.Model, look func() (*repo.Model, error)) error {
	return dependentsOf(r.Manager).change(src.Key,
		func(o *operation) (bool, error) { return o.loadPolled(r.t.Context(), src, look) })
}

// wait waits for the changes that polling has started.
func (r *rig) wait() {
	r.until("changes end", func() bool {
		r.Manager.mu.Lock()
		defer r.Manager.mu.Unlock()
		for _, e := range r.entries {
			if e.busy {
				go func() { // busy ends without an event
					runtime.Gosched()
					r.changed()
				}()
				return false
			}
		}
		return true
	})
}

const pickyConfig = `backend: "identity" max_batch_size: 4 ` +
	`input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ] output [ { name: "OUTPUT0" data_type: TYPE_FP32 ` +
	`dims: [ 4 ] LABELS } ] ` +
	`instance_group [ { count: 1 kind: KIND_CPU } ] version_policy: { POLICY } `

func policy(p string) string {
	return strings.Replace(strings.Replace(pickyConfig, "POLICY", p, 1), "LABELS", "", 1)
}

// overrideConfig has another max_batch_size than pickyConfig.
const overrideConfig = `{"backend":"identity","max_batch_size":3,"input":[{"name":"INPUT0","data_type":"TYPE_FP32",` +
	`"dims":[4]}],"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[4]}]}`

// overriding returns an override with one file, which is empty.
func overriding(file string) *Override {
	return &Override{Config: overrideConfig, Files: map[string][]byte{file: nil}}
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(path string) {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.root, path)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) rename(from, to string) {
	r.t.Helper()
	if err := os.Rename(filepath.Join(r.root, from), filepath.Join(r.root, to)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) load(name string) {
	r.t.Helper()
	if err := r.Load(r.t.Context(), name, nil); err != nil {
		r.t.Fatal(err)
	}
}

// serving returns the versions in service.
func (r *rig) serving(name string) (all []int64) {
	s, _ := r.Model(name)
	for _, v := range s.Versions {
		if v.Model != nil {
			all = append(all, v.Version)
		}
	}
	return all
}

func (r *rig) check(what, name string, want ...int64) {
	r.t.Helper()
	if got := r.serving(name); !slices.Equal(got, want) {
		s, _ := r.Model(name)
		r.t.Errorf("%s: versions %v of %s are in service, want %v (error %v, versions %+v)", what, got, name, want,
			s.Err, s.Versions)
	}
}

// reason returns the reason of a version; for version 0 the error of the model.
func (r *rig) reason(name string, version int64) string {
	s, _ := r.Model(name)
	if version == 0 && s.Err != nil {
		return s.Err.Error()
	}
	for _, v := range s.Versions {
		if v.Version == version {
			return v.Reason
		}
	}
	return ""
}

// ask sends a request and returns its answer's error.
func (r *rig) ask(name string) error {
	q := infer.New()
	defer q.Release()
	q.ModelName = name
	q.Inputs = append(q.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, 4},
		Data: make([]byte, 16)})
	m, err := r.Acquire(name, infer.LatestVersion)
	switch {
	case errors.Is(err, ErrEvicted):
		err = r.Await(q)
	case err == nil:
		err = m.Infer(q)
	}
	if err != nil {
		return err
	}
	resp, err := q.Next(context.Background())
	if err != nil {
		return err
	}
	defer resp.Release()
	return resp.Err
}
