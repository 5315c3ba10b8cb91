package worker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program that was just unpacked is open for writing for a moment in every child that another thread has forked.
func TestStartRetriesWhileTheProgramIsOpenForWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "python3")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\necho it ran >&2\nexit 1\n"); err != nil {
		t.Fatal(err)
	}
	l := NewLauncher(Options{})
	defer l.Close()
	closed := make(chan error, 1)
	time.AfterFunc(20*time.Millisecond, func() { closed <- f.Close() })
	_, err = l.Start(t.Context(), Spec{Name: "m_0", ModelName: "m", Command: []string{path}})
	if err == nil || !strings.Contains(err.Error(), "it ran") {
		t.Errorf("Start = %v, want what the program says", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// slowLog is a log whose every line takes time, as on a busy machine.
type slowLog struct{ slog.Handler }

func (slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (slowLog) Handle(context.Context, slog.Record) error {
	<-time.After(100 * time.Millisecond)
	return nil
}

// The last output of a process is in the error, even if it is read late.
func TestStartErrorHasTheLastOutput(t *testing.T) {
	l := NewLauncher(Options{})
	defer l.Close()
	_, err := l.Start(t.Context(), Spec{
		Name: "m_0", ModelName: "m", Command: []string{"/bin/sh", "-c", "echo first >&2; echo last >&2; exit 1"},
		Log: slog.New(slowLog{}),
	})
	if err == nil || !strings.Contains(err.Error(), "first\nlast") {
		t.Errorf("Start = %v, want both lines of the process", err)
	}
}
