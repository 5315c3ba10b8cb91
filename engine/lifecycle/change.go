package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

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
	err    error
}

// errStopping is the answer to a change that comes, or is under way, when the manager closes.
var errStopping = status.New(status.Unavailable, "the server is stopping")

// changeOne brings a model to what look finds, and before it the models of its steps, which it returns. It returns once that is in service, or has failed. look is called when no
// other change of the model is under way, so that of two changes the later one knows more. polled says that polling
// asks: it leaves a model alone that was unloaded by hand. ctx ends what waits for its turn, and the load if the
// backend can stop; Close does too.
func (m *Manager) changeOne(ctx context.Context, name string, look func() (*repo.Model, error), over *override, polled bool) (parts []string, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.open, cancel)()
	e := m.lock(name, true)
	if e == nil {
		over.remove()
		return nil, errStopping
	}
	defer e.op.Unlock()
	src, err := look()
	if err != nil {
		over.remove()
		m.dropUntried(e, err)
		return nil, notPolled(name, err)
	}
	m.mu.Lock()
	if m.closed || polled && e.held {
		closed := m.closed
		m.mu.Unlock()
		over.remove()
		if closed {
			return nil, errStopping
		}
		return nil, nil
	}
	same := e.src != nil && e.src.Equal(src) && over == nil && e.settled()
	if over == nil && e.override != nil && e.override.folder == "" && e.src != nil && e.src.Equal(src) {
		over = e.override // an unchanged model keeps its earlier override
	}
	m.mu.Unlock()
	if same {
		return nil, nil
	}
	parts, circular := m.loadParts(ctx, src, over, polled)
	if err := m.turn(ctx, e); err != nil {
		if over != e.override {
			over.remove()
		}
		return parts, err
	}
	defer func() { <-m.loads }()

	plan, err := m.prepare(ctx, src, over)
	if err == nil {
		err = circular
	}
	if err != nil {
		return parts, m.failWhole(e, src, over, plan, err)
	}
	return parts, m.apply(ctx, e, src, over, plan)
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
		e.wanted, e.held = true, false
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

// settled reports whether every version that is to serve does. Manager.mu is held.
func (e *entry) settled() bool {
	if e.err != nil || len(e.versions) == 0 {
		return false
	}
	ready := 0
	for _, v := range e.versions {
		switch {
		case v.state == Ready && v.reason == nil:
			ready++
		case v.state == Unavailable && v.reason == errUnloaded:
		default:
			return false
		}
	}
	return ready > 0
}

// failWhole notes that the folder or the configuration is at fault: nothing was tried, what serves goes on.
func (m *Manager) failWhole(e *entry, src *repo.Model, over *override, plan *plan, err error) error {
	m.mu.Lock()
	e.err = err
	kept := false
	for _, v := range e.versions {
		kept = kept || v.model != nil
	}
	if over == e.override { // else what was brought with the request goes, and the folder is to be looked at as before
		e.src = src
		if plan != nil && plan.text != "" {
			e.text = plan.text
		}
	} else {
		over.remove()
	}
	if !kept && m.table.Load().models[e.name] == nil {
		m.table.Store(m.table.Load().with(e.name, nil, plan != nil && plan.versionsMissing))
	}
	m.mu.Unlock()
	m.o.Events.failed(e.name, 0, err, kept)
	if plan != nil && plan.versionsMissing {
		return status.Errorf(status.InvalidArg, "load failed for model '%s': %w\n", e.name, err)
	}
	return notPolled(e.name, err)
}

// apply loads what the plan asks for and swaps it in. e.op is held.
func (m *Manager) apply(ctx context.Context, e *entry, src *repo.Model, over *override, p *plan) error {
	results := make([]outcome, len(p.versions))
	var wg sync.WaitGroup
	for i, n := range p.versions {
		results[i].number = n
		if m.keeps(ctx, e, src, p, n, &results[i]) {
			continue
		}
		m.o.Events.loading(e.name, n)
		wg.Add(1)
		go func() {
			defer wg.Done()
			results[i].model, results[i].err = m.loadVersion(ctx, src, p, n)
		}()
	}
	wg.Wait()
	return m.commit(e, src, over, p, results)
}

