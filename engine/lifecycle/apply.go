package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/modelconfig"
	"nereid/engine/residency"
	"nereid/engine/status"
)

// outcome is what became of one version in a change.
type outcome struct {
	number int64
	model  *model.Model // loaded; nil if kept or failed
	kept   bool         // what is in service needs no loading
	// resized: it is kept, with the instances of the new configuration.
	resized bool
	// untouched: not looked at, since another version is loaded alone.
	untouched bool
	// stub, if not nil, says that the version is to be loaded by its first request, and what that request sees of it.
	stub infer.Served
	err  error
}

// apply loads what the plan asks for and puts it into service.
func (c *change) apply(p *plan) error {
	results := make([]outcome, len(p.versions))
	var wanting []*outcome // to be loaded
	for i, n := range p.versions {
		r := &results[i]
		r.number = n
		switch {
		case c.only != 0 && n != c.only:
			r.kept, r.untouched = true, true
		case c.keep(p, r):
		case p.faults[n] != nil:
			r.err = p.faults[n]
		default:
			wanting = append(wanting, r)
		}
	}
	defer c.e.account.EndLoad()
	later, err := c.makeRoom(p, wanting)
	switch {
	case err != nil && c.whenFull == stayEvicted: // nothing was tried
		p.chain.failed()
		c.m.mu.Lock()
		c.m.step(c.e, unloadable{err})
		c.m.mu.Unlock()
		return err
	case err != nil:
		for _, r := range wanting {
			r.err = err
		}
	case !later:
		c.loadAll(p, wanting)
	}
	for i := range results {
		results[i].err = c.because(results[i].err)
	}
	p.chain.loaded(results)
	return c.commit(p, results)
}

// keep reports whether a version in service already is what the plan wants. If only the instances or the version policy
// differ, it changes these. Otherwise the version is marked as loading.
func (c *change) keep(p *plan, out *outcome) bool {
	m, e, src, n := c.m, c.e, c.src, out.number
	m.mu.Lock()
	if !e.versions[n].serves() { // its statistics begin again, also while an old model executes its last requests
		m.stats.Remove(e.name, n)
	}
	m.step(e, loading{[]int64{n}})
	v := e.versions[n]
	current := v.model
	sameFiles := current != nil && !v.lost() && v.src == src.Versions[n] && e.src != nil && e.src.Folder == src.Folder
	m.mu.Unlock()
	if !sameFiles {
		return false
	}
	switch cfg := current.Config(); {
	case (v.shared == src.Shared || v.rest == src.Rest) && proto.Equal(cfg, p.cfg):
		out.kept = true
	case v.rest == src.Rest && modelconfig.ChangesInPlace(cfg, p.cfg):
		out.err = current.Resize(c.ctx, p.cfg)
		out.kept = out.err == nil
		out.resized = out.kept
	default:
		return false
	}
	return true
}

// resourcesFirst reports whether a reload is to release memory before it takes new: the policy of the model, or else
// the server's.
func (o *Options) resourcesFirst(cfg *inferencepb.ModelConfig) bool {
	switch cfg.GetParameters()[reloadParameter].GetStringValue() {
	case ReloadResources:
		return true
	case ReloadAvailability:
		return false
	}
	return o.ResourcesFirst
}

// The reload policies, as the model parameter reload_policy and the option name them.
const (
	reloadParameter = "reload_policy"
	// ReloadAvailability: the version in service stays until the new one is ready. Both take memory meanwhile.
	ReloadAvailability = "availability_first"
	// ReloadResources: the version in service releases its memory first. Requests that come meanwhile wait for the new
	// one.
	ReloadResources = "resources_first"
)

// Parameters are the names of the model parameters that the server itself reads, whatever the backend.
func Parameters() []string { return []string{residency.PinParameter, reloadParameter} }

// makeRoom reserves memory for versions. With the policy ReloadResources it first evicts what they replace. later says
// that the versions go into service without being loaded, until their first request.
func (c *change) makeRoom(p *plan, wanting []*outcome) (later bool, err error) {
	if len(wanting) == 0 {
		return false, nil
	}
	if c.m.o.resourcesFirst(p.cfg) {
		c.evictReplaced(p, wanting)
	}
	if !c.m.o.Residency.Enabled() {
		return false, nil
	}
	c.m.mu.Lock()
	same, first := c.e.src != nil && c.e.src.Equal(c.src), !c.e.serves()
	c.m.mu.Unlock()
	account := c.e.account
	need := account.Estimate(same, func() (sizes []model.Memory) {
		for _, r := range wanting {
			sizes = append(sizes, model.EstimateMemory(p.cfg, versionFolder(p.src, r.number)))
		}
		return sizes
	})
	if first && c.whenFull == loadLater && !residency.PinnedBy(p.cfg) && p.cfg.GetEnsembleScheduling() == nil &&
		!account.Fits(need) {
		for _, r := range wanting {
			if stub, err := model.NewStub(p.src.Name, r.number, p.cfg, p.src.Folder); err != nil {
				r.err = err
			} else {
				r.stub = stub
			}
		}
		return true, nil
	}
	return false, account.Reserve(c.ctx, need, false)
}

