package engine_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nereid/engine"
	"nereid/engine/backend/builtin"
)

// callback passes every record to a function, like a program with a separate log.
type callback struct {
	call  func(level slog.Level, message string, attrs map[string]string)
	attrs []slog.Attr
}

func (c callback) Enabled(context.Context, slog.Level) bool { return true }

func (c callback) Handle(_ context.Context, r slog.Record) error {
	all := map[string]string{}
	for _, a := range c.attrs {
		all[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool { all[a.Key] = a.Value.String(); return true })
	c.call(r.Level, r.Message, all)
	return nil
}

func (c callback) WithAttrs(attrs []slog.Attr) slog.Handler {
	c.attrs = append(c.attrs[:len(c.attrs):len(c.attrs)], attrs...)
	return c
}

func (c callback) WithGroup(string) slog.Handler { return c }

func TestLogEventsReachTheHandler(t *testing.T) {
	root := t.TempDir()
	for name, config := range map[string]string{
		"good": `backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 }
			output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }
			model_metrics { metric_control { metric_identifier { family: "mine" } histogram_options { buckets: 1 } } }`,
		"broken": `backend: "nosuch"`,
	} {
		if err := os.MkdirAll(filepath.Join(root, name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "config.pbtxt"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type record struct {
		level   slog.Level
		message string
		attrs   map[string]string
	}
	var mu sync.Mutex
	var got []record
	log := slog.New(callback{call: func(level slog.Level, message string, attrs map[string]string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, record{level, message, attrs})
	}})
	eng, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{root}, Backends: builtin.All(), Log: log, Events: engine.LogEvents(log),
		},
		LooseReadiness: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eng.Close(t.Context())
	mu.Lock()
	defer mu.Unlock()
	for _, tt := range []struct {
		name    string
		level   slog.Level
		message string
	}{
		{"E049 a load reaches the program's own handler", slog.LevelInfo, "successfully loaded 'good'"},
		{"E049 a failure does, with its level", slog.LevelError, "failed to load 'broken' version 1"},
		{"E049 the end does", slog.LevelInfo, "successfully unloaded 'good' version 1"},
		{"E049 what the engine itself warns of", slog.LevelWarn,
			"model_metrics names a metric family that has no buckets to set"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range got {
				if r.level == tt.level && strings.Contains(r.message, tt.message) {
					return
				}
			}
			t.Errorf("no record %q of level %v in %+v", tt.message, tt.level, got)
		})
	}
}
