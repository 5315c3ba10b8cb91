package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// transfer is a download of a version under way.
type transfer struct {
	version     int64
	done, total int64
}

// transfers are the downloads of the models in remote repositories. Manager.mu guards them.
type transfers struct {
	now map[string]transfer  // by model
	due map[string]time.Time // when polling tries a download again that failed
}

// retryFetch is how many settle times polling waits after a download that failed.
const retryFetch = 10

// fetch brings the versions of a remote model that are to be served to this machine, one after the other, with the
// newest first. A version that cannot be had is a fault of that version. It returns the newest version that is here, 0 for
// none.
func (m *Manager) fetch(ctx context.Context, src *repo.Model, p *plan, c choice) (newest int64, err error) {
	numbers := src.Numbers()
	p.policy = modelconfig.ChooseVersions(p.cfg.GetVersionPolicy(), numbers)
	if p.versions, err = c.of(src, p.policy, numbers); err != nil {
		return 0, err
	}
	for i := len(p.versions) - 1; i >= 0; i-- {
		n := p.versions[i]
		err := src.FetchVersion(ctx, n, func(done, total int64) { m.transferred(src.Key, transfer{n, done, total}) })
		if err != nil {
			p.faults[n] = err
			continue
		}
		newest = max(newest, n)
	}
	m.fetched(src.Key, len(p.faults) == 0)
	return newest, nil
}

// fetchAll brings all versions of a remote model to this machine, for agents, which may look at any file.
func (m *Manager) fetchAll(ctx context.Context, src *repo.Model) error {
	for _, n := range src.Numbers() {
		err := src.FetchVersion(ctx, n, func(done, total int64) { m.transferred(src.Key, transfer{n, done, total}) })
		if err != nil {
			m.fetched(src.Key, false)
			return err
		}
	}
	m.fetched(src.Key, true)
	return nil
}

// transferred notes how far a download is.
func (m *Manager) transferred(name string, t transfer) {
	m.mu.Lock()
	_, told := m.transfers.now[name]
	news := told || t.done < t.total // what was here already is none
	if news {
		if m.transfers.now == nil {
			m.transfers.now = map[string]transfer{}
		}
		m.transfers.now[name] = t
	}
	m.mu.Unlock()
	if news {
		m.o.Events.downloading(name, t.version, t.done, t.total)
	}
}

// fetched notes that a model's downloads are over.
func (m *Manager) fetched(name string, well bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.transfers.now, name)
	delete(m.transfers.due, name)
	if !well {
		if m.transfers.due == nil {
			m.transfers.due = map[string]time.Time{}
		}
		m.transfers.due[name] = time.Now().Add(retryFetch * m.o.Settle)
	}
}

// fetchDue reports whether a download that failed is to be tried again. m.mu is held.
func (m *Manager) fetchDue(name string) bool {
	due, failed := m.transfers.due[name]
	return failed && !time.Now().Before(due)
}

// readShared brings what is in no version of a remote model to this machine.
func (m *Manager) readShared(src *repo.Model) error {
	if !src.Remote() {
		return nil
	}
	err := src.FetchShared(m.open)
	if err != nil {
		m.fetched(src.Key, false)
	}
	return err
}

// prefetch brings what is in no version of any remote model, many models at once: a start looks at all configurations
// before it loads the first model. What fails is told by the model's load.
func (m *Manager) prefetch(found map[string]*repo.Model) {
	const atOnce = 16
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, src := range found {
		if !src.Remote() || src.Err != nil {
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			_ = m.readShared(src)
			<-places
		})
	}
	wg.Wait()
}

// add shows the download in a model's status: the version loads, and has that as its reason.
func (t transfer) add(s *ModelStatus) {
	reason := fmt.Sprintf("downloading: %s of %s", megabytes(t.done), megabytes(t.total))
	for i := range s.Versions {
		if v := &s.Versions[i]; v.Version == t.version {
			if v.State != Ready {
				v.State = Loading
			}
			v.Reason, v.Fetched, v.Fetching = reason, t.done, t.total
			return
		}
	}
	s.Versions = append(s.Versions, VersionStatus{Version: t.version, State: Loading, Reason: reason, Fetched: t.done, Fetching: t.total})
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
