package python

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/worker"
	"nereid/engine/worker/process"
)

// jsonText is JSON text that is embedded without change.
type jsonText = json.RawMessage

func versionText(n int64) string { return strconv.FormatInt(n, 10) }

// model is one version of a Python model.
type model struct {
	b        *Backend
	spec     backend.Spec
	file     string
	platform string // the python-based backend; "": the model's own code
	log      *slog.Logger
	limits   process.Limits
	visible  visibility
	runtime  string // the file that Python runs
	env      environment
	outputs  *worker.Outputs

	hasReady atomic.Bool // the model's class has is_ready

	isolation.Supervisors
}

var (
	_ backend.Model           = (*model)(nil)
	_ backend.Health          = (*model)(nil)
	_ backend.MemoryReporter  = (*model)(nil)
	_ backend.ProcessReporter = (*model)(nil)
	_ backend.Readiness       = (*model)(nil)
	_ backend.Leaver          = (*model)(nil)
)

// stamp returns a text that changes when the model's file or its environment changes; "": the file does not exist.
func (m *model) stamp() string {
	info, err := os.Stat(m.file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(m.file, info.ModTime().UnixNano(), info.Size(), m.env.python, m.env.stamp)
}

// spawn starts a process for an instance.
func (m *model) spawn(ctx context.Context, p backend.Placement, c *isolation.Caller,
	extra []string) (*worker.Worker, error) {
	w, err := m.b.o.Launcher.Start(ctx, worker.Spec{
		Name: p.Name, Passive: p.Passive, ModelName: m.spec.ModelName, Version: m.spec.Version,
		Command: []string{m.env.python, "-u", m.runtime}, Env: withMemory(slices.Concat(m.env.vars, extra)),
		Limits: m.limits, Affinity: p.Affinity,
		Arena: m.b.settings.arena, Grow: m.b.settings.grow, StartTimeout: m.b.settings.timeout,
		Decoupled: m.spec.Config.GetModelTransactionPolicy().GetDecoupled(), Outputs: m.outputs,
		Caller: c, Log: m.log.With("instance", p.Name),
	})
	if err != nil {
		return nil, m.missing(err)
	}
	return w, nil
}

// NewInstance initializes the model in a new process, or in the process that completed its configuration.
func (m *model) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	c := isolation.NewCaller(m.spec.Host, m.b.o.Metrics)
	var first *worker.Worker
	if m.deviceVars(p) == nil && !p.Affinity.Restricts() { // both are set when a process starts
		if done := m.b.claim(m.spec.VersionFolder, m.stamp()); done != nil {
			first, c = done.w, done.caller
			first.Configure(p.Name, p.Passive, m.spec.Config.GetModelTransactionPolicy().GetDecoupled(), m.outputs)
		}
	}
	var err error
	if first != nil {
		err = m.initialize(ctx, first, p)
		if err != nil {
			first.Kill()
		}
	} else {
		first, err = m.launch(ctx, p, c)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	k := worker.Supervise(worker.Supervision{
		Name: p.Name, Passive: p.Passive, Grace: m.b.settings.grace, Suspects: m.Suspects, Log: m.log,
		Notify: m.spec.Notify(p.Name),
		Explain: func(f *worker.Failure) error { // of an exception: with Triton's text
			return status.Errorf(status.CodeOf(f), "Failed to process the request(s) for model '%s', message: %w",
				p.Name, f.Err)
		},
	}, first, func(ctx context.Context) (*worker.Worker, error) {
		if err := m.restore(ctx); err != nil {
			return nil, err
		}
		return m.launch(ctx, p, c)
	})
	m.Add(k)
	return &instance{Supervisor: k, m: m, c: c}, nil
}

// restore makes the files of the runtime and of the environment again that are missing: a cleaner of temporary files
// may have removed them.
func (m *model) restore(ctx context.Context) error {
	if _, err := m.b.runtime.unpack(); err != nil {
		return errUnpack(err)
	}
	if _, err := os.Stat(m.env.python); err == nil {
		return nil
	}
	_, err := m.b.envs.of(ctx, m.spec, m.platform, m.log) // the same one: it depends on the model's files
	return err
}

// launch starts and initializes a process for an instance.
func (m *model) launch(ctx context.Context, p backend.Placement, c *isolation.Caller) (*worker.Worker, error) {
	c.Reset()
	w, err := m.spawn(ctx, p, c, m.deviceVars(p))
	if err != nil {
		return nil, err
	}
	if err := m.initialize(ctx, w, p); err != nil {
		w.Kill()
		return nil, err
	}
	return w, nil
}

func (m *model) initialize(ctx context.Context, w *worker.Worker, p backend.Placement) error {
	cfg := m.spec.Config
	inputs, outputs := []string{}, []string{}
	for _, in := range cfg.GetInput() {
		inputs = append(inputs, in.GetName())
	}
	for _, out := range cfg.GetOutput() {
		outputs = append(outputs, out.GetName())
	}
	var has struct {
		IsReady bool `json:"is_ready"`
	}
	err := w.Call(ctx, "initialize", map[string]any{
		"model_path": m.file, "platform": m.platform, "model_dir": m.spec.VersionFolder,
		"args": map[string]string{
			"model_config":        string(modelconfig.MarshalJSON(cfg)),
			"model_instance_kind": strings.TrimPrefix(p.Kind.String(), "KIND_"),
			"model_instance_name": p.Name, "model_instance_device_id": m.deviceID(p),
			"model_repository": m.spec.ModelFolder, "model_version": versionText(m.spec.Version),
			"model_name": m.spec.ModelName,
		},
		"decoupled": cfg.GetModelTransactionPolicy().GetDecoupled(), "log_level": m.verbosity(),
		"inputs": inputs, "outputs": outputs, "grow": m.b.settings.grow,
	}, &has)
	if err != nil {
		return m.missing(err)
	}
	m.hasReady.Store(has.IsReady)
	return nil
}

// Ready returns nil if an instance that takes requests is ready: it is executing, or the model's is_ready returns true
// there. A model without is_ready is always ready.
func (m *model) Ready(ctx context.Context) error {
	if !m.hasReady.Load() {
		return nil
	}
	err := status.Errorf(status.Unavailable, "model '%s' has no instance", m.spec.ModelName)
	for _, k := range m.Working() {
		w := k.Worker()
		if w == nil {
			err = k.State().Err
			continue
		}
		if w.Executing() {
			return nil
		}
		var ready bool
		if ready, err = w.IsReady(ctx); ready {
			return nil
		}
		if err == nil {
			err = status.Errorf(status.Unavailable, "is_ready of model '%s' says that it is not", m.spec.ModelName)
		}
	}
	return err
}

// verbosity returns 1 if debug lines are logged, else 0.
func (m *model) verbosity() int {
	if m.log.Enabled(context.Background(), slog.LevelDebug) {
		return 1
	}
	return 0
}

// Traits implements backend.Model.
func (m *model) Traits() backend.Traits {
	return backend.Traits{OwnProcess: true, WaitsInline: true}
}

// Close does nothing: only instances have resources.
func (m *model) Close() error { return nil }

// instance is one process, which is started again when it exits.
type instance struct {
	*worker.Supervisor
	m *model
	c *isolation.Caller
}

var _ backend.Series = (*instance)(nil)

// Close finalizes the model and ends its process.
func (i *instance) Close() error {
	err := i.Supervisor.Close()
	i.c.Close()
	i.m.Remove(i.Supervisor)
	return err
}
