//go:build unix

package python

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onText is a writer that calls what for each write with a certain text.
type onText struct {
	text string
	what func()
}

func (s onText) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.text) {
		s.what()
	}
	return len(b), nil
}

// A cancelled installation returns soon, although a child of the installer has the installer's output open.
func TestCancelledInstallerEndsWithItsChildren(t *testing.T) {
	folder := t.TempDir()
	installer := filepath.Join(folder, "python3")
	if err := os.WriteFile(installer, []byte("#!/bin/sh\nsleep 1000 &\necho started\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin") // without uv
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- build(ctx, installer, filepath.Join(folder, "requirements.txt"), nil, filepath.Join(folder, "env"),
			"", nil, onText{"started", stop})
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("an installation that was stopped succeeded")
		}
	case <-time.After(time.Minute):
		t.Error("the installation goes on")
	}
}
