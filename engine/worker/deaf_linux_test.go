//go:build linux

package worker

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// deaf is the environment variable by which the test program is a worker that lives and takes no requests.
const deaf = "NEREID_TEST_DEAF"

func beDeaf() {
	if err := unix.Shutdown(controlFD, unix.SHUT_RD); err != nil {
		os.Exit(1)
	}
	greet()
	for {
		_ = unix.Pause() // until the server ends it
	}
}

// A worker that takes no request any more has ended when that is told: as when a process was killed a moment ago and its
// end is not known yet. Else request after request would fail on it, and sequences that were lost would go on.
func TestAWorkerThatTakesNoRequestsHasEnded(t *testing.T) {
	if os.Getenv(deaf) != "" {
		beDeaf()
	}
	l := NewLauncher(nil)
	defer l.Close()
	for _, decoupled := range []bool{false, true} {
		w, err := l.Start(t.Context(), Spec{
			Name: "m_0", ModelName: "m", Command: []string{os.Args[0], "-test.run=^TestAWorkerThatTakesNoRequestsHasEnded$"}, Env: []string{deaf + "=1"}, Decoupled: decoupled,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := request(100)
		b := infer.NewBatch()
		b.Requests = append(b.Requests, r.Retain())
		if err := w.Execute(t.Context(), b); status.CodeOf(err) != status.Unavailable {
			t.Errorf("decoupled %t: Execute = %v, want Unavailable", decoupled, err)
		}
		if w.Err() == nil {
			t.Errorf("decoupled %t: the worker counts as one that runs", decoupled)
		}
		w.Kill()
		r.Release()
	}
}
