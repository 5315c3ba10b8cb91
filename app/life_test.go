package app

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logLines is a log that calls back with what it has so far.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
	seen func(text string)
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	l.seen(l.text.String())
	return len(b), nil
}

func modelRepository(t *testing.T) string {
	return writeFiles(t, t.TempDir(), map[string]string{
		"good/config.pbtxt": identityText,
		"good/1/x":          "",
		"bad/config.pbtxt":  `backend: "nosuch" ` + identityTensors,
		"bad/1/x":           "",
	})
}

// Options decide whether the server starts. A started server stops in order when its context ends.
func TestStart_A074_A075(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // part of the error; "": it starts
	}{
		{"a model fails", []string{"--exit-on-error=false"}, ""},
		{"a model fails, exit on error", []string{"--exit-on-error=true"},
			"creating server: Internal - failed to load all models"},
		{"a model fails, exit on error, loose readiness", []string{"--exit-on-error=true", "--strict-readiness=false"},
			"creating server: Internal - failed to load all models"},
		{"the good model alone, exit on error", []string{"--exit-on-error=true", "--model-control-mode=explicit",
			"--load-model=good"}, ""},
		{"a named model is not there, exit on error", []string{"--exit-on-error=true", "--model-control-mode=explicit",
			"--load-model=nope"},
			"creating server: Internal - failed to load all models"},
		{"a named model is not there", []string{"--exit-on-error=false", "--model-control-mode=explicit",
			"--load-model=nope"}, ""},
		{"nothing is to be loaded", []string{"--exit-on-error=true", "--model-control-mode=explicit"}, ""},
		{"a repository is not there", []string{"--model-repository=/nonexistent/models"},
			"failed to stat file /nonexistent/models"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"--model-repository=" + modelRepository(t), "--data-dir=" + t.TempDir(),
				"--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0"}, tt.args...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := &logLines{seen: func(text string) {
				if strings.Contains(text, "Started HTTPService") {
					cancel()
				}
			}}
			err := Serve(ctx, load(t, args...), log)
			if tt.want == "" {
				if err != nil || ctx.Err() == nil {
					t.Errorf("Serve = %v, started %v; want a start and an orderly stop\n%s", err, ctx.Err() != nil,
						log.text.String())
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Serve = %v, want %q", err, tt.want)
			}
		})
	}
}

// A refused start releases its ports and its data folder.
func TestARefusedStartLeavesNothingBehind(t *testing.T) {
	data, root := t.TempDir(), modelRepository(t)
	for range 2 {
		c := load(t, "--model-repository="+root, "--data-dir="+data, "--http-port=0", "--grpc-port=0",
			"--metrics-port=0", "--ui-port=0", "--exit-on-error=true")
		if err := Serve(t.Context(), c, io.Discard); err == nil || !strings.Contains(err.Error(), "failed to load "+
			"all models") {
			t.Errorf("Serve = %v, want the same refusal each time", err)
		}
	}
}

func TestAStuckShutdownEndsAfterTheTimeout_DV52(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !within(time.Minute, func() { time.Sleep(time.Second) }) || time.Since(start) != time.Second {
			t.Errorf("an end within its time is given up, or waited for after: %v", time.Since(start))
		}
		start = time.Now()
		if within(time.Minute, func() { time.Sleep(time.Hour) }) || time.Since(start) != time.Minute {
			t.Errorf("a stuck end is waited for %v, want a minute", time.Since(start))
		}
		time.Sleep(2 * time.Hour) // fake clock: until it ends after all
	})
}

// A wrong option is reported without the usage text. Under the name tritonserver the usage comes first, because scripts
// may look for it.
func TestWrongOptionsAreReportedWithoutTheUsage(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		usage bool
	}{
		{[]string{"nereid", "serve", "--http-prot=1"}, false},
		{[]string{"/opt/bin/tritonserver", "--http-prot=1"}, true},
	} {
		var out, errs strings.Builder
		if code := Main(tt.args, &out, &errs); code != 1 {
			t.Errorf("%q exits with %d, want 1", tt.args, code)
		}
		text := errs.String()
		if !strings.Contains(text, "error: unrecognized option '--http-prot'; did you mean --http-port?") ||
			strings.Contains(text, "Usage:") != tt.usage {
			t.Errorf("%q prints %q; want the error, with the usage: %v", tt.args, text, tt.usage)
		}
	}
}
