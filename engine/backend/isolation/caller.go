package isolation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/metrics/custom"
	"nereid/engine/status"
	"nereid/engine/worker"
	"nereid/engine/worker/frames"
)

// Caller answers what an instance asks of the server.
type Caller struct {
	host    backend.Host // nil: nothing can be asked
	metrics *custom.Registry

	mu       sync.Mutex
	next     uint64 // guarded by mu, as is all below
	families map[uint64]*custom.Family
	values   map[uint64]*custom.Metric
	old      []func() // close the metrics of the last process; see Reset
}

var _ worker.Caller = (*Caller)(nil)

// NewCaller returns a caller that asks h (nil: nothing can be asked), with metrics in g (nil: there are none).
func NewCaller(h backend.Host, g *custom.Registry) *Caller {
	return &Caller{host: h, metrics: g, families: map[uint64]*custom.Family{}, values: map[uint64]*custom.Metric{}}
}

// Reset removes the numbers of the last process. Its metrics stay until the next reset, so that a counter which the
// next process makes again continues.
func (c *Caller) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	for _, m := range c.values {
		c.old = append(c.old, m.Close)
	}
	for _, f := range c.families {
		c.old = append(c.old, f.Close)
	}
	clear(c.values)
	clear(c.families)
}

// release closes what was kept for the next process. c.mu is held.
func (c *Caller) release() {
	for _, closeIt := range c.old {
		closeIt()
	}
	c.old = nil
}

// Close closes all metrics.
func (c *Caller) Close() {
	c.Reset()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
}

// Infer implements worker.Caller.
func (c *Caller) Infer(ctx context.Context, r *infer.Request) error {
	if c.host == nil {
		return status.New(status.Unavailable, "other models cannot be called here")
	}
	return c.host.Infer(ctx, r)
}

// Metric changes a metric. Errors are ignored: the Python module has reported them to the model.
func (c *Caller) Metric(n uint64, op uint32, v float64) {
	c.mu.Lock()
	m := c.values[n]
	c.mu.Unlock()
	if m == nil {
		return
	}
	switch op {
	case frames.MetricIncrement:
		_ = m.Increment(v)
	case frames.MetricSet:
		_ = m.Set(v)
	case frames.MetricObserve:
		_ = m.Observe(v)
	}
}

// arguments are the members of all calls.
type arguments struct {
	Name        string            `json:"name"`
	Config      string            `json:"config"`
	Files       map[string]string `json:"files"`
	Dependents  bool              `json:"unload_dependents"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	Kind        string            `json:"kind"`
	Family      uint64            `json:"family"`
	Metric      uint64            `json:"metric"`
	Labels      map[string]string `json:"labels"`
	Buckets     []frames.Float    `json:"buckets"`
}

// Call implements worker.Caller.
func (c *Caller) Call(ctx context.Context, op string, text json.RawMessage) (any, error) {
	var a arguments
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, status.Errorf(status.InvalidArg, "%s: %w", op, err)
	}
	switch op {
	case "load_model", "unload_model", "is_model_ready", "model_decoupled":
		return c.models(ctx, op, &a)
	}
	if c.metrics == nil {
		return nil, status.New(status.Unsupported, "models cannot have metrics here")
	}
	return c.metricCall(op, &a)
}

func (c *Caller) models(ctx context.Context, op string, a *arguments) (any, error) {
	if c.host == nil {
		return nil, status.New(status.Unavailable, "other models cannot be reached here")
	}
	switch op {
	case "load_model":
		return nil, c.load(ctx, a)
	case "unload_model":
		if l, ok := c.host.(backend.Loader); ok && a.Dependents {
			return nil, l.UnloadModelAll(ctx, a.Name)
		}
		return nil, c.host.UnloadModel(ctx, a.Name)
	}
	version := infer.LatestVersion
	if a.Version != "" && a.Version != "-1" {
		n, err := strconv.ParseInt(a.Version, 10, 64)
		if err != nil {
			return nil, status.Errorf(status.InvalidArg, "model version %q is not a number", a.Version)
		}
		version = n
	}
	if op == "model_decoupled" {
		i, ok := c.host.(backend.Inspector)
		if !ok {
			return nil, status.New(status.Unsupported, "what other models are is not known here")
		}
		decoupled, err := i.ModelDecoupled(a.Name, version)
		return map[string]bool{"decoupled": decoupled}, err
	}
	return map[string]bool{"ready": c.host.ModelReady(a.Name, version)}, nil
}

func (c *Caller) load(ctx context.Context, a *arguments) error {
	if a.Config == "" && len(a.Files) == 0 {
		return c.host.LoadModel(ctx, a.Name)
	}
	l, ok := c.host.(backend.Loader)
	if !ok {
		return status.New(status.Unsupported, "models cannot be loaded with another configuration here")
	}
	files := map[string][]byte{}
	for name, text := range a.Files {
		path := strings.TrimPrefix(name, "file:") // as a load request has them
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return status.Errorf(status.InvalidArg, "file %q of model '%s': %w", path, a.Name, err)
		}
		files[path] = b
	}
	return l.LoadModelAs(ctx, a.Name, a.Config, files)
}

func (c *Caller) metricCall(op string, a *arguments) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch op {
	case "family_new":
		f, err := c.metrics.Family(a.Name, a.Description, custom.Kind(a.Kind))
		if err != nil {
			return nil, err
		}
		c.next++
		c.families[c.next] = f
		return map[string]uint64{"family": c.next}, nil
	case "family_delete":
		if f := c.families[a.Family]; f != nil {
			delete(c.families, a.Family)
			f.Close()
		}
		return nil, nil
	case "metric_new":
		f := c.families[a.Family]
		if f == nil {
			return nil, status.New(status.NotFound, "the metric family is gone")
		}
		m, err := f.Metric(a.Labels, frames.Floats(a.Buckets))
		if err != nil {
			return nil, err
		}
		c.next++
		c.values[c.next] = m
		return map[string]uint64{"metric": c.next}, nil
	}
	m := c.values[a.Metric]
	switch {
	case op == "metric_delete" && m != nil:
		delete(c.values, a.Metric)
		m.Close()
		return nil, nil
	case op == "metric_delete":
		return nil, nil
	case op == "metric_value" && m == nil:
		return nil, status.New(status.NotFound, "the metric is gone")
	case op == "metric_value":
		v, err := m.Value()
		return map[string]frames.Float{"value": frames.Float(v)}, err
	}
	return nil, status.Errorf(status.Unsupported, "there is no call '%s'", op)
}
