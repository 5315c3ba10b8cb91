package onnxruntime

import (
	"context"
	"encoding/json"
	"log/slog"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
)

// isolationParameter is the model parameter that asks for a process for each instance, by the value "process".
const isolationParameter = "isolation"

// isolated reports whether a configuration asks for processes of its own.
func isolated(c *inferencepb.ModelConfig) (bool, error) {
	switch v := c.GetParameters()[isolationParameter].GetStringValue(); v {
	case "", "none":
		return false, nil
	case "process":
		return true, nil
	default:
		return false, status.Errorf(status.InvalidArg,
			"parameter \"isolation\" is %q, want \"process\", or \"none\" for the server's own", v)
	}
}

// processOptions is what a process of an isolated model makes its backend from.
type processOptions struct {
	Library       string // libonnxruntime
	RuntimeFolder string
	Threads       int
	Settings      Settings
}

// newIsolated starts a process and has it load the model.
func (b *Backend) newIsolated(ctx context.Context, s backend.Spec) (*isolation.Model, error) {
	o, err := b.apart(&s)
	if err != nil {
		return nil, err
	}
	return isolation.Load(ctx, s, o)
}

// isolatedSignature has a process read the model's signature.
func (b *Backend) isolatedSignature(ctx context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	o, err := b.apart(&s)
	if err != nil {
		return nil, err
	}
	return isolation.Signature(ctx, s, o)
}

// apart says how the processes of a model are started; s becomes what they load.
func (b *Backend) apart(s *backend.Spec) (isolation.Options, error) {
	if b.o.Launcher == nil || len(b.o.Worker) == 0 {
		return isolation.Options{}, status.Errorf(status.Unsupported,
			"model '%s' asks for a process of its own, which this program cannot start; take the parameter "+
				"\"isolation\" out", s.ModelName)
	}
	if len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return isolation.Options{}, status.Errorf(status.Unsupported,
			"model '%s' has sequence_batching state and asks for a process of its own; take the parameter "+
				"\"isolation\" out", s.ModelName)
	}
	library, err := b.locate()
	if err != nil {
		return isolation.Options{}, status.Errorf(status.Unavailable, "%w", err)
	}
	s.Config = proto.CloneOf(s.Config)
	delete(s.Config.Parameters, isolationParameter)
	return isolation.Options{
		Launcher: b.o.Launcher, Command: b.o.Worker, Env: b.o.WorkerEnv, Runtime: "ONNX Runtime",
		Backend: func(keep affinity.Policy) any {
			p := processOptions{Library: library, RuntimeFolder: b.o.RuntimeFolder, Threads: b.o.Threads,
				Settings: b.o.Settings}
			if keep.Cores != nil && !p.Settings.GlobalThreadPool {
				p.Threads = len(keep.Cores) // the pool is the process's, which has these cores alone
			}
			return p
		},
	}, nil
}

// locate returns the path of the library that processes open, and unpacks it once.
func (b *Backend) locate() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" {
		return b.path, nil
	}
	if b.found == "" {
		path, err := b.o.findLibrary(embedded)
		if err != nil {
			return "", err
		}
		b.found = path
	}
	return b.found, nil
}

// ServeWorker is the main function of a process that executes an instance of a model that asks for one: "nereid
// worker". It returns when the server has it end, or is gone. log is the process's own, which the server reads line by
// line.
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
