package capi

/*
#include <stdlib.h>
#include "client.h"
#include "shim.h"
*/
import "C"

import (
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// Server is what a TRITONSERVER_Server is for a library or a program. Errors are handed to it.
type Server interface {
	Live() bool
	Ready() bool
	// Infer sends a request to a model, which answers it any number of times.
	Infer(r *infer.Request) error
	// FindModel returns the priorities of a model, nil if they are not known. The error says that a request for the
	// model cannot be sent; without one, Infer decides.
	FindModel(name string, version int64) (*Priorities, error)
	ModelReady(name string, version int64) (bool, error)
	ModelDecoupled(name string, version int64) (bool, error)
	// LoadModel has a load request's parameters: the configuration as JSON ("": the repository's), and files by their
	// names, "file:<path>".
	LoadModel(name, config string, files map[string][]byte) error
	UnloadModel(name string, dependents bool) error
}

// Priorities are the priority levels of a model.
type Priorities struct {
	Most    uint64 // the last level
	Default uint64 // of a request that has none, or one beyond Most
}

// Metrics is where the metrics are that a library makes. Errors are handed to it.
type Metrics interface {
	// Family makes a family of metrics and Metric a metric of it; both return the server's number for it.
	Family(kind MetricKind, name, description string) (uint64, error)
	Metric(family uint64, labels map[string]string, buckets []float64) (uint64, error)
	DeleteMetric(number uint64, family bool) error
	MetricValue(number uint64) (float64, error)
	// ChangeMetric's op is frames.MetricIncrement, MetricSet or MetricObserve.
	ChangeMetric(number uint64, op uint32, value float64)
}

// MetricKind is a kind of metrics, as the API numbers them.
type MetricKind int

// The kinds of metrics.
const (
	Counter MetricKind = iota
	Gauge
	Histogram
)

// asked are the requests that are not answered, by their number.
var asked struct {
	sync.Mutex
	last uint64
	open map[uint64]*infer.Request // each with a reference
}

//export host_live
func host_live(s *C.TRITONSERVER_Server) C.bool { return C.bool(serverAt(s).Live()) }

//export host_ready
func host_ready(s *C.TRITONSERVER_Server) C.bool { return C.bool(serverAt(s).Ready()) }

//export host_find_model
func host_find_model(s *C.TRITONSERVER_Server, name *C.char, version C.int64_t, p *C.priorities) C.error {
	found, err := serverAt(s).FindModel(C.GoString(name), int64(version))
	if found != nil {
		*p = C.priorities{known: true, most: C.uint64_t(found.Most), standard: C.uint64_t(found.Default)}
	}
	return cError(err)
}

//export host_infer
func host_infer(s *C.TRITONSERVER_Server, q *C.TRITONSERVER_InferenceRequest, answering C.bool) C.error {
	r := goRequest(q)
	asked.Lock()
	if asked.open == nil {
		asked.open = map[uint64]*infer.Request{}
	}
	asked.last++
	number := asked.last
	asked.open[number] = r
	asked.Unlock()
	q.sent = C.uint64_t(number)
	if err := serverAt(s).Infer(r); err != nil {
		forgetAsked(number)
		if t, ok := r.Trace.(*followed); ok {
			t.refused()
		}
		r.Release()
		q.sent = 0
		return cError(err)
	}
	p := programAt(s)
	p.answers.Add(1)
	if r.Answered() && bool(q.prompt) {
		defer p.answers.Done()
		answer(p, q, number, r)
		return nil
	}
	now := r.Answered() && !bool(answering) // the goroutine below may free r
	go func() {                             // ends with the final response
		defer p.answers.Done()
		answer(p, q, number, r)
	}()
	if now {
		// A call from C keeps its thread, so answer always runs on another one. Gosched gives the processor to such a
		// thread now. Otherwise it would be taken only after this one is back in C. Functions that take an answer and
		// send the next request do not wait so: each would keep its thread while the next ones run.
		runtime.Gosched()
	}
	return nil
}

func forgetAsked(number uint64) {
	asked.Lock()
	defer asked.Unlock()
	delete(asked.open, number)
}

//export host_cancel
func host_cancel(number C.uint64_t) {
	asked.Lock()
	r := asked.open[uint64(number)]
	if r != nil {
		r.Retain()
	}
	asked.Unlock()
	if r != nil {
		r.Cancel()
		r.Release()
	}
}

//export host_model_ready
func host_model_ready(s *C.TRITONSERVER_Server, name *C.char, version C.int64_t, ready *C.bool) C.error {
	is, err := serverAt(s).ModelReady(C.GoString(name), int64(version))
	*ready = C.bool(is)
	return cError(err)
}

//export host_model_decoupled
func host_model_decoupled(s *C.TRITONSERVER_Server, name *C.char, version C.int64_t, decoupled *C.bool) C.error {
	is, err := serverAt(s).ModelDecoupled(C.GoString(name), int64(version))
	*decoupled = C.bool(is)
	return cError(err)
}

//export host_load
func host_load(s *C.TRITONSERVER_Server, name *C.char, parameters **C.TRITONSERVER_Parameter,
	count C.uint64_t) C.error {
	config, files := "", map[string][]byte{}
	for _, p := range unsafe.Slice(parameters, count) {
		key := C.GoString(p.name)
		value := textOf(p)
		switch {
		case key == "config":
			config = value
		case strings.HasPrefix(key, "file:"):
			files[key] = []byte(value)
		default:
			return cError(status.Errorf(status.InvalidArg, "a model is loaded with config and file:<path>, not with %q",
				key))
		}
	}
	return cError(serverAt(s).LoadModel(C.GoString(name), config, files))
}

//export host_unload
func host_unload(s *C.TRITONSERVER_Server, name *C.char, dependents C.bool) C.error {
	return cError(serverAt(s).UnloadModel(C.GoString(name), bool(dependents)))
}

//export host_family_new
func host_family_new(kind C.int, name, description *C.char, number *C.uint64_t) C.error {
	n, err := host.Family(MetricKind(kind), C.GoString(name), C.GoString(description))
	*number = C.uint64_t(n)
	return cError(err)
}

//export host_metric_new
func host_metric_new(family C.uint64_t, labels **C.TRITONSERVER_Parameter, count C.uint64_t, buckets *C.double,
	bucketCount C.uint64_t, number *C.uint64_t) C.error {
	texts := map[string]string{}
	for _, p := range unsafe.Slice(labels, count) {
		texts[C.GoString(p.name)] = textOf(p)
	}
	var limits []float64
	for _, b := range unsafe.Slice(buckets, bucketCount) {
		limits = append(limits, float64(b))
	}
	n, err := host.Metric(uint64(family), texts, limits)
	*number = C.uint64_t(n)
	return cError(err)
}

//export host_metric_delete
func host_metric_delete(number C.uint64_t, family C.bool) C.error {
	return cError(host.DeleteMetric(uint64(number), bool(family)))
}

//export host_metric_value
func host_metric_value(number C.uint64_t, value *C.double) C.error {
	v, err := host.MetricValue(uint64(number))
	*value = C.double(v)
	return cError(err)
}

//export host_metric_change
func host_metric_change(number C.uint64_t, op C.uint32_t, value C.double) {
	host.ChangeMetric(uint64(number), uint32(op), float64(value))
}
