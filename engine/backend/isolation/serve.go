package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/worker"
)

// Serve is the main function of a process that executes an instance of a model. open makes the backend from what
// Options.Backend was; runtime is what the process says that it is. Serve returns when the server has it end; when the
// server is gone, the process ends. log is the process's own, which the server reads line by line.
func Serve(ctx context.Context, runtime string, log *slog.Logger, open func(options json.RawMessage) (backend.Backend, error)) error {
	defaultSignals()
	s := &servant{log: log, open: open}
	err := worker.Serve(ctx, worker.Hello{Runtime: runtime}, s)
	if errors.Is(err, io.EOF) {
		os.Exit(0) // at once: a run may be under way
	}
	return errors.Join(err, s.close())
}

// servant has one model, and one instance of it.
type servant struct {
	log   *slog.Logger
	open  func(json.RawMessage) (backend.Backend, error)
	model backend.Model
	inst  backend.Instance
	batch bool // max_batch_size is above 0
}

var _ worker.Servant = (*servant)(nil)

// Call implements worker.Servant.
func (s *servant) Call(ctx context.Context, op string, args json.RawMessage) (any, error) {
	var a struct {
		Load      loadCall
		Placement backend.Placement
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, status.Errorf(status.Internal, "call %q: %w", op, err)
	}
	switch op {
	case "signature":
		b, spec, err := s.prepare(&a.Load)
		if err != nil {
			return nil, err
		}
		c, ok := b.(backend.AutoCompleter)
		if !ok {
			return nil, status.Errorf(status.Unsupported, "backend '%s' does not read signatures", b.Name())
		}
		return c.Signature(ctx, spec)
	case "load":
		b, spec, err := s.prepare(&a.Load)
		if err != nil {
			return nil, err
		}
		s.batch = spec.Config.GetMaxBatchSize() > 0
		s.model, err = b.Load(ctx, spec)
		return nil, err
	case "instance":
		if s.model == nil {
			return nil, status.New(status.Internal, "no model is loaded")
		}
		a.Placement.Affinity = affinity.Policy{} // the whole process has it, as it was started
		var err error
		s.inst, err = s.model.NewInstance(ctx, a.Placement)
		return nil, err
	case "is_ready":
		return map[string]bool{"ready": s.inst != nil}, nil
	case "finalize", "log_level", "trim":
		return nil, nil
	}
	return nil, status.Errorf(status.Unsupported, "this worker does not know the call %q", op)
}

// prepare makes the backend that a call is for.
func (s *servant) prepare(c *loadCall) (backend.Backend, backend.Spec, error) {
	config := &inferencepb.ModelConfig{}
	if err := proto.Unmarshal(c.Config, config); err != nil {
		return nil, backend.Spec{}, status.Errorf(status.Internal, "%w", err)
	}
	b, err := s.open(c.Backend)
	if err != nil {
		return nil, backend.Spec{}, err
	}
	return b, backend.Spec{
		ModelName: c.ModelName, Version: c.Version, Config: config, ModelFolder: c.ModelFolder, VersionFolder: c.VersionFolder, Log: s.log,
	}, nil
}

// Execute implements worker.Servant.
func (s *servant) Execute(ctx context.Context, b *infer.Batch) error {
	if s.inst == nil {
		return status.New(status.Internal, "there is no instance")
	}
	b.Rows = 0
	for _, r := range b.Requests {
		r.BatchSize = 1
		if s.batch && len(r.Inputs) > 0 && len(r.Inputs[0].Shape) > 0 {
			r.BatchSize = int(r.Inputs[0].Shape[0])
		}
		b.Rows += r.BatchSize
	}
	return s.inst.Execute(ctx, b)
}

func (s *servant) close() error {
	var errs []error
	if s.inst != nil {
		errs = append(errs, s.inst.Close())
	}
	if s.model != nil {
		errs = append(errs, s.model.Close())
	}
	return errors.Join(errs...)
}
