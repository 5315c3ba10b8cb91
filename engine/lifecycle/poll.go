package lifecycle

import (
	"context"
	"time"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// pending is a change that polling saw and that must rest before it is loaded.
type pending struct {
	src   *repo.Model
	since time.Time
}

// Run polls the repositories until ctx is done: every interval, and at once where the file system tells of a change.
// A changed model is loaded once its files have rested for the settle time, so that one that is being copied is not
// loaded half; a model whose folder is gone is unloaded. While a repository cannot be read nothing is unloaded. Run
// waits for the changes that it started.
func (m *Manager) Run(ctx context.Context, interval time.Duration) {
	wake := repo.Watch(ctx, m.o.Repositories, interval, m.o.Log)
	waiting := map[string]pending{}
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-wake:
			if !ok {
				return
			}
		case <-settle.C:
		}
		found, err := repo.Scan(m.scanOptions())
		if err != nil {
			if err.Error() != last && m.o.Events.ScanFailed != nil {
				m.o.Events.ScanFailed(err)
			}
			last = err.Error()
			settle.Reset(interval)
			continue
		}
		last = ""
		if next := m.poll(found, waiting); next > 0 {
			settle.Reset(next)
		} else {
			settle.Stop()
		}
	}
}

// poll starts the changes that are due and returns when to look again, 0 if nothing waits.
func (m *Manager) poll(found map[string]*repo.Model, waiting map[string]pending) time.Duration {
	now := time.Now()
	next := time.Duration(0)
	for name, src := range found {
		if !m.differs(name, src) {
			delete(waiting, name)
			continue
		}
		w, ok := waiting[name]
		if !ok || !w.src.Equal(src) {
			w = pending{src, now}
			waiting[name] = w
		}
		if rest := m.o.Settle - now.Sub(w.since); rest > 0 {
			if next == 0 || rest < next {
				next = rest
			}
			continue
		}
		delete(waiting, name)
		m.begin(name, func() { _ = m.change(m.hard, src, nil) }) // its outcome is in the index and the events
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

// forgetIfGone forgets a model whose folder a scan did not find. It looks again under the model's lock: since that scan
// the folder may have come, and have been loaded on request.
func (m *Manager) forgetIfGone(name string) {
	m.mu.Lock()
	e := m.entries[name]
	m.mu.Unlock()
	if e == nil {
		return
	}
	e.op.Lock()
	defer e.op.Unlock()
	if _, err := m.find(name); err == nil || status.CodeOf(err) != status.NotFound {
		return
	}
	m.retire(e, false)
}

// differs reports whether a model is to be loaded anew. One under change is left alone until that ends.
func (m *Manager) differs(name string, src *repo.Model) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil {
		return true
	}
	if e.busy || e.held {
		return false
	}
	return e.src == nil || !e.src.Equal(src)
}

// begin runs a change of a model in a goroutine of its own.
func (m *Manager) begin(name string, change func()) {
	e := m.entry(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || e.busy {
		return
	}
	e.busy = true
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		change()
		m.mu.Lock()
		defer m.mu.Unlock()
		e.busy = false
	}()
}
