package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nereid/engine/repo"
)

// transfer is a download of a version under way.
type transfer struct {
	version     int64
	done, total int64 // bytes
}

// downloads are the downloads of models in remote repositories. They are safe for concurrent use.
type downloads struct {
	events *Events
	retry  time.Duration   // how long polling waits after a download that failed
	open   context.Context // ends when the manager begins to close

	mu    sync.Mutex
	now   map[string]transfer  // guarded by mu; by model
	again map[string]time.Time // guarded by mu; when polling tries a failed download again
}

// retryFetch is how many settle times polling waits after a download that failed.
const retryFetch = 10

func newDownloads(open context.Context, o *Options) *downloads {
	return &downloads{
		events: &o.Events, retry: retryFetch * o.Settle, open: open,
		now: map[string]transfer{}, again: map[string]time.Time{},
	}
}

// version downloads one version of a remote model, unless it is here.
func (d *downloads) version(ctx context.Context, src *repo.Model, n int64) error {
	return src.FetchVersion(ctx, n, func(done, total int64) { d.progress(src.Key, transfer{n, done, total}) })
}

// all downloads all versions of a remote model, for repository agents, which may read any file.
func (d *downloads) all(ctx context.Context, src *repo.Model) error {
	for _, n := range src.Numbers() {
		if err := d.version(ctx, src, n); err != nil {
			d.finished(src.Key, false)
			return err
		}
	}
	d.finished(src.Key, true)
	return nil
}

// shared downloads those files of a remote model that belong to no version.
func (d *downloads) shared(src *repo.Model) error {
	if !src.Remote() {
		return nil
	}
	err := src.FetchShared(d.open)
	if err != nil {
		d.finished(src.Key, false)
	}
	return err
}

// prefetch calls shared for many models at once: at the start all configurations are read before the first model is
// loaded. The load of a model reports what failed.
func (d *downloads) prefetch(found map[string]*repo.Model) {
	const atOnce = 16
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, src := range found {
		if !src.Remote() || src.Err != nil {
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			_ = d.shared(src)
			<-places
		})
	}
	wg.Wait()
}

// progress notes how far a download is.
func (d *downloads) progress(name string, t transfer) {
	d.mu.Lock()
	_, known := d.now[name]
	report := known || t.done < t.total // files that were here already are not reported
	if report {
		d.now[name] = t
	}
	d.mu.Unlock()
	if report {
		d.events.downloading(name, t.version, t.done, t.total)
	}
}

// finished notes that a model's downloads are over.
func (d *downloads) finished(name string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.now, name)
	delete(d.again, name)
	if !ok {
		d.again[name] = time.Now().Add(d.retry)
	}
}

// due reports whether a download that failed is to be tried again.
func (d *downloads) due(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, failed := d.again[name]
	return failed && !time.Now().Before(at)
}

// addTo shows the download of a model in its status: the version is loading, and the progress is its reason.
func (d *downloads) addTo(s *ModelStatus) {
	d.mu.Lock()
	t, under := d.now[s.Name]
	d.mu.Unlock()
	if !under {
		return
	}
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
	s.Versions = append(s.Versions,
		VersionStatus{Version: t.version, State: Loading, Reason: reason, Fetched: t.done, Fetching: t.total})
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
