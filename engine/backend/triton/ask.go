package triton

import (
	"context"
	"encoding/base64"
	"strconv"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/worker"
	"nereid/engine/worker/frames"
)

// The methods in this file are those of capi.Server, capi.Metrics and capi.Tracer. They ask the server.

// Live implements capi.Server: a server that has an instance is live.
func (in *inside) Live() bool { return true }

// Ready implements capi.Server.
func (in *inside) Ready() bool { return true }

// Infer sends a request to another model.
func (in *inside) Infer(r *infer.Request) error { return in.peer.Infer(r) }

// trace returns the trace of a request that the library has; nil: it has none.
func (in *inside) trace(handle uint64) *worker.Trace {
	in.requests.mu.Lock()
	defer in.requests.mu.Unlock()
	p := in.requests.open[handle]
	if p == nil {
		return nil
	}
	t, _ := p.r.Trace.(*worker.Trace)
	return t
}

// Activity implements capi.Tracer.
func (in *inside) Activity(handle uint64, at int64, name string) {
	if t := in.trace(handle); t != nil {
		t.ActivityAt(name, at)
	}
}

// Trace implements capi.Tracer.
func (in *inside) Trace(handle uint64) infer.Trace {
	if t := in.trace(handle); t != nil {
		return t.Child()
	}
	return nil
}

// call asks the server, for a thread of the library.
func (in *inside) call(op string, args map[string]any, into any) error {
	return in.peer.Call(context.Background(), op, args, into)
}

func modelArgs(name string, version int64) map[string]any {
	return map[string]any{"name": name, "version": strconv.FormatInt(version, 10)}
}

// FindModel leaves it to Infer to say whether there is such a model: the answer of the server would take as long.
func (in *inside) FindModel(string, int64) (*capi.Priorities, error) { return nil, nil }

// ModelReady reports whether a model is ready.
func (in *inside) ModelReady(name string, version int64) (bool, error) {
	var reply struct{ Ready bool }
	err := in.call("is_model_ready", modelArgs(name, version), &reply)
	return reply.Ready, err
}

// ModelDecoupled reports whether a model is decoupled.
func (in *inside) ModelDecoupled(name string, version int64) (bool, error) {
	var reply struct{ Decoupled bool }
	err := in.call("model_decoupled", modelArgs(name, version), &reply)
	return reply.Decoupled, err
}

// LoadModel loads a model.
func (in *inside) LoadModel(name, config string, files map[string][]byte) error {
	texts := map[string]string{}
	for path, b := range files {
		texts[path] = base64.StdEncoding.EncodeToString(b)
	}
	return in.call("load_model", map[string]any{"name": name, "config": config, "files": texts}, nil)
}

// UnloadModel unloads a model.
func (in *inside) UnloadModel(name string, dependents bool) error {
	return in.call("unload_model", map[string]any{"name": name, "unload_dependents": dependents}, nil)
}

// Family makes a family of metrics.
func (in *inside) Family(kind capi.MetricKind, name, description string) (uint64, error) {
	kinds := [...]string{capi.Counter: "counter", capi.Gauge: "gauge", capi.Histogram: "histogram"}
	var reply struct{ Family uint64 }
	err := in.call("family_new", map[string]any{"name": name, "description": description, "kind": kinds[kind]}, &reply)
	return reply.Family, err
}

// Metric makes a metric.
func (in *inside) Metric(family uint64, labels map[string]string, buckets []float64) (uint64, error) {
	limits := make([]frames.Float, len(buckets))
	for i, b := range buckets {
		limits[i] = frames.Float(b)
	}
	var reply struct{ Metric uint64 }
	err := in.call("metric_new", map[string]any{"family": family, "labels": labels, "buckets": limits}, &reply)
	return reply.Metric, err
}

// DeleteMetric deletes a metric or a family.
func (in *inside) DeleteMetric(number uint64, family bool) error {
	if family {
		return in.call("family_delete", map[string]any{"family": number}, nil)
	}
	return in.call("metric_delete", map[string]any{"metric": number}, nil)
}

// MetricValue returns the value of a metric.
func (in *inside) MetricValue(number uint64) (float64, error) {
	var reply struct{ Value frames.Float }
	err := in.call("metric_value", map[string]any{"metric": number}, &reply)
	return float64(reply.Value), err
}

// ChangeMetric changes a metric.
func (in *inside) ChangeMetric(number uint64, op uint32, value float64) {
	in.peer.Metric(number, op, value)
}