// evictReplaced evicts what is to be replaced and waits until it is closed, and models that it replaced before too.
// Requests wait meanwhile. A model with a live sequence stays for that.
func (c *change) evictReplaced(p *plan, wanting []*outcome) {
	m, e := c.m, c.e
	var leave []int64
	m.mu.Lock()
	for n, v := range e.versions {
		replaced := slices.ContainsFunc(wanting, func(r *outcome) bool { return r.number == n })
		if v.model != nil && !v.model.HasSequences() && (replaced || !slices.Contains(p.versions, n)) {
			leave = append(leave, n)
		}
	}
	if len(leave) > 0 {
		m.step(e, eviction{leave})
	}
	m.mu.Unlock()
	for {
		freed := m.memory.Freed()
		m.mu.Lock()
		open := slices.ContainsFunc(leave, func(n int64) bool { return e.versions[n].drains > 0 })
		m.mu.Unlock()
		if !open {
			return
		}
		select {
		case <-freed:
		case <-c.ctx.Done():
			return
		}
	}
}

// loadAll loads versions, all at once. Those that turn out not to fit into memory are closed again.
func (c *change) loadAll(p *plan, wanting []*outcome) {
	var wg sync.WaitGroup
	for _, r := range wanting {
		c.m.o.Events.loading(c.e.name, r.number)
		wg.Go(func() {
			r.model, r.err = c.m.loader.load(c.ctx, p, r.number)
		})
	}
	wg.Wait()
	err := c.fit(wanting)
	if err == nil {
		return
	}
	for _, r := range wanting {
		if r.model != nil {
			if cerr := r.model.Close(c.ctx); cerr != nil {
				c.m.o.Log.Error("closing a model that does not fit", "model", c.e.name, "version", r.number, "err",
					cerr)
			}
			r.model, r.err = nil, err
		}
	}
}

// fit makes room for what was loaded, now that its size can be measured.
func (c *change) fit(loaded []*outcome) error {
	if !c.m.o.Residency.Enabled() {
		return nil
	}
	var models []*model.Model
	for _, r := range loaded {
		if r.model != nil {
			models = append(models, r.model)
		}
	}
	return c.e.account.Reserve(c.ctx, residency.Measure(models), true)
}

// commit puts what was loaded into service and takes out what it replaces, in one step.
func (c *change) commit(p *plan, results []outcome) error {
	m, e, src := c.m, c.e, c.src
	var failed []outcome
	untouched := 0
	for _, r := range results {
		if r.err != nil {
			failed = append(failed, r)
		} else if r.untouched {
			untouched++
		}
	}
	m.mu.Lock()
	hadService := e.serves()
	replaces := hadService && e.override.hasFiles() && c.over != e.override
	void := (c.fresh || replaces) && len(failed)+untouched == len(results)
	fx := m.step(e, tried{src: src, wanted: p.versions, results: results, at: time.Now(), void: void})
	switch {
	case c.only != 0:
		src = c.noteSingle(p, len(failed) == 0)
	case c.over != nil && !c.fresh && e.src != nil:
		src = e.src // what the override came with: a load without one compares the folder with that
	case c.whenFull == stayEvicted:
		src = c.noteAgain(p)
	}
	earlier := e.text
	if void {
		c.discardFresh()
	} else {
		for _, r := range results {
			if r.model != nil && c.over != nil {
				c.over.hold()
				m.overrides[r.model] = c.over
			}
		}
		c.over.hold()
		e.override.release()
		e.src, e.cfg, e.refused, e.text, e.override = src, p.cfg, nil, p.text, c.over
		e.account.SetConfig(p.cfg)
	}
	m.mu.Unlock()
	if c.fresh && !void {
		m.o.Events.overridden(e.name, earlier, c.over.config)
	}
	for _, r := range results {
		switch {
		case r.model != nil:
			m.o.Events.loaded(e.name, r.number, r.model.LoadTime(), fx.reloaded[r.number])
		case r.resized:
			m.o.Events.resized(e.name, r.number)
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
