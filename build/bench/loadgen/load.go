package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"nereid/app/perf"
	"nereid/engine/client"
	"nereid/engine/device"
	"nereid/engine/system/proc"
)

// sender sends one worker's requests.
type sender interface {
	// exchange sends the request and returns the body of the whole response, which is valid until the next call.
	exchange(ctx context.Context) ([]byte, error)
	// decode parses the last response, from its body or a copy of it. The response keeps the body.
	decode(body []byte) (*client.Response, error)
	close()
}

// options describes one load.
type options struct {
	addr, proto, model, tensors string
	repository                  string // of -i embedded
	clients, conns              int
	warm, window                time.Duration
	pid                         int
	check                       string
	outputs                     string // their names, if the tensors lie in shared memory; otherwise ""
}

// point is the result of one load.
type point struct {
	Proto    string  `json:"proto"`
	Model    string  `json:"model"`
	Clients  int     `json:"clients"`
	Seconds  float64 `json:"seconds"`
	Requests uint64  `json:"requests"`
	Rate     float64 `json:"rate"` // requests per second
	MeanMS   float64 `json:"mean_ms"`
	P50MS    float64 `json:"p50_ms"`
	P90MS    float64 `json:"p90_ms"`
	P99MS    float64 `json:"p99_ms"`
	MaxMS    float64 `json:"max_ms"`
	// ServerUS is the server's CPU time per request in microseconds, descendants included; 0 without -pid.
	ServerUS  float64  `json:"server_us"`
	ServerCPU float64  `json:"server_cpu"` // cores
	ClientCPU float64  `json:"client_cpu"` // cores
	OtherCPU  float64  `json:"other_cpu"`  // cores, of processes that are neither
	RSSMB     float64  `json:"rss_mb"`
	Checked   bool     `json:"checked"` // values too, not only status and length
	Errors    uint64   `json:"errors"`
	Faults    []string `json:"faults,omitempty"` // the first few errors
}

// longest is the length of the whole load, and some time for requests that get no response.
func (o *options) longest() time.Duration { return o.warm + o.window + time.Minute }

// worker is one client of the closed loop.
type worker struct {
	sender sender
	in     []client.Tensor
	alone  *client.Response
	length int // of every response; 0: may differ
	check  checker
	hist   perf.Histogram
	errs   uint64
}

// once sends one request and checks its response.
func (w *worker) once(ctx context.Context) error {
	body, err := w.sender.exchange(ctx)
	if err != nil {
		return err
	}
	if w.length > 0 && len(body) != w.length {
		return fmt.Errorf("the response has %d bytes, want %d", len(body), w.length)
	}
	if w.check == nil {
		return nil
	}
	got, err := w.sender.decode(body)
	if err != nil {
		return err
	}
	return w.check(w.in, w.alone, got)
}

// learn sends the request alone, to know the right response.
func (w *worker) learn(ctx context.Context, o *options) error {
	body, err := w.sender.exchange(ctx)
	if err != nil {
		return fmt.Errorf("the first request: %w", err)
	}
	// Numbers in JSON may have one digit more or less when the row runs in another batch, and a reload may change the
	// length of the version.
	if o.check != "version" && (o.proto != "json" || o.check == "identity") {
		w.length = len(body)
	}
	if w.check == nil {
		return nil
	}
	if w.alone, err = w.sender.decode(bytes.Clone(body)); err != nil {
		return fmt.Errorf("the first response: %w", err)
	}
	return w.check(w.in, w.alone, w.alone)
}

// newWorkers prepares the workers, each with its own request, and sends each request once.
func newWorkers(ctx context.Context, o *options) (workers []*worker, closeAll func(), err error) {
	check, err := newChecker(o.check)
	if err != nil {
		return nil, nil, err
	}
	create, closeShared, err := senders(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	closeAll = func() {
		for _, w := range workers {
			w.sender.close()
		}
		closeShared()
	}
	for i := range o.clients {
		w := &worker{check: check}
		if w.in, err = o.inputs(i); err == nil {
			w.sender, err = create(i, w.in)
		}
		if err == nil {
			workers = append(workers, w)
			err = w.learn(ctx, o)
		}
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("worker %d: %w", i, err)
		}
	}
	return workers, closeAll, nil
}

// newSender makes the sender of worker i.
type newSender func(i int, in []client.Tensor) (sender, error)

