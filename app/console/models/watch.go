package models

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/stream"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
)

// Watcher publishes changes of models, and remembers the configuration text that each model in service was loaded with.
// It is safe for concurrent use.
type Watcher struct {
	catalog *catalog.Catalog
	streams *stream.Hub

	publishing sync.Mutex
	published  map[string]api.Model // what readers know, without the last minute; guarded by publishing

	mu    sync.Mutex
	texts map[string]string // by model; guarded by mu
}

// NewWatcher makes a Watcher.
func NewWatcher(c *catalog.Catalog, streams *stream.Hub) *Watcher {
	return &Watcher{catalog: c, streams: streams, published: map[string]api.Model{}, texts: map[string]string{}}
}

// Publish publishes what changed since the last call, if there are readers.
func (w *Watcher) Publish() {
	if w.streams.Wanted("models") {
		w.All()
	}
}

// All returns all models as the first message of a stream, and publishes what changed since the last call.
func (w *Watcher) All() api.ModelsEvent {
	w.publishing.Lock()
	defer w.publishing.Unlock()
	all := w.catalog.All()
	now := time.Now().UnixMilli()
	if e, changed := modelsDiff(w.published, all); changed {
		e.TMs = now
		w.streams.Publish("models", e)
	}
	return api.ModelsEvent{TMs: now, Full: true, Models: all}
}

// modelsDiff returns what changed since known, and updates known. It ignores the numbers of the last minute, which the
// samples have too.
func modelsDiff(known map[string]api.Model, now []api.Model) (e api.ModelsEvent, changed bool) {
	seen := map[string]bool{}
	for _, m := range now {
		seen[m.Name] = true
		bare := m
		bare.Versions = slices.Clone(m.Versions)
		for i := range bare.Versions {
			bare.Versions[i].LastMinute = api.Recent{}
		}
		if old, ok := known[m.Name]; !ok || !reflect.DeepEqual(old, bare) {
			known[m.Name] = bare
			e.Models = append(e.Models, m)
		}
	}
	for name := range known {
		if !seen[name] {
			delete(known, name)
			e.Removed = append(e.Removed, name)
		}
	}
	slices.Sort(e.Removed)
	return e, len(e.Models)+len(e.Removed) > 0
}

// Note remembers the texts of all models in service.
func (w *Watcher) Note() {
	for _, st := range w.catalog.Engine.Models() {
		w.note(st)
	}
}

// note remembers the text of a model whose last load succeeded. After a failed load the engine reports the new text.
func (w *Watcher) note(st lifecycle.ModelStatus) {
	ok := st.Err == nil && catalog.Running(st) != nil
	for _, v := range st.Versions {
		ok = ok && (v.State != lifecycle.Ready || v.Reason == "") && v.State != lifecycle.Loading
	}
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts[st.Name] = st.ConfigText
}

// RunningText returns the text that the version in service was loaded with. If that is not known, it is the
// configuration formatted as text.
func (w *Watcher) RunningText(st lifecycle.ModelStatus) string {
	w.note(st)
	w.mu.Lock()
	text, ok := w.texts[st.Name]
	w.mu.Unlock()
	if !ok {
		if cfg := catalog.Running(st); cfg != nil {
			return modelconfig.Format(cfg)
		}
	}
	return text
}
