package residency

import (
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// maxWaiting is how many requests may wait for one model to be loaded.
const maxWaiting = 4096

// Waiting holds the requests that wait for evicted models to be loaded again. The zero value is ready. It is safe for
// concurrent use.
type Waiting struct {
	mu       sync.Mutex
	requests map[string][]*infer.Request // guarded by mu; by model, present while its load is under way
}

// Add adds a request for a model, and takes a reference on it. first says that no load of the model is under way: the
// caller then loads it and calls Take. Errors: Unavailable when too many requests wait.
func (w *Waiting) Add(name string, r *infer.Request) (first bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, loading := w.requests[name]
	if len(all) >= maxWaiting {
		return false, status.Errorf(status.Unavailable,
			"%d requests wait for model '%s' to be loaded; try again later", maxWaiting, r.ModelName)
	}
	if w.requests == nil {
		w.requests = map[string][]*infer.Request{}
	}
	w.requests[name] = append(all, r.Retain())
	return !loading, nil
}

// Take removes and returns the requests for a model. The caller releases them.
func (w *Waiting) Take(name string) []*infer.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.requests[name]
	delete(w.requests, name)
	return all
}
