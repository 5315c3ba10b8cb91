package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/model"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// outcome is what became of one version in a change.
type outcome struct {
	number int64
	model  *model.Model // loaded; nil if kept or failed
	kept   bool         // what is in service needs no loading
	// untouched: not looked at, since another version is loaded alone.
	untouched bool
	// face, if not nil, says that the version is to be loaded by its first request, and what that sees of it.
	face infer.Served
	err  error
}

// errStopping is the answer to a change that comes, or is under way, when the manager closes.
var errStopping = status.New(status.Unavailable, "the server is stopping")

// task is a change of a model that somebody asks for.
type task struct {
	// look finds what the model is to be. It is called when no other change of the model is under way, so that of two
	// changes the later one knows more.
	look func() (*repo.Model, error)
	over *override
	// polled: polling asks. It leaves a model alone that was unloaded by hand.
	polled bool
	// byHand: a load request asks, so that versions loaded or unloaded alone before count no more.
	byHand bool
	// asked: the model is loaded by its name, so that unloading an ensemble that has it as a step leaves it.
	asked bool
	// deep: the models of an ensemble's steps are looked at although the ensemble is as it was.
	deep bool
	// seen holds the models of steps that this change has looked at: none is twice.
	seen map[string]bool
	// clear holds the models from which no steps lead back to where this change began.
	clear map[string]bool
	// only, if not 0, is the version to be loaded alone.
	only int64
	// relink: steps of the ensemble are to run other repositories' models than they do.
	relink bool
	// wake: a request waits for an evicted model. What is not evicted is left alone.
	wake bool
}

// changeOne brings a model to what t asks for, and before it the models of its steps, which it returns; kept says that the
// model itself was not touched. It returns once
// that is in service, or has failed. ctx ends what waits for its turn, and the load if the backend can stop; Close does
// too.
func (m *Manager) changeOne(ctx context.Context, name string, t task) (parts []string, kept bool, _ error) {
	over := t.over
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.open, cancel)()
	e := m.lock(name, true)
	if e == nil {
		over.remove()
		return nil, true, errStopping
	}
	defer e.op.Unlock()
	if t.wake && !m.asleep(e) {
		return nil, true, nil
	}
	src, err := t.look()
	if err != nil {
		over.remove()
		m.dropUntried(e, err)
		return nil, true, notPolled(name, err)
	}
	m.mu.Lock()
	if m.closed || t.polled && e.held {
		closed := m.closed
		m.mu.Unlock()
		over.remove()
		if closed {
			return nil, true, errStopping
		}
		return nil, true, nil
	}
	e.asked = e.asked || t.asked
	e.waits = nil
	if t.byHand && t.only == 0 && len(e.picked) > 0 {
		m.step(e, whole{})
		e.src = nil // what serves is not what the policy says
	}
	same := !t.relink && e.src != nil && e.src.Equal(src) && over == nil && e.settled() && (t.only == 0 || e.versions[t.only].model != nil)
	if over == nil && e.override != nil && (t.wake || t.relink || e.override.folder == "") && e.src != nil && e.src.Equal(src) {
		over = e.override // an unchanged model keeps its earlier override
	}
	m.mu.Unlock()
	if same {
		if t.deep { // as Triton: a load request brings the models of the steps up to date even so
			parts, _ = m.loadParts(ctx, src, over, t)
		}
		return parts, true, nil
	}
	parts, circular := m.loadParts(ctx, src, over, t)
	if err := m.turn(ctx, e); err != nil {
		if over != e.override {
			over.remove()
		}
		return parts, true, err
	}
	defer func() { <-m.loads }()

	plan, err := m.prepare(ctx, src, over, m.choose(e, t.only))
	if err == nil {
		err = circular
	}
	if err != nil {
		if plan != nil && plan.chain != nil {
			plan.chain.failed()
		}
		return parts, false, m.failWhole(e, src, over, plan, err)
	}
	return parts, false, m.apply(ctx, e, src, over, plan, t)
}