// keeps reports whether version n in service already is what the plan wants, resizing its instances if that is all
// that differs; else it marks the version as loading.
func (m *Manager) keeps(ctx context.Context, e *entry, src *repo.Model, p *plan, n int64, out *outcome) bool {
	m.mu.Lock()
	v := e.versions[n]
	if v == nil {
		v = &version{number: n}
		e.versions[n] = v
	}
	current := v.model
	sameFiles := current != nil && v.src == src.Versions[n] && e.src != nil && e.src.Folder == src.Folder
	if current == nil {
		v.state, v.reason = Loading, nil
	}
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
	if err := p.faults[n]; err != nil {
		return nil, err
	}
	return model.Load(ctx, model.Spec{
		Name: src.Name, Version: n, Config: p.cfg, ModelFolder: src.Folder,
		VersionFolder: versionFolder(src, n), Backend: p.backend, Host: m.o.Host,
		Stats: m.o.Stats.Version(src.Name, n), Log: m.o.Log, Models: m.partConfig, Cache: m.o.Cache,
	})
}

// commit puts what was loaded into service and takes out what it replaces, in one step. e.op is held.
func (m *Manager) commit(e *entry, src *repo.Model, over *override, p *plan, results []outcome) error {
	var failed []outcome
	m.mu.Lock()
	inService := map[int64]*model.Model{}
	for n, v := range e.versions {
		if v.model != nil {
			inService[n] = v.model
		}
	}
	hadService := len(inService) > 0
	for _, r := range results {
		if r.err != nil {
			failed = append(failed, r)
		} else if r.model != nil {
			inService[r.number] = r.model
		}
	}
	// Versions that are not wanted any more leave only if everything that is to come in their place has come.
	if len(failed) == 0 || !keepOld {
		for n := range inService {
			if !slices.Contains(p.versions, n) {
				delete(inService, n)
			}
		}
	}
	m.table.Store(m.table.Load().with(e.name, maps.Clone(inService), true))
	reloads := m.settle(e, src, results, inService)
	m.adopt(e, src, over, p, len(failed) == len(results))
	m.mu.Unlock()

	for _, r := range results {
		if r.model != nil {
			m.o.Events.loaded(e.name, r.number, r.model.LoadTime(), reloads[r.number])
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
func (m *Manager) adopt(e *entry, src *repo.Model, over *override, p *plan, nothing bool) {
	old := e.override
	if nothing && over != nil && over != old {
		over.remove()
		return
	}
	e.src, e.cfg, e.text, e.err, e.override = src, p.cfg, p.text, nil, over
	if old != over {
		old.remove()
	}
}

// settle brings the versions' states in line with what is now in service. m.mu is held.
func (m *Manager) settle(e *entry, src *repo.Model, results []outcome, inService map[int64]*model.Model) map[int64]bool {
	reloads := map[int64]bool{}
	for _, r := range results {
		v := e.versions[r.number]
		switch {
		case r.err != nil && v.model != nil:
			v.reason = status.Errorf(status.CodeOf(r.err), "reload failed, the version loaded before goes on serving: %w", r.err)
		case r.err != nil:
			v.state, v.reason = Unavailable, r.err
		default:
			v.reason = nil
			v.src, v.shared, v.rest = src.Versions[r.number], src.Shared, src.Rest
		}
		if r.model != nil {
			if v.model != nil {
				reloads[r.number] = true
				v.reloads++
				m.drain(e, v, false)
			}
			v.model, v.state, v.since, v.left = r.model, Ready, time.Now(), nil
		}
	}
	for n, v := range e.versions {
		if v.model != nil && inService[n] == nil {
			m.drain(e, v, true)
		}
		if _, there := src.Versions[n]; !there && v.model == nil && v.drains == 0 && v.reason != errUnloaded {
			delete(e.versions, n) // it never served and its folder is gone
		}
	}
	return reloads
}
