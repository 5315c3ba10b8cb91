package lifecycle

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/residency"
	"nereid/engine/shadow"
	"nereid/engine/stats"
	"nereid/engine/status"
)

// Shadows manages candidate versions: loaded, but reached only by copies of the requests to the newest version in
// service. A model has at most one. Its methods are safe for concurrent use.
type Shadows struct{ m *Manager }

// ShadowsOf returns the candidates of a manager's models.
func ShadowsOf(m *Manager) Shadows { return Shadows{m} }

// ShadowOptions say which version is the candidate, and what it gets.
type ShadowOptions struct {
	Version int64
	// Percent of the requests are copied, above 0 and up to 100.
	Percent float64
	Rule    shadow.Rule
	// WhenBusy copies requests also while less than half a core is idle.
	WhenBusy bool
}

// ShadowStatus describes a candidate, or the last one of a model.
type ShadowStatus struct {
	ShadowOptions
	shadow.Report
	Served int64 // the version in service whose requests are copied
	Since  time.Time
	Ended  string // why it ended; "" while it runs
}

// shadowing is the candidate of an entry. Its fields but ended, which Manager.mu guards, do not change.
type shadowing struct {
	*shadow.Shadow
	o                 ShadowOptions
	served, candidate *model.Model
	files             repo.Fingerprint // of the candidate
	since             time.Time
	stop              context.CancelFunc
	stopped           chan struct{} // closed when the goroutine of Run has ended
	ended             string
}

// Start loads a candidate. Errors: those of a load, NotFound for a version that is not in the repository, Unsupported
// for a model whose requests cannot be copied, Unavailable if the version or another candidate is loaded.
func (s Shadows) Start(ctx context.Context, name string, o ShadowOptions) error {
	m := s.m
	if !(o.Percent > 0 && o.Percent <= 100) {
		return status.Errorf(status.InvalidArg, "percent is %v; it must be above 0 and at most 100", o.Percent)
	}
	name, err := m.key(name)
	if err != nil {
		return err
	}
	c, err := m.begin(ctx, name, nil, func(*entry) (*repo.Model, error) { return m.find(name) })
	if err != nil {
		return err
	}
	defer c.end()
	served, err := c.shadowed(o.Version)
	if err != nil {
		return err
	}
	p, err := m.loader.prepare(c.ctx, c.src, c.over, choice{only: o.Version})
	if err != nil {
		return c.because(err)
	}
	if err := p.faults[o.Version]; err != nil {
		return err
	}
	if !proto.Equal(p.cfg, served.Config()) {
		return status.Errorf(status.Unavailable,
			"the configuration of model '%s' in the repository is not the one in service; load the model first", name)
	}
	candidate, err := c.loadCandidate(p, o.Version)
	if err != nil {
		return c.because(err)
	}
	c.attach(served, candidate, p, o)
	m.o.Events.changed()
	return nil
}

// shadowed returns the version whose requests a candidate is to get.
func (c *change) shadowed(candidate int64) (*model.Model, error) {
	m, e := c.m, c.e
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table.Load().models[e.name]
	switch {
	case t == nil || t.latest == nil:
		return nil, status.Errorf(status.Unavailable, "no version of model '%s' is loaded; load one first", e.name)
	case e.shadow != nil && e.shadow.ended == "":
		return nil, status.Errorf(status.Unavailable,
			"version %d of model '%s' is a candidate already; discard it first", e.shadow.o.Version, e.name)
	case e.versions[candidate].serves():
		return nil, status.Errorf(status.Unavailable,
			"version %d of model '%s' is in service; unload it to make it a candidate", candidate, e.name)
	}
	return t.latest, cannotShadow(t.latest)
}

// cannotShadow returns Unsupported for a model whose requests cannot be copied.
func cannotShadow(mod *model.Model) error {
	cfg, why := mod.Config(), ""
	switch {
	case cfg.GetEnsembleScheduling() != nil:
		why = "it is an ensemble; use a candidate for the models of its steps"
	case cfg.GetSequenceBatching() != nil:
		why = "it has sequences, whose requests depend on those before"
	case mod.Decoupled():
		why = "it is decoupled: a request may have any number of responses"
	case len(cfg.GetModelRepositoryAgents().GetAgents()) > 0:
		why = "it has repository agents"
	}
	for _, in := range cfg.GetInput() {
		if in.GetReshape() != nil {
			why = "its input '" + in.GetName() + "' has a reshape"
		}
	}
	if why == "" {
		return nil
	}
	return status.Errorf(status.Unsupported, "model '%s' cannot have a candidate: %s", mod.Name(), why)
}

