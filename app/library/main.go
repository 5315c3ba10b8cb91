// Command library is libtritonserver.so: a server inside another program, by the C API that Triton publishes for that.
// make library builds it. The header is include/triton/core/tritonserver.h; docs/embed.md is for its users.
//
// The functions for errors, messages, requests and responses are those of package capi, which backend libraries use
// too. Here are the options, the server, the metrics, and the calls of the Python package in python/nereid. A server is
// an app.Embedded, so it is made by the code of nereid serve.
//
// Goroutines: those of app.Embedded, and one of capi for each request. It calls the functions of the program.
package main

/*
#cgo CFLAGS: -O2 -D_GNU_SOURCE -I${SRCDIR}/../../engine/backend/triton/capi
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "options.h"
*/
import "C"

import (
	"context"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"nereid/app"
	"nereid/engine"
	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func main() {} // c-shared needs it and does not call it

func init() { //nolint:gochecknoinits // nothing else runs when a program loads the library
	capi.SetHost(process{metrics: &made})
}

// program returns the file that runs models which have a process of their own: NEREID_PROGRAM, or the program nereid
// beside this library or in PATH.
func program() string {
	if file := os.Getenv("NEREID_PROGRAM"); file != "" {
		return file
	}
	beside := filepath.Join(filepath.Dir(C.GoString(C.library_path())), "nereid")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	if file, err := exec.LookPath("nereid"); err == nil {
		return file
	}
	return "nereid" // its absence is an error of the models that need it
}

// server is a server of the program.
type server struct {
	*app.Embedded
	engine    *engine.Engine
	noMetrics bool
	stop      func() error // the same result each time
}

var _ capi.Server = (*server)(nil)

func newServer(args []string, noMetrics bool) (*server, error) {
	e, err := app.Embed(context.Background(), args,
		app.EmbedOptions{Program: program(), Metrics: &made.registry, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	s := &server{e, e.Engine(), noMetrics, nil}
	s.stop = sync.OnceValue(func() error {
		newest.CompareAndSwap(s, nil) // its log is closed
		return e.Close()
	})
	newest.Store(s)
	return s, nil
}

// newest is the last server that was made and not stopped; nil: there is none. Its log takes what the program logs.
var newest atomic.Pointer[server]

// logger returns the log for what the program logs.
func logger() *slog.Logger {
	if s := newest.Load(); s != nil {
		return s.Log()
	}
	return slog.Default()
}

func (s *server) Live() bool { return s.engine.Live() }

func (s *server) Ready() bool { return s.engine.Ready() }

func (s *server) Infer(r *infer.Request) error { return s.engine.Infer(context.Background(), r) }

func (s *server) FindModel(name string, version int64) (*capi.Priorities, error) {
	if err := s.engine.FindModel(name, version); err != nil {
		return nil, err
	}
	c, err := s.engine.ModelConfig(name, version)
	if err != nil {
		return nil, nil // no version is in memory now
	}
	if c.GetEnsembleScheduling() != nil {
		return &capi.Priorities{Most: math.MaxUint64}, nil // its steps have levels
	}
	b := c.GetDynamicBatching()
	return &capi.Priorities{Most: b.GetPriorityLevels(), Default: b.GetDefaultPriorityLevel()}, nil
}

func (s *server) ModelReady(name string, version int64) (bool, error) {
	return s.engine.ModelReady(name, version)
}

func (s *server) ModelDecoupled(name string, version int64) (bool, error) {
	c, err := s.engine.ModelConfig(name, version)
	return c.GetModelTransactionPolicy().GetDecoupled(), err
}

func (s *server) LoadModel(name, config string, files map[string][]byte) error {
	p := engine.LoadParameters{ConfigJSON: config, Files: map[string][]byte{}}
	for file, b := range files {
		p.Files[strings.TrimPrefix(file, "file:")] = b
	}
	return s.engine.LoadModel(context.Background(), name, p)
}

func (s *server) UnloadModel(name string, dependents bool) error {
	return s.engine.UnloadModel(context.Background(), name, dependents)
}

// process is what functions without a server use.
type process struct {
	capi.Server
	*metrics
}

// Wake implements capi.Host: there are no backend libraries in this process.
func (process) Wake() {}

// Reserve implements capi.Host.
func (process) Reserve(int) *tensor.Buffer { return nil }

// Normalize implements capi.Host.
func (process) Normalize([]byte) ([]byte, error) { return nil, errNoBackends }

// Log implements capi.Host.
func (process) Log(level slog.Level, file string, line int, text string) {
	logger().Log(context.Background(), level, text, "file", file, "line", line)
}

// Logs implements capi.Host.
func (process) Logs(level slog.Level) bool {
	return logger().Enabled(context.Background(), level)
}

var errNoBackends = status.New(status.Unsupported, "functions of backends are not supported in this library")
