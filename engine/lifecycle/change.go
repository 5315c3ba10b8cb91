package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"nereid/engine/ensemble"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// errStopping is the error of a change that begins, or is under way, when the manager closes.
var errStopping = status.New(status.Unavailable, "the server is stopping")

// errUnloadedMeanwhile is the error of a load that an unload has cancelled.
var errUnloadedMeanwhile = status.New(status.Cancelled,
	"the load was cancelled because the model was unloaded meanwhile")

const (
	// unloadGrace is how long an unload lets a load of the model go on before it cancels the load.
	unloadGrace = 5 * time.Second
	// placeTime is how long a load counts for Options.LoadThreads. One that takes longer is large or hangs, and must
	// not keep other models from loading.
	placeTime = time.Minute
)

// whenFull says what becomes of versions for which there is no room in memory.
type whenFull int

const (
	// loadLater: versions of a model that is not in service yet go into service without being loaded, until their first
	// request. Others wait for room.
	loadLater   whenFull = iota
	waitForRoom          // they wait, and fail in the end
	stayEvicted          // they wait, and stay evicted in the end
)

// change is one change of a model. begin makes it, and end ends it; between the two the entry's op is held.
type change struct {
	m    *Manager
	e    *entry
	ctx  context.Context // ends the change early, with a cause; also when the manager closes
	stop func()
	// cancel ends ctx with a cause.
	cancel context.CancelCauseFunc
	src    *repo.Model // what the model is to be
	// over replaces files of the repository; nil: it does not. It is the entry's unless fresh.
	over     *override
	fresh    bool  // over came with this change
	only     int64 // the version to be loaded alone; 0: all that the model is to serve
	whenFull whenFull
}

// begin locks a model and finds out what it is to be. look is called while no other change of the model is under way,
// so that of two changes the later one knows more. begin returns nil, and no error, if look finds that there is nothing
// to do. over may be nil.
func (m *Manager) begin(
	ctx context.Context, key string, over *override, look func(*entry) (*repo.Model, error),
) (*change, error) {
	e := m.lock(key, true)
	if e == nil {
		over.remove()
		return nil, errStopping
	}
	src, err := look(e)
	if err != nil {
		m.forgetUntried(e, err)
		err = notPolled(key, err)
	}
	m.mu.Lock()
	if err == nil && m.closed {
		err = errStopping
	}
	if err != nil || src == nil {
		m.mu.Unlock()
		e.op.Unlock()
		over.remove()
		return nil, err
	}
	defer m.mu.Unlock()
	e.waits = nil
	c := &change{m: m, e: e, src: src, over: over, fresh: over != nil}
	if !c.fresh && (e.src != nil && e.src.Equal(src) || e.override.contains(src)) {
		c.over = e.override // an unchanged model keeps its override
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	detach := context.AfterFunc(m.open, func() { c.cancel(errStopping) })
	e.giveUp = c.cancel
	c.stop = func() {
		detach()
		c.cancel(nil)
	}
	return c, nil
}

func (c *change) end() {
	c.m.mu.Lock()
	c.e.giveUp = nil
	c.m.mu.Unlock()
	c.stop()
	c.e.op.Unlock()
}

// lockToUnload is lock for an unload. It cancels a load of the model that is under way for longer than unloadGrace, and
// those that come before the unload.
func (m *Manager) lockToUnload(key string) *entry {
	locked, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-locked:
				return
			case <-time.After(unloadGrace):
			}
			m.mu.Lock()
			if e := m.entries[key]; e != nil && e.giveUp != nil {
				e.giveUp(errUnloadedMeanwhile)
			}
			m.mu.Unlock()
		}
	}()
	e := m.lock(key, false)
	close(locked)
	<-done
	return e
}

// because returns the reason why the change was cancelled in place of the error that came of that.
func (c *change) because(err error) error {
	var coded *status.Error
	if cause := context.Cause(c.ctx); err != nil && errors.As(cause, &coded) {
		return cause
	}
	return err
}

// limit cancels the change after Options.LoadTimeout, until the returned function is called.
func (c *change) limit() (stop func() bool) {
	most := c.m.o.LoadTimeout
	if most == 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(most, func() {
		c.cancel(status.Errorf(status.Unavailable,
			"the load took longer than %d s and was cancelled; repair the model, or raise --model-load-timeout-secs",
			int(most.Seconds())))
	}).Stop
}

