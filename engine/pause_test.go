package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"nereid/engine"
	"nereid/engine/lifecycle"
	"nereid/engine/status"
)

// A paused engine is not ready, refuses requests and releases memory. After that it serves as before.
func TestG026APausedEngineRefusesRequests(t *testing.T) {
	var changes atomic.Int32
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{repository(t)},
		Events: lifecycle.Events{Changed: func() { changes.Add(1) }}}})
	before := changes.Load()
	e.Pause(true)
	if e.Ready() || !e.Paused() || changes.Load() == before {
		t.Errorf("ready %v, paused %v, %d changes", e.Ready(), e.Paused(), changes.Load()-before)
	}
	r := request(1, 7)
	defer r.Release()
	if _, err := ask(e, r); status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "is paused") {
		t.Errorf("a request gets %v", err)
	}
	if st, _ := e.Model("id"); len(st.Versions) == 0 || !st.Versions[0].Evicted {
		t.Errorf("the model is in memory: %+v", st.Versions)
	}
	e.Pause(false)
	again := request(1, 7)
	defer again.Release()
	if _, err := ask(e, again); err != nil || !e.Ready() {
		t.Errorf("afterwards a request gets %v, ready %v", err, e.Ready())
	}
}
