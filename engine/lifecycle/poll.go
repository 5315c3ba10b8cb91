package lifecycle

import (
	"context"
	"time"

	"nereid/engine/clock"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// poller loads what changes in the repositories. Except for again, only the goroutine of Run uses its fields.
type poller struct {
	m       *Manager
	waiting map[string]pending // changed models whose files must stay unchanged for a while
	again   chan struct{}      // capacity 1: a change that polling started has ended
}

// pending is a changed model that is not loaded yet.
type pending struct {
	src   *repo.Model
	since time.Time
}

// writtenMost limits the wait, in settle times, for a model with a file that is still open for writing. It is long
// enough for a copy that pauses. It ends the wait for a program that keeps its log there.
const writtenMost = 30

// burst is how long Run waits after a notification for others: copying one file causes thousands.
const burst = 50 * time.Millisecond

// Run polls the repositories until ctx is done: every interval, and at once where the file system notifies of a change.
// A changed model is loaded once its files have stayed unchanged for the settle time, so that one that is being copied
// is not loaded half; a model whose folder is gone is unloaded. While a repository cannot be read nothing is unloaded.
// Changes that Run started may outlive it; Close waits for them.
func (m *Manager) Run(ctx context.Context, interval time.Duration) {
	p := &m.poller
	changes := repo.Watch(ctx, m.o.Repositories, interval, m.o.Log)
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	last := ""
	look := m.scanOptions()
	look.Devices = map[string]uint64{}
	repo.Scan(look) // notes the file systems
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changes:
			if !ok || !clock.Sleep(ctx, min(burst, interval)) {
				return
			}
		case <-p.again:
		case <-settle.C:
		}
		found, unread := repo.Scan(look)
		text := ""
		if err := unreadError(unread); err != nil {
			if text = err.Error(); text != last && m.o.Events.ScanFailed != nil {
				m.o.Events.ScanFailed(err)
			}
		}
		last = text
		if next := p.poll(found, len(unread) == 0); next > 0 {
			settle.Reset(next)
		} else {
			settle.Stop()
		}
	}
}

// poll starts the changes that are due and returns when to look again, 0 if nothing waits. complete says that every
// repository could be read. If not, nothing is unloaded, and a model stays with the folder that it came from.
func (p *poller) poll(found map[string]*repo.Model, complete bool) (next time.Duration) {
	for key := range p.waiting {
		if found[key] == nil {
			delete(p.waiting, key)
		}
	}
	for key, src := range found {
		rest, load := p.due(key, src, complete)
		if load {
			p.start(key, func() {
				// Its outcome is in the index and the events.
				_ = dependentsOf(p.m).change(key, func(o *operation) (bool, error) {
					return o.loadPolled(p.m.hard, src, func() (*repo.Model, error) { return p.settled(src) })
				})
			})
		} else if rest > 0 && (next == 0 || rest < next) {
			next = rest
		}
	}
	if !complete {
		return next
	}
	p.m.mu.Lock()
	var gone []string
	for key, e := range p.m.entries {
		if found[key] == nil && !e.busy {
			gone = append(gone, key)
		}
	}
	p.m.mu.Unlock()
	for _, key := range gone {
		p.start(key, func() { p.forgetIfGone(key) })
	}
	return next
}

// due reports whether a model is to be loaded now. If not, rest is when to look again; 0: at the next notification.
func (p *poller) due(key string, src *repo.Model, complete bool) (rest time.Duration, load bool) {
	if !p.differs(key, src, complete) {
		delete(p.waiting, key)
		p.setWaits(key, nil)
		return 0, false
	}
	now := time.Now()
	w, ok := p.waiting[key]
	if !ok || !w.src.Equal(src) {
		w = pending{src, now}
		p.waiting[key] = w
	}
	settle := p.m.o.Settle
	switch src.Marker {
	case repo.Copying: // the next look is when the marker is written
		p.setWaits(key, errCopying)
		return 0, false
	case repo.Complete:
	default:
		rest = settle - now.Sub(w.since)
		if rest <= 0 && now.Sub(w.since) < writtenMost*settle {
			if file := repo.Written(src.Folder); file != "" { // a slow copy may pause for longer than the settle time
				p.m.o.Log.Debug("a changed model is not loaded yet", "model", key, "writing", file)
				rest = settle
			}
		}
	}
	if rest > 0 {
		return rest, false
	}
	delete(p.waiting, key)
	return 0, true
}

// errCopying is why a model with a marker waits.
var errCopying = status.Errorf(status.Unavailable,
	"a change waits for its copy to be over: a file was written after the marker %s; "+
		"write that again when all is there",
	repo.ReadyName)

// setWaits notes why a change that polling saw is not made yet; nil: there is no reason.
func (p *poller) setWaits(key string, why error) {
	m := p.m
	m.mu.Lock()
	e := m.entries[key]
	if e == nil && why != nil && !m.closed {
		e = m.add(key)
	}
	changed := e != nil && e.waits != why
	if changed {
		e.waits = why
	}
	m.mu.Unlock()
	if changed {
		if why != nil {
			m.o.Log.Info("a changed model is not loaded yet", "model", key, "why", why)
		}
		m.o.Events.changed()
	}
}

// settled looks again at a model that polling wants to load: if it has changed since, it has to wait again.
func (p *poller) settled(src *repo.Model) (*repo.Model, error) {
	now, err := p.m.find(src.Key)
	if err == nil && (!now.Equal(src) || now.Marker == repo.Copying) {
		err = status.Errorf(status.Unavailable, "model '%s' is being changed", src.Key)
	}
	return now, err
}

// forgetIfGone forgets a model whose folder a scan did not find. It looks again under the model's lock: since that scan
// the folder may have been created, and loaded on request.
func (p *poller) forgetIfGone(key string) {
	m := p.m
	e := m.lock(key, false)
	if e == nil {
		return
	}
	_, err := m.find(key)
	gone := status.CodeOf(err) == status.NotFound
	if gone {
		m.retire(e, retired{}, false)
	}
	e.op.Unlock()
	if gone {
		dependentsOf(m).update(key, "")
	}
}

// differs reports whether a model is to be loaded again. One under change is left alone until that ends.
func (p *poller) differs(key string, src *repo.Model, complete bool) bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	e := p.m.entries[key]
	if e == nil {
		return true
	}
	if e.busy || e.held {
		return false
	}
	if e.src != nil && !complete && (e.src.Folder != src.Folder || e.src.Err != nil) {
		return false // the repository that it came from may be the one that cannot be read
	}
	return e.src == nil || !e.src.Equal(src) || p.m.downloads.due(key)
}

// start runs a change of a model in a goroutine, unless one that it started is under way.
func (p *poller) start(key string, change func()) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil && !m.closed {
		e = m.add(key)
	}
	if m.closed || e.busy {
		return
	}
	e.busy = true
	m.wg.Go(func() {
		change()
		m.mu.Lock()
		e.busy = false
		m.mu.Unlock()
		select {
		case p.again <- struct{}{}: // what changed meanwhile is looked at now
		default:
		}
	})
}