// forgetUntried forgets a model that does not exist and that was never tried. e.op is held.
func (m *Manager) forgetUntried(e *entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if status.CodeOf(err) == status.NotFound && e.src == nil && len(e.versions) == 0 {
		m.forget(e)
	}
}

// markRequested notes that the model was loaded by its own name, so that unloading an ensemble leaves it in service.
func (c *change) markRequested() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.e.requested = true
}

// keepOverride makes the change one of the model as it is, also if its folder has changed since.
func (c *change) keepOverride() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.over = c.e.override
}

// dropChoices forgets which versions were loaded or unloaded alone.
func (c *change) dropChoices() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if len(c.e.picked) > 0 {
		c.m.step(c.e, whole{})
		c.e.src = nil // what is in service is not what the version policy says
	}
}

// unchanged reports whether what is in service is what the change asks for.
func (c *change) unchanged() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	e := c.e
	return !c.fresh && e.src != nil && e.src.Equal(c.src) && e.settled() &&
		(c.only == 0 || e.versions[c.only].model != nil)
}

// load loads the models of an ensemble's steps and then the model itself, and returns once it is in service or has
// failed. kept says that the model was not touched.
func (c *change) load(o *operation) (kept bool, err error) {
	cyclic := o.loadSteps(c)
	if err := c.takePlace(); err != nil {
		c.discardFresh()
		return true, err
	}
	leave := sync.OnceFunc(func() { <-c.m.loads })
	defer leave()
	defer time.AfterFunc(placeTime, leave).Stop()
	defer c.limit()()
	p, err := c.m.loader.prepare(c.ctx, c.src, c.over, c.choose())
	if err == nil && cyclic == nil {
		cyclic = circular(c.m.wayBack(c.e.name, ensemble.StepKeys(p.cfg)))
	}
	if err == nil && cyclic == nil {
		return false, c.apply(p)
	}
	if p != nil {
		p.chain.failed()
	}
	if err == nil {
		_ = c.refuse(p, cyclic)
		return false, loadFailed(c.e.name, cyclic)
	}
	return false, c.refuse(p, c.because(err))
}

// loadFailed is Triton's error for a model of which no version can be loaded.
func loadFailed(name string, err error) error {
	return status.Errorf(status.InvalidArg, "load failed for model '%s': %w\n", name, err)
}

// takePlace waits until the model may load: only Options.LoadThreads load at once. On nil the caller gives the place
// back.
func (c *change) takePlace() error {
	m, place := c.m, false
	select {
	case m.loads <- struct{}{}:
		place = true
	case <-c.ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err := c.ctx.Err() // also with a place: the load that freed it may have ended for the same reason
	if err == nil && !m.closed {
		m.step(c.e, claimed{})
		return nil
	}
	if place {
		<-m.loads
	}
	if m.closed {
		return errStopping
	}
	return status.Errorf(status.Cancelled, "load of model '%s' was given up while it waited for others: %w", c.e.name,
		c.because(err))
}

// discardFresh removes the files that came with the change.
func (c *change) discardFresh() {
	if c.fresh {
		c.over.remove()
	}
}

// refuse notes that the folder or the configuration is at fault: nothing was tried, and what is in service stays.
func (c *change) refuse(p *plan, err error) error {
	m, e := c.m, c.e
	missing := p != nil && p.versionsMissing
	m.mu.Lock()
	m.step(e, refused{err})
	kept := e.serves()
	if c.over == e.override { // otherwise the next scan compares the folder with what was tried before
		if c.over == nil || e.src == nil {
			e.src = c.src
		}
		e.refused = nil
		if p != nil {
			e.refused = p.cfg
		}
		if p != nil && p.text != "" {
			e.text = p.text
		}
	} else {
		c.discardFresh()
	}
	if !kept && missing && m.table.Load().models[e.name] == nil {
		m.table.Store(m.table.Load().with(e.name, nil, e.wanted)) // known, but without versions
	}
	m.mu.Unlock()
	m.o.Events.failed(e.name, 0, err, kept)
	if missing {
		return loadFailed(e.name, err)
	}
	return notPolled(e.name, err)
}
