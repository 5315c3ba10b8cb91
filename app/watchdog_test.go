package app

import "testing"

// The watchdog is fed only while the server answers requests.
func TestTheWatchdogAsksTheServerAsAClientDoes(t *testing.T) {
	s := runServer(t, "")
	if err := (watchdog{s: s.server}).answers(t.Context()); err != nil {
		t.Error(err)
	}
	guarded := runServer(t, "a-token")
	if err := (watchdog{s: guarded.server}).answers(t.Context()); err != nil {
		t.Errorf("with a token: %v", err)
	}
	if err := guarded.fronts.listeners["http"].Close(); err != nil {
		t.Fatal(err)
	}
	<-guarded.tasks.failed //nolint:errcheck // the service ends, as its listener is closed
	if err := (watchdog{s: guarded.server}).answers(t.Context()); err == nil {
		t.Error("a server without a listener answers")
	}
}