// turn waits until the model may load, of which so many may at once. On nil the caller gives its place back.
func (m *Manager) turn(ctx context.Context, e *entry) error {
	place := false
	select {
	case m.loads <- struct{}{}:
		place = true
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err := ctx.Err() // also beside a place: the load that made it may have ended for the same reason
	if err == nil && !m.closed {
		m.step(e, claimed{})
		return nil
	}
	if place {
		<-m.loads
	}
	if m.closed {
		return errStopping
	}
	return status.Errorf(status.Cancelled, "load of model '%s' was given up while it waited for others: %w", e.name, err)
}

// dropUntried forgets a model that is not there and that nothing was ever tried with. e.op is held.
func (m *Manager) dropUntried(e *entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if status.CodeOf(err) == status.NotFound && e.src == nil && len(e.versions) == 0 {
		delete(m.entries, e.name)
	}
}

// failWhole notes that the folder or the configuration is at fault: nothing was tried, what serves goes on.
func (m *Manager) failWhole(e *entry, src *repo.Model, over *override, plan *plan, err error) error {
	m.mu.Lock()
	m.step(e, refused{err})
	kept := e.serves()
	if over == e.override { // else what was brought with the request goes, and the folder is to be looked at as before
		e.src = src
		if plan != nil && plan.text != "" {
			e.text = plan.text
		}
	} else {
		over.remove()
	}
	if !kept && plan != nil && plan.versionsMissing && m.table.Load().models[e.name] == nil {
		m.table.Store(m.table.Load().with(e.name, nil, e.wanted)) // known, but without versions
	}
	m.mu.Unlock()
	m.o.Events.failed(e.name, 0, err, kept)
	if plan != nil && plan.versionsMissing {
		return status.Errorf(status.InvalidArg, "load failed for model '%s': %w\n", e.name, err)
	}
	return notPolled(e.name, err)
}

// apply loads what the plan asks for and swaps it in. e.op is held.
func (m *Manager) apply(ctx context.Context, e *entry, src *repo.Model, over *override, p *plan, t task) error {
	results := make([]outcome, len(p.versions))
	var wanting []*outcome // to be loaded
	for i, n := range p.versions {
		r := &results[i]
		r.number = n
		switch {
		case t.only != 0 && n != t.only:
			r.kept, r.untouched = true, true
		case m.keeps(ctx, e, src, p, n, r):
		case p.faults[n] != nil:
			r.err = p.faults[n]
		default:
			wanting = append(wanting, r)
		}
	}
	defer m.release(e)
	if shelved, err := m.admit(ctx, e, src, p, wanting, t); err != nil {
		if t.wake { // nothing was tried, it stays evicted
			if p.chain != nil {
				p.chain.failed()
			}
			return err
		}
		for _, r := range wanting {
			r.err = err
		}
	} else if !shelved {
		m.loadAll(ctx, e, p, wanting)
	}
	m.bind(p.chain, results)
	return m.commit(e, src, over, p, results, t.only)
}

// loadAll loads versions side by side. What does not fit into the budget of memory after all is closed again.
func (m *Manager) loadAll(ctx context.Context, e *entry, p *plan, wanting []*outcome) {
	var wg sync.WaitGroup
	for _, r := range wanting {
		m.o.Events.loading(e.name, r.number)
		wg.Add(1)
		go func() {
			defer wg.Done()
			r.model, r.err = m.loadVersion(ctx, p.src, p, r.number)
		}()
	}
	wg.Wait()
	err := m.fit(ctx, e, wanting)
	if err == nil {
		return
	}
	for _, r := range wanting {
		if r.model != nil {
			if cerr := r.model.Close(ctx); cerr != nil {
				m.o.Log.Error("closing a model that does not fit", "model", e.name, "version", r.number, "err", cerr)
			}
			r.model, r.err = nil, err
		}
	}
}

// keeps reports whether version n in service already is what the plan wants, resizing its instances if that is all
// that differs; else it marks the version as loading.
func (m *Manager) keeps(ctx context.Context, e *entry, src *repo.Model, p *plan, n int64, out *outcome) bool {
	m.mu.Lock()
	if !e.versions[n].serves() { // it begins anew, also where an old one that was unloaded is still at its last requests
		m.o.Stats.Remove(e.name, n)
	}
	m.step(e, loading{[]int64{n}})
	v := e.versions[n]
	current := v.model
	sameFiles := current != nil && v.src == src.Versions[n] && e.src != nil && e.src.Folder == src.Folder
	sameShared, sameRest := v.shared == src.Shared, v.rest == src.Rest
	m.mu.Unlock()
	if !sameFiles {
		return false
	}
	switch cfg := current.Config(); {
	case sameShared && proto.Equal(cfg, p.cfg):
		out.kept = true
		return true
	case sameRest && modelconfig.OnlyInstanceCountsDiffer(cfg, p.cfg):
		if out.err = current.Resize(ctx, p.cfg); out.err == nil {
			out.kept = true
		}
		return true
	}
	return false
}

func (m *Manager) loadVersion(ctx context.Context, src *repo.Model, p *plan, n int64) (*model.Model, error) {
	for try := 0; ; try++ {
		mod, err := m.loadOnce(ctx, src, p, n)
		if err == nil || try == m.o.LoadRetries || ctx.Err() != nil {
			return mod, err
		}
		m.o.Log.Warn("a version failed to load and is tried again", "model", src.Name, "version", n, "try", try+2, "of", m.o.LoadRetries+1, "err", err)
	}
}

func (m *Manager) loadOnce(ctx context.Context, src *repo.Model, p *plan, n int64) (*model.Model, error) {
	return model.Load(ctx, model.Spec{
		Name: src.Name, Version: n, Config: p.cfg, ModelFolder: src.Folder,
		VersionFolder: versionFolder(src, n), Backend: p.backend, Host: m.o.Host,
		Stats: m.o.Stats.Version(src.Key, n), Log: m.o.Log, Models: m.partConfig, Cache: m.o.Cache, Cores: m.cores, Slices: &m.slices, Limiter: m.o.Limiter, Machine: m.o.Machine, GPULimits: m.o.GPULimits,
		HostPolicies: m.o.HostPolicies,
		NoteUse:      m.o.Residency.on(),
	})
}

// commit puts what was loaded into service and takes out what it replaces, in one step. e.op is held.
func (m *Manager) commit(e *entry, src *repo.Model, over *override, p *plan, results []outcome, only int64) error {
	var failed []outcome
	for _, r := range results {
		if r.err != nil {
			failed = append(failed, r)
		}
	}
	m.mu.Lock()
	hadService := e.serves()
	void := len(failed) == len(results) && over != nil && over != e.override
	fx := m.step(e, tried{src: src, wanted: p.versions, results: results, at: time.Now(), void: void})
	if only != 0 {
		src = m.note(e, src, p, only, len(failed) == 0)
	}
	earlier, fresh := e.text, over != nil && over != e.override && !void
	m.adopt(e, src, over, p, void)
	m.mu.Unlock()
	if fresh {
		m.o.Events.overridden(e.name, earlier, over.config)
	}

	for _, r := range results {
		if r.model != nil {
			m.o.Events.loaded(e.name, r.number, r.model.LoadTime(), fx.reloaded[r.number])
		}
	}
	if len(failed) == 0 {
		m.o.Events.ready(e.name)
		return nil
	}
	var text strings.Builder
	for _, r := range failed {
		m.o.Events.failed(e.name, r.number, r.err, hadService)
		fmt.Fprintf(&text, "version %d is at UNAVAILABLE state: %s;\n", r.number, status.Reason(r.err))
	}
	return status.Errorf(status.InvalidArg, "load failed for model '%s': %s", e.name, text.String())
}

// adopt notes what the model came from. An override that brought nothing goes again. m.mu is held.
func (m *Manager) adopt(e *entry, src *repo.Model, over *override, p *plan, void bool) {
	if void {
		over.remove()
		return
	}
	old := e.override
	e.src, e.cfg, e.text, e.override = src, p.cfg, p.text, over
	if old != over {
		old.remove()
	}
}