// loadCandidate loads a version beside those in service, with statistics that nobody reads and without the cache.
func (c *change) loadCandidate(p *plan, n int64) (*model.Model, error) {
	m, limited := c.m, c.m.o.Residency.Enabled()
	select {
	case m.loads <- struct{}{}:
		defer func() { <-m.loads }()
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	if limited {
		need := residency.AmountOf(model.EstimateMemory(p.cfg, versionFolder(p.src, n)))
		if err := c.e.account.Reserve(c.ctx, need, false); err != nil {
			return nil, err
		}
	}
	spec := m.loader.modelSpec(p, n)
	spec.Cache, spec.Stats = nil, stats.NewRegistry(stats.Detail{}).Version(p.src.Key, n)
	candidate, err := m.loader.loadSpec(c.ctx, spec)
	if err == nil && limited {
		err = c.e.account.Reserve(c.ctx, residency.Measure([]*model.Model{candidate}), true)
	}
	if err != nil {
		if candidate != nil {
			_ = candidate.Close(c.ctx) // the reason why it does not fit says more
		}
		c.e.account.EndLoad()
		return nil, err
	}
	return candidate, nil
}

// attach lets a candidate get copies of requests.
func (c *change) attach(served, candidate *model.Model, p *plan, o ShadowOptions) {
	m, e := c.m, c.e
	so := shadow.Options{Candidate: candidate, Percent: o.Percent, Rule: o.Rule, Memory: m.o.RequestMemory,
		Busy: m.loader.cores.Busy}
	if o.WhenBusy {
		so.Busy = nil
	}
	ctx, stop := context.WithCancel(m.hard)
	s := &shadowing{Shadow: shadow.New(so), o: o, served: served, candidate: candidate,
		files: p.src.Versions[o.Version], since: time.Now(), stop: stop, stopped: make(chan struct{})}
	m.wg.Go(func() {
		defer close(s.stopped)
		s.Run(ctx)
	})
	m.mu.Lock()
	e.shadow = s
	served.SetShadow(s.Shadow)
	e.account.SetModels(e.inMemory())
	m.mu.Unlock()
	e.account.EndLoad()
}

// inMemory returns the models that count as the entry's memory. Manager.mu is held.
func (e *entry) inMemory() []*model.Model {
	all := e.models()
	if e.shadow != nil && e.shadow.ended == "" {
		all = append(all, e.shadow.candidate)
	}
	return all
}

// whyEnd returns why an event ends the candidate, "" if it does not. Manager.mu is held.
func (e *entry) whyEnd(ev event) string {
	s := e.shadow
	if s == nil || s.ended != "" {
		return ""
	}
	t, changed := ev.(tried)
	switch {
	case e.versions[s.served.Version()].model != s.served:
		return "the version in service was unloaded, evicted or loaded again"
	case e.versions[s.o.Version].serves():
		return "the candidate is in service"
	case changed && !t.void && t.src.Versions[s.o.Version] != s.files:
		return "the files of the candidate changed or were removed"
	}
	return ""
}

// end ends the candidate of an entry, whose reason is set already and which SetModels has left out. It is closed
// once it has answered. Manager.mu is held.
func (s Shadows) end(e *entry) {
	m, shadow := s.m, e.shadow
	shadow.served.SetShadow(nil)
	shadow.stop()
	size := e.account.Leave(shadow.candidate)
	m.wg.Go(func() {
		<-shadow.stopped
		if err := shadow.candidate.Close(m.hard); err != nil {
			m.o.Log.Error("closing a candidate failed", "model", e.name, "version", shadow.o.Version, "err", err)
		}
		m.mu.Lock()
		m.memory.Closed(size)
		m.mu.Unlock()
		m.o.Events.changed()
	})
}

// Status returns the candidate of a model, or the last one; false if it never had one.
func (s Shadows) Status(name string) (out ShadowStatus, ok bool) {
	key, err := s.m.key(name)
	if err != nil {
		return out, false
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	e := s.m.entries[key]
	if e == nil || e.shadow == nil {
		return out, false
	}
	return ShadowStatus{e.shadow.o, e.shadow.Report(), e.shadow.served.Version(), e.shadow.since, e.shadow.ended}, true
}

// Discard ends the candidate of a model. why is shown. Errors: NotFound without a candidate.
func (s Shadows) Discard(name, why string) error {
	key, err := s.m.key(name)
	if err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	e := s.m.entries[key]
	if e == nil || e.shadow == nil || e.shadow.ended != "" {
		return status.Errorf(status.NotFound, "model '%s' has no candidate", name)
	}
	e.shadow.ended = why
	e.account.SetModels(e.inMemory())
	s.end(e)
	return nil
}

// Promote takes the candidate into service, and then the version that it was compared with out of service: LoadVersion
// and UnloadVersion. Errors: theirs, and Discard's. After an error of LoadVersion everything serves as before.
func (s Shadows) Promote(ctx context.Context, name string) error {
	was, _ := s.Status(name)
	if err := s.Discard(name, "promoted"); err != nil {
		return err
	}
	if err := s.m.LoadVersion(ctx, name, was.Version); err != nil {
		return err
	}
	return s.m.UnloadVersion(name, was.Served)
}
