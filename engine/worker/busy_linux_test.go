//go:build linux

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program that was just unpacked is open for writing for a moment in every process that another thread forks meanwhile.
func TestProgramThatIsBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "python3")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\necho it ran >&2\nexit 1\n"); err != nil {
		t.Fatal(err)
	}
	l := NewLauncher(nil)
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