// senders returns a function that makes the workers' senders. closeAll closes what the senders share.
func senders(ctx context.Context, o *options) (create newSender, closeAll func(), err error) {
	deadline := time.Now().Add(o.longest())
	closeAll = func() {}
	switch {
	case o.outputs != "" && o.proto != "http":
		return nil, nil, fmt.Errorf("-shm with -i %s: want -i http", o.proto)
	case o.outputs != "":
		size := 0
		for i := range o.clients {
			in, err := o.inputs(i)
			if err != nil {
				return nil, nil, err
			}
			size += 2 * sizeOf(in)
		}
		r, err := newSharedRegion(ctx, o.addr, size)
		if err != nil {
			return nil, nil, err
		}
		create = func(i int, in []client.Tensor) (sender, error) { return r.sender(i, o, in, deadline) }
		return create, r.close, nil
	case o.proto == "embedded":
		eng, err := startEngine(ctx, o.repository)
		if err != nil {
			return nil, nil, err
		}
		o.pid = os.Getpid() // the server is this process
		create = func(_ int, in []client.Tensor) (sender, error) {
			return &engineSender{eng: eng, model: o.model, in: in}, nil
		}
		return create, func() { eng.Close(context.WithoutCancel(ctx)) }, nil
	case o.proto == "http" || o.proto == "json":
		create = func(_ int, in []client.Tensor) (sender, error) {
			return newHTTPSender(o, &client.Request{Model: o.model, Inputs: in}, deadline)
		}
		return create, closeAll, nil
	case o.proto == "grpc" && o.clients <= o.conns:
		create = func(_ int, in []client.Tensor) (sender, error) {
			request, err := grpcRequest(o.model, in)
			return newH2Sender(o.addr, request, deadline), err
		}
		return create, closeAll, nil
	case o.proto == "grpc" || o.proto == "grpc-go":
		conns, err := dialGRPC(o.addr, min(o.clients, o.conns))
		if err != nil {
			return nil, nil, err
		}
		create = func(i int, in []client.Tensor) (sender, error) {
			request, err := grpcRequest(o.model, in)
			return &grpcSender{conn: conns[i%len(conns)], request: request}, err
		}
		closeAll = func() {
			for _, c := range conns {
				_ = c.Close() // the load is over
			}
		}
		return create, closeAll, nil
	}
	return nil, nil, fmt.Errorf("-i %q: want http (binary tensors), json, grpc, grpc-go or embedded", o.proto)
}

const (
	warming int32 = iota
	measuring
	stopping
)

// faultList keeps the first few errors.
type faultList struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (f *faultList) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) < 5 {
		f.list = append(f.list, err.Error())
	}
}

// loop sends requests until the phase is stopping, and counts those that lie in the measured window.
func (w *worker) loop(ctx context.Context, phase *atomic.Int32, faults *faultList) {
	for {
		before := phase.Load()
		if before == stopping {
			return
		}
		start := time.Now()
		err := w.once(ctx)
		took := time.Since(start)
		if err != nil {
			w.errs++
			faults.add(err)
			time.Sleep(time.Millisecond) // do not spin on a server that refuses requests
			continue
		}
		if before == measuring && phase.Load() == measuring {
			w.hist.Add(took)
		}
	}
}

// run loads the server once and returns the figures. If ctx ends early, so does the window: the figures are those of
// the time until then, and the requests in flight still get their responses.
func run(ctx context.Context, o options) (point, error) {
	// A timer rather than a deadline, which every gRPC call would send to the server.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer time.AfterFunc(o.longest(), cancel).Stop()
	workers, closeAll, err := newWorkers(calls, &o)
	if err != nil {
		return point{}, err
	}
	defer closeAll()

	var phase atomic.Int32
	var faults faultList
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.loop(calls, &phase, &faults) })
	}
	wait(ctx, o.warm)
	runtime.GC()
	s0, err := serverUsage(o.pid)
	if err != nil {
		return point{}, err
	}
	own0, machine0, start := proc.OwnCPU(), device.Host().Busy, time.Now()
	phase.Store(measuring)
	wait(ctx, o.window)
	phase.Store(stopping)
	seconds := time.Since(start).Seconds()
	s1, err := serverUsage(o.pid)
	if err != nil {
		return point{}, fmt.Errorf("the server exited during the load: %w", err)
	}
	own, machine := proc.OwnCPU()-own0, (device.Host().Busy - machine0).Seconds()
	wg.Wait()
	if o.proto == "embedded" {
		own = 0 // it is the server's
	}

	p := point{Proto: o.proto, Model: o.model, Clients: o.clients, Seconds: seconds, Faults: faults.list,
		Checked: workers[0].check != nil, RSSMB: s1.RSSMB}
	p.fill(workers, s1.CPU-s0.CPU, own, machine)
	return p, nil
}

// fill computes the figures from the workers' counts and the CPU seconds that were used.
func (p *point) fill(workers []*worker, server, own, machine float64) {
	var h perf.Histogram
	for _, w := range workers {
		h.Merge(&w.hist)
		p.Errors += w.errs
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	p.Requests = h.Count()
	p.Rate = float64(h.Count()) / p.Seconds
	p.P50MS, p.P90MS, p.P99MS, p.MaxMS = ms(h.Quantile(.5)), ms(h.Quantile(.9)), ms(h.Quantile(.99)), ms(h.Max())
	if h.Count() > 0 {
		p.MeanMS = ms(h.Mean())
		p.ServerUS = server / float64(h.Count()) * 1e6
	}
	p.ServerCPU, p.ClientCPU = server/p.Seconds, own/p.Seconds
	p.OtherCPU = max(0, machine-server-own) / p.Seconds
}

func serverUsage(pid int) (proc.Usage, error) {
	if pid == 0 {
		return proc.Usage{}, nil
	}
	return proc.Tree(pid)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
