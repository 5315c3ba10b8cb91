package onnxruntime

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
)

// isolationParameter is the model parameter for isolation.
const isolationParameter = "isolation"

// The values of isolationParameter.
const (
	isolationAuto    = ""        // a process for each instance if the model has dangerous operators
	isolationNone    = "none"    // the server's process
	isolationProcess = "process" // a process for each instance
)

// isolationOf returns the value of isolationParameter.
func isolationOf(c *inferencepb.ModelConfig) (string, error) {
	v := c.GetParameters()[isolationParameter].GetStringValue()
	if v != isolationAuto && v != isolationNone && v != isolationProcess {
		return "", status.Errorf(status.InvalidArg,
			"parameter \"isolation\" is %q, want \"process\", or \"none\" for the server's own", v)
	}
	return v, nil
}

// isDangerous reports whether a model should run in processes although its configuration does not say so: a client's
// values could crash the server. The log says why. Without processes, and with implicit states, which processes do not
// have, the model stays in the server.
func (b *Backend) isDangerous(s *backend.Spec) (bool, error) {
	_, info, err := modelPath(*s)
	if err != nil || len(info.Dangers) == 0 || b.o.Launcher == nil || len(b.o.Worker) == 0 {
		return false, err
	}
	var why []string
	for _, d := range info.Dangers {
		why = append(why, d.Op+" "+d.Why)
	}
	if len(s.Config.GetSequenceBatching().GetState()) > 0 {
		s.Log.Warn("a client can crash the server through this model, which must run inside the server because of its "+
			"implicit states; serve it to trusted clients only", "model", s.ModelName, "reason", why)
		return false, nil
	}
	s.Log.Info("the model runs in a separate process, because a client's values could crash it; "+
		"the parameter isolation with the value none keeps it in the server", "model", s.ModelName, "reason", why)
	return true, nil
}

// processOptions are the backend options that the process of an isolated model receives.
type processOptions struct {
	Library       string // libonnxruntime
	RuntimeFolder string
	Threads       int
	Settings      Settings
}

// isolationOptions returns how to start the processes of an isolated model, nil for other models. It changes s to the
// specification that the processes load.
func (b *Backend) isolationOptions(s *backend.Spec) (*isolation.Options, error) {
	switch v, err := isolationOf(s.Config); {
	case err != nil || v == isolationNone:
		return nil, err
	case v == isolationAuto:
		if dangerous, err := b.isDangerous(s); err != nil || !dangerous {
			return nil, err
		}
	}
	if b.o.Launcher == nil || len(b.o.Worker) == 0 {
		return nil, status.Errorf(status.Unsupported,
			"model '%s' asks for a separate process, which this program cannot start; take the parameter "+
				"\"isolation\" out", s.ModelName)
	}
	if len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return nil, status.Errorf(status.Unsupported,
			"model '%s' has sequence_batching state and asks for a separate process; take the parameter "+
				"\"isolation\" out", s.ModelName)
	}
	library, err := b.locate()
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "%w", err)
	}
	limits, err := b.o.Settings.Limits.Of(s.Config)
	if err != nil {
		return nil, err
	}
	s.Config = proto.CloneOf(s.Config)
	if s.Config.Parameters == nil {
		s.Config.Parameters = map[string]*inferencepb.ModelParameter{}
	}
	s.Config.Parameters[isolationParameter] = &inferencepb.ModelParameter{StringValue: isolationNone}
	maps.DeleteFunc(s.Config.Parameters, func(name string, _ *inferencepb.ModelParameter) bool {
		return isLimit(name) // the process need not know its own
	})
	return &isolation.Options{
		Launcher: b.o.Launcher, Command: b.o.Worker, Env: b.o.WorkerEnv, Runtime: "ONNX Runtime",
		Limits: limits,
		Backend: func(keep affinity.Policy) any {
			if path, err := b.locate(); err == nil { // unpacked again if a cleaner of temporary files removed it
				library = path
			}
			p := processOptions{Library: library, RuntimeFolder: b.o.RuntimeFolder, Threads: b.o.Threads,
				Settings: b.o.Settings}
			if keep.Cores != nil && !p.Settings.GlobalThreadPool {
				p.Threads = len(keep.Cores) // the process runs on these cores only
			}
			return p
		},
	}, nil
}

// locate returns the path of the library that the processes of isolated models open. It unpacks the library unless the
// file is there.
func (b *Backend) locate() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" && isThere(b.path) {
		return b.path, nil
	}
	if b.found == "" || !isThere(b.found) {
		path, err := b.o.findLibrary(embedded)
		if err != nil {
			return "", err
		}
		b.found = path
	}
	return b.found, nil
}

// isThere reports whether a library's file exists. A name without a folder is the system loader's to find.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !filepath.IsAbs(path)
}

// ServeWorker is the main function of the process of an isolated model: "nereid worker". It returns when the server
// stops it or has exited. log writes to the process's standard error, which the server reads line by line.
func ServeWorker(ctx context.Context, log *slog.Logger) error {
	return isolation.Serve(ctx, "onnxruntime", log, func(options json.RawMessage) (backend.Backend, error) {
		var o processOptions
		if err := json.Unmarshal(options, &o); err != nil {
			return nil, status.Errorf(status.Internal, "%w", err)
		}
		return New(Options{Library: o.Library, RuntimeFolder: o.RuntimeFolder, Threads: o.Threads, Settings: o.Settings,
			Log: log}), nil
	})
}
