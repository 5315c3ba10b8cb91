package worker

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
)

// answersNothing is the environment variable with which the test program takes requests and does not answer.
const answersNothing = "NEREID_TEST_ANSWERS_NOTHING"

// The goroutine that brought an inline request is in Execute, so the worker has to notice that the client has left,
// also while the read loop reads: after Start it does.
func TestClientThatLeavesIsNoticedWhileTheReadLoopReads_A23(t *testing.T) {
	if os.Getenv(answersNothing) != "" {
		sayHello()
		for {
			_ = unix.Pause() // until the server ends it
		}
	}
	l := NewLauncher(Options{})
	defer l.Close()
	w, err := l.Start(t.Context(), Spec{
		Name: "m_0", ModelName: "m",
		Command: []string{os.Args[0], "-test.run=^" + t.Name() + "$"}, Env: []string{answersNothing + "=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, leave := context.WithCancel(t.Context())
	r := request(100)
	defer r.Release()
	r.Client = client
	b := infer.NewBatch()
	b.Requests, b.Inline = append(b.Requests, r.Retain()), true
	ended := make(chan error, 1)
	go func() { ended <- w.Execute(t.Context(), b) }()
	leave()
	select {
	case <-r.Done():
	case <-time.After(time.Minute):
		t.Error("the request is not cancelled")
	}
	w.Kill()
	if err := <-ended; err == nil {
		t.Error("Execute succeeded without an answer")
	}
}
