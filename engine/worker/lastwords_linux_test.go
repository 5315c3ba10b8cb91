//go:build linux

package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// slowly is a log that takes its time, as a reader does on a busy machine.
type slowly struct{ slog.Handler }

func (slowly) Enabled(context.Context, slog.Level) bool { return true }

func (slowly) Handle(context.Context, slog.Record) error {
	<-time.After(100 * time.Millisecond)
	return nil
}

// What a process wrote last is in the error, however late it is read.
func TestLastWordsAreHeard(t *testing.T) {
	l := NewLauncher(nil)
	defer l.Close()
	_, err := l.Start(t.Context(), Spec{Name: "m_0", ModelName: "m", Command: []string{"/bin/sh", "-c", "echo first >&2; echo last >&2; exit 1"}, Log: slog.New(slowly{})})
	if err == nil || !strings.Contains(err.Error(), "first\nlast") {
		t.Errorf("Start = %v, want both lines of the process", err)
	}
}
