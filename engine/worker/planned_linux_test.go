package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// syncBuffer is a log that goroutines share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// killedRig starts a supervised process that runs this test binary. again is how another one is started.
func killedRig(t *testing.T, again func(context.Context, func() (*Worker, error)) (*Worker, error)) (
	*Launcher, *Supervisor, chan error, *syncBuffer) {
	t.Helper()
	var log syncBuffer
	l := NewLauncher(Options{})
	t.Cleanup(l.Close)
	start := func() (*Worker, error) {
		return l.Start(t.Context(), Spec{
			Name: "m_0", ModelName: "m",
			Command: []string{os.Args[0], "-test.run=^TestProcessesThatAreKilledOnPurposeAreNotReportedAsFaults$"},
			Env:     []string{answersNothing + "=1"},
		})
	}
	w, err := start()
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan error, 10)
	s := Supervise(Supervision{Name: "m_0", Log: slog.New(slog.NewTextHandler(&log, nil)),
		Notify: func(why error, _ bool) { events <- why }}, w,
		func(ctx context.Context) (*Worker, error) { return again(ctx, start) })
	t.Cleanup(func() { _ = s.Close() })
	return l, s, events, &log
}

// A process that the server kills because it stops, or because the model leaves service, is no fault: the log does not
// report it as one.
func TestProcessesThatAreKilledOnPurposeAreNotReportedAsFaults(t *testing.T) {
	if os.Getenv(answersNothing) != "" {
		sayHello()
		for {
			_ = unix.Pause() // until the server ends it
		}
	}
	plain := func(_ context.Context, start func() (*Worker, error)) (*Worker, error) { return start() }

	t.Run("A23 the server stops", func(t *testing.T) {
		l, s, events, log := killedRig(t, plain)
		l.Kill()
		<-s.done
		r := request(100)
		defer r.Release()
		b := infer.NewBatch()
		b.Requests = append(b.Requests, r.Retain())
		err := s.Execute(t.Context(), b)
		if status.CodeOf(err) != status.Unavailable || strings.Contains(err.Error(), "being started again") {
			t.Errorf("a request that comes too late gets %v", err)
		}
		if got := log.String(); got != "" || len(events) > 0 {
			t.Errorf("%d events, and the log says: %s", len(events), got)
		}
	})
	t.Run("A23 its model leaves service", func(t *testing.T) {
		l, s, events, log := killedRig(t, plain)
		l.Leave()
		s.Worker().stop() // as its watch does
		for why := range events {
			if why == nil { // another one runs, for requests that are in the queue
				break
			}
		}
		if got := log.String(); got != "" {
			t.Errorf("the log says: %s", got)
		}
	})
	t.Run("A23 its model is closed while another one is started", func(t *testing.T) {
		starts := make(chan struct{})
		_, s, events, log := killedRig(t, func(ctx context.Context, _ func() (*Worker, error)) (*Worker, error) {
			close(starts)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err := unix.Kill(s.Worker().PID(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-starts
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if why := <-events; why == nil || errors.Is(why, context.Canceled) || len(events) > 0 {
			t.Errorf("the event is %v, and %d more", why, len(events))
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "it is started again") {
			t.Errorf("the log says: %s", got)
		}
	})
	t.Run("A068 the limit of an unload also holds while another one is started", func(t *testing.T) {
		starts := make(chan struct{})
		_, s, _, _ := killedRig(t, func(ctx context.Context, _ func() (*Worker, error)) (*Worker, error) {
			close(starts)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err := unix.Kill(s.Worker().PID(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-starts
		if got := s.Leave(); got != unloadTimeout {
			t.Errorf("the limit is %v, want %v", got, unloadTimeout)
		}
	})
}

// After the limit of an unload no batch is executed and no process is started, so that the requests in the queue fail.
func TestNothingIsExecutedAfterTheLimitOfAnUnload_A068(t *testing.T) {
	_, s, events, _ := killedRig(t, func(context.Context, func() (*Worker, error)) (*Worker, error) {
		return nil, errors.New("a process was started")
	})
	s.Leave()
	s.mu.Lock()
	s.left = s.left.Add(-unloadTimeout)
	s.mu.Unlock()
	execute := func() error {
		r := request(100)
		defer r.Release()
		b := infer.NewBatch()
		b.Requests = append(b.Requests, r.Retain())
		return s.Execute(t.Context(), b)
	}
	for range 2 {
		if err := execute(); status.CodeOf(err) != status.Unavailable ||
			!strings.Contains(err.Error(), "unload-timeout-seconds") {
			t.Errorf("a request that was in the queue gets %v", err)
		}
		if w := s.Worker(); w != nil {
			w.stop() // as its watch does
		}
		<-s.done
	}
	if len(events) > 0 {
		t.Errorf("there is an event: %v", <-events)
	}
}

// A supervisor is down from the end of its process until another one runs.
func TestSupervisorIsDownWithoutAProcess_D056(t *testing.T) {
	hold := make(chan struct{})
	_, s, events, _ := killedRig(t, func(_ context.Context, start func() (*Worker, error)) (*Worker, error) {
		<-hold
		return start()
	})
	if s.Down() != nil {
		t.Error("down with a process")
	}
	if err := unix.Kill(s.Worker().PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if why := <-events; why == nil {
		t.Error("no reason")
	}
	changed := s.Down()
	if changed == nil {
		t.Error("not down without a process")
	}
	close(hold)
	if changed != nil {
		<-changed
	}
	if why := <-events; why != nil || s.Down() != nil {
		t.Errorf("down with another process: %v", why)
	}
}
