package lifecycle

import (
	"context"
	"time"

	"nereid/engine/clock"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// pending is a change that polling saw and that must rest before it is loaded.
type pending struct {
	src   *repo.Model
	since time.Time
}

// held is how many settle times a model whose files rest waits for who has one of them open for writing: a copy that pauses,
// but not a program that keeps its log there.
const held = 30

// burst is how long Run waits after a change, for others that come with it: copying one file tells of thousands.
const burst = 50 * time.Millisecond

// Run polls the repositories until ctx is done: every interval, and at once where the file system tells of a change.
// A changed model is loaded once its files have rested for the settle time, so that one that is being copied is not
// loaded half; a model whose folder is gone is unloaded. While a repository cannot be read nothing is unloaded. The
// changes that Run started may outlive it; Close waits for them.
func (m *Manager) Run(ctx context.Context, interval time.Duration) {
	wake := repo.Watch(ctx, m.o.Repositories, interval, m.o.Log)
	waiting := map[string]pending{}
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
		case _, ok := <-wake:
			if !ok || !clock.Sleep(ctx, min(burst, interval)) {
				return
			}
		case <-m.again:
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
		if next := m.poll(found, len(unread) == 0, waiting); next > 0 {
			settle.Reset(next)
		} else {
			settle.Stop()
		}
	}
}

// poll starts the changes that are due and returns when to look again, 0 if nothing waits. whole says that every
// repository could be read; else nothing is unloaded, and a model stays with the folder that it came from.
func (m *Manager) poll(found map[string]*repo.Model, whole bool, waiting map[string]pending) time.Duration {
	now := time.Now()
	next := time.Duration(0)
	for name := range waiting {
		if found[name] == nil {
			delete(waiting, name)
		}
	}
	for name, src := range found {
		if !m.differs(name, src, whole) {
			delete(waiting, name)
			m.waits(name, nil)
			continue
		}
		w, ok := waiting[name]
		if !ok || !w.src.Equal(src) {
			w = pending{src, now}
			waiting[name] = w
		}
		rest := m.o.Settle - now.Sub(w.since)
		switch src.Marker {
		case repo.Copying: // the next look is when the marker is written
			m.waits(name, errCopying)
			continue
		case repo.Whole:
			rest = 0
		}
		if rest <= 0 && src.Marker == repo.NoMarker && now.Sub(w.since) < held*m.o.Settle {
			if file := repo.Written(src.Folder); file != "" { // a slow copy may pause for longer than the settle time
				m.o.Log.Debug("a changed model is not loaded yet", "model", name, "writing", file)
				rest = m.o.Settle
			}
		}
		if rest > 0 {
			if next == 0 || rest < next {
				next = rest
			}
			continue
		}
		delete(waiting, name)
		// Its outcome is in the index and the events.
		m.begin(name, func() {
			_ = m.change(m.hard, name, task{look: func() (*repo.Model, error) { return m.rested(src) }, polled: true})
		})
	}
	if !whole {
		return next
	}
	m.mu.Lock()
	var gone []string
	for name, e := range m.entries {
		if found[name] == nil && !e.busy {
			gone = append(gone, name)
		}
	}
	m.mu.Unlock()
	for _, name := range gone {
		m.begin(name, func() { m.forgetIfGone(name) })
	}
	return next
}

// errCopying is why a model with a marker waits.
var errCopying = status.Errorf(status.Unavailable, "a change waits for its copy to be over: a file was written after the marker %s; write that again when all is there", repo.ReadyName)

// waits notes why a change that polling saw is not made yet, nil: there is no reason.
func (m *Manager) waits(name string, why error) {
	m.mu.Lock()
	e := m.entries[name]
	if e == nil && why != nil && !m.closed {
		e = &entry{name: name}
		m.entries[name] = e
	}
	news := e != nil && e.waits != why
	if news {
		e.waits = why
	}
	m.mu.Unlock()
	if news {
		if why != nil {
			m.o.Log.Info("a changed model is not loaded yet", "model", name, "why", why)
		}
		m.o.Events.changed()
	}
}

// rested looks again at a model that polling wants to load: what changed since is to rest first.
func (m *Manager) rested(src *repo.Model) (*repo.Model, error) {
	now, err := m.find(src.Key)
	if err == nil && (!now.Equal(src) || now.Marker == repo.Copying) {
		err = status.Errorf(status.Unavailable, "model '%s' is being changed", src.Key)
	}
	return now, err
}

// forgetIfGone forgets a model whose folder a scan did not find. It looks again under the model's lock: since that scan
// the folder may have come, and have been loaded on request.
func (m *Manager) forgetIfGone(name string) {
	e := m.lock(name, false)
	if e == nil {
		return
	}
	_, err := m.find(name)
	gone := status.CodeOf(err) == status.NotFound
	if gone {
		m.retire(e, retired{}, false)
	}
	e.op.Unlock()
	if gone {
		m.updateDependents(name, "", map[string]bool{})
	}
}

// differs reports whether a model is to be loaded anew. One under change is left alone until that ends.
func (m *Manager) differs(name string, src *repo.Model, whole bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil {
		return true
	}
	if e.busy || e.held {
		return false
	}
	if e.src != nil && !whole && (e.src.Folder != src.Folder || e.src.Err != nil) {
		return false // where it came from may be what cannot be read
	}
	return e.src == nil || !e.src.Equal(src) || m.fetchDue(name)
}

// begin runs a change of a model in a goroutine of its own, unless one that it began is under way.
func (m *Manager) begin(name string, change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil && !m.closed {
		e = &entry{name: name}
		m.entries[name] = e
	}
	if m.closed || e.busy {
		return
	}
	e.busy = true
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		change()
		m.mu.Lock()
		e.busy = false
		m.mu.Unlock()
		select {
		case m.again <- struct{}{}: // what changed meanwhile is looked at now
		default:
		}
	}()
}
