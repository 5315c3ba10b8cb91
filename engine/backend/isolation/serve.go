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
	"nereid/engine/worker/frames"
)

// Serve is the main function of a process that executes an instance of a model. open makes the backend from
// Options.Backend; runtime is the name that the process reports. log is written to stderr, which the server reads
// line by line. Serve returns after "finalize". If the server ends, the process exits.
func Serve(ctx context.Context, runtime string, log *slog.Logger,
	open func(options json.RawMessage) (backend.Backend, error)) error {
	defaultSignals()
	h := &handler{log: log, open: open}
	err := worker.Serve(ctx, frames.Hello{Runtime: runtime}, h)
	if errors.Is(err, io.EOF) {
		os.Exit(0) // without closing: an execution may be under way
	}
	return errors.Join(err, h.close())
}

// handler has one model, and one instance of it.
type handler struct {
	log       *slog.Logger
	open      func(json.RawMessage) (backend.Backend, error)
	model     backend.Model
	inst      backend.Instance
	batch     bool // max_batch_size is above 0
	decoupled bool
	peer      *worker.Peer
}

var (
	_ worker.Streamer  = (*handler)(nil)
	_ worker.Connector = (*handler)(nil)
)

// PeerUser is a backend in a process that asks the server for something.
type PeerUser interface {
	// UsePeer is called before the other methods.
	UsePeer(p *worker.Peer)
}

// Connect implements worker.Connector.
func (h *handler) Connect(p *worker.Peer) { h.peer = p }

// Streams implements worker.Streamer.
func (h *handler) Streams() bool { return h.decoupled }

// Call implements worker.Handler.
func (h *handler) Call(ctx context.Context, op string, args json.RawMessage) (any, error) {
	var a struct {
		Load      loadCall
		Placement backend.Placement
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, status.Errorf(status.Internal, "call %q: %w", op, err)
	}
	switch op {
	case "signature":
		b, spec, err := h.prepare(&a.Load)
		if err != nil {
			return nil, err
		}
		c, ok := b.(backend.AutoCompleter)
		if !ok {
			return nil, status.Errorf(status.Unsupported, "backend '%s' does not read signatures", b.Name())
		}
		return c.Signature(ctx, spec)
	case "load":
		b, spec, err := h.prepare(&a.Load)
		if err != nil {
			return nil, err
		}
		h.batch = spec.Config.GetMaxBatchSize() > 0
		h.decoupled = spec.Config.GetModelTransactionPolicy().GetDecoupled()
		if h.model, err = b.Load(ctx, spec); err != nil {
			return nil, err
		}
		return map[string]backend.Traits{"traits": separate(h.model.Traits())}, nil
	case "complete":
		b, spec, err := h.prepare(&a.Load)
		if err != nil {
			return nil, err
		}
		return complete(ctx, b, spec)
	case "place":
		b, spec, err := h.prepare(&a.Load)
		if err != nil {
			return nil, err
		}
		return place(ctx, b, spec)
	case "instance":
		if h.model == nil {
			return nil, status.New(status.Internal, "no model is loaded")
		}
		a.Placement.Affinity = affinity.Policy{} // the whole process has it, as it was started
		var err error
		h.inst, err = h.model.NewInstance(ctx, a.Placement)
		return nil, err
	case "is_ready":
		return map[string]bool{"ready": h.inst != nil}, ready(ctx, h.model)
	case "finalize", "trim":
		return nil, nil
	}
	return nil, status.Errorf(status.Unsupported, "this worker does not know the call %q", op)
}

// separate returns the traits that a model in a process also has for the server.
func separate(t backend.Traits) backend.Traits {
	return backend.Traits{ReportsExecutions: t.ReportsExecutions, ReportsResponses: t.ReportsResponses,
		DeviceBlocking: t.DeviceBlocking, SaysReady: t.SaysReady}
}

// complete lets the backend complete a configuration, and returns it.
func complete(ctx context.Context, b backend.Backend, s backend.Spec) (any, error) {
	c, ok := b.(backend.ConfigCompleter)
	if !ok {
		return nil, status.Errorf(status.Unsupported, "backend '%s' does not complete configurations", b.Name())
	}
	return changed(s.Config, c.CompleteConfig(ctx, s))
}

// place lets the backend place the instance groups of a configuration, and returns it.
func place(ctx context.Context, b backend.Backend, s backend.Spec) (any, error) {
	p, ok := b.(backend.GroupPlacer)
	if !ok {
		return nil, status.Errorf(status.Unsupported, "backend '%s' prefers no instance groups", b.Name())
	}
	return changed(s.Config, p.PlaceGroups(ctx, s))
}

// changed returns a configuration that was changed if that has succeeded.
func changed(cfg *inferencepb.ModelConfig, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	config, err := proto.Marshal(cfg)
	return map[string][]byte{"config": config}, err
}

// ready asks a model that decides itself whether it is ready.
func ready(ctx context.Context, m backend.Model) error {
	r, ok := m.(backend.Readiness)
	if !ok {
		return nil
	}
	return r.Ready(ctx)
}

// prepare makes the backend and the model's specification for a call.
func (h *handler) prepare(c *loadCall) (backend.Backend, backend.Spec, error) {
	config := &inferencepb.ModelConfig{}
	if err := proto.Unmarshal(c.Config, config); err != nil {
		return nil, backend.Spec{}, status.Errorf(status.Internal, "%w", err)
	}
	b, err := h.open(c.Backend)
	if err != nil {
		return nil, backend.Spec{}, err
	}
	if u, ok := b.(PeerUser); ok {
		u.UsePeer(h.peer)
	}
	return b, backend.Spec{
		ModelName: c.ModelName, Version: c.Version, Config: config,
		ModelFolder: c.ModelFolder, VersionFolder: c.VersionFolder, GPUs: c.GPUs, Log: h.log,
	}, nil
}

// Execute implements worker.Handler.
func (h *handler) Execute(ctx context.Context, b *infer.Batch) error {
	if h.inst == nil {
		return status.New(status.Internal, "there is no instance")
	}
	b.Rows = 0
	for _, r := range b.Requests {
		r.BatchSize = 1
		if h.batch && len(r.Inputs) > 0 && len(r.Inputs[0].Shape) > 0 {
			r.BatchSize = int(r.Inputs[0].Shape[0])
		}
		b.Rows += r.BatchSize
	}
	return h.inst.Execute(ctx, b)
}

func (h *handler) close() error {
	var errs []error
	if h.inst != nil {
		errs = append(errs, h.inst.Close())
	}
	if h.model != nil {
		errs = append(errs, h.model.Close())
	}
	return errors.Join(errs...)
}
