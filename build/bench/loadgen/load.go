package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"nereid/app/perf"
	"nereid/engine/device"
	"nereid/engine/system/proc"
)

// answer is one whole reply; its bytes are valid until the lane's next exchange.
type answer struct {
	body      []byte
	headerLen int // of the JSON before binary outputs
	grpc      bool
	shared    [][]byte // the outputs, where they lie in shared memory
}

func (a answer) parse() (reply, error) {
	if a.shared != nil {
		version, err := parseVersion(a.body)
		return reply{version: version, outputs: a.shared}, err
	}
	if a.grpc {
		return parseGRPCReply(a.body)
	}
	return parseHTTPReply(a.body, a.headerLen)
}

// lane carries one worker's requests.
type lane interface {
	exchange(ctx context.Context) (answer, error)
	close()
}

// options describe one load.
type options struct {
	addr, proto, model, tensors string
	clients, conns              int
	warm, window                time.Duration
	pid                         int
	check                       string
	outputs                     string // their names, if tensors lie in shared memory; "": they do not
}

// point is what one load showed.
type point struct {
	Label    string  `json:"label,omitempty"`
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

// worker is one client of the closed loop.
type worker struct {
	lane   lane
	in     []tensor
	alone  reply
	length int // of every answer; 0: may differ
	check  checker
	hist   perf.Histogram
	errs   uint64
}

// once sends one request and checks its answer.
func (w *worker) once(ctx context.Context) error {
	a, err := w.lane.exchange(ctx)
	if err != nil {
		return err
	}
	if w.length > 0 && len(a.body) != w.length {
		return fmt.Errorf("answer has %d bytes, want %d", len(a.body), w.length)
	}
	if w.check == nil {
		return nil
	}
	got, err := a.parse()
	if err != nil {
		return err
	}
	return w.check(w.in, w.alone, got)
}

// newWorkers prepares the workers: each encodes its own request and sends it once, alone, to learn the right answer.
func newWorkers(ctx context.Context, o options) ([]*worker, func(), error) {
	check, err := newChecker(o.check)
	if err != nil {
		return nil, nil, err
	}
	newLane, closeConns, err := lanes(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	var workers []*worker
	cleanup := func() {
		for _, w := range workers {
			w.lane.close()
		}
		closeConns()
	}
	for i := range o.clients {
		in, err := parseTensors(o.tensors, uint64(i))
		if err != nil {
			cleanup()
			return nil, nil, err
		}
		l, err := newLane(i, in)
		if err != nil {
			cleanup()
			return nil, nil, err
		}
		w := &worker{lane: l, in: in, check: check}
		workers = append(workers, w)
		a, err := l.exchange(ctx)
		if err != nil {
			cleanup()
			return nil, nil, fmt.Errorf("the first request of worker %d: %w", i, err)
		}
		// Numbers in JSON may have one digit more or less when the row runs in another batch, and a reload may
		// change the length of the version.
		if o.check != "version" && (o.proto != "json" || o.check == "identity") {
			w.length = len(a.body)
		}
		if check != nil {
			alone, err := answer{append([]byte(nil), a.body...), a.headerLen, a.grpc, a.shared}.parse()
			if err == nil {
				err = check(in, alone, alone)
			}
			if err != nil {
				cleanup()
				return nil, nil, fmt.Errorf("the first answer to worker %d: %w", i, err)
			}
			w.alone = alone
		}
	}
	return workers, cleanup, nil
}

// lanes returns a function that makes the lane of worker i.
func lanes(ctx context.Context, o options) (newLane func(i int, in []tensor) (lane, error), closeAll func(), err error) {
	if o.outputs != "" {
		return sharedLanes(ctx, o)
	}
	switch o.proto {
	case "grpc":
		if o.clients <= o.conns {
			deadline := time.Now().Add(o.warm + o.window + time.Minute)
			newLane = func(_ int, in []tensor) (lane, error) {
				return newH2Lane(o.addr, grpcRequest(o.model, in), deadline), nil
			}
			return newLane, func() {}, nil
		}
		fallthrough
	case "grpc-go":
		conns, err := dialGRPC(o.addr, min(o.clients, o.conns))
		if err != nil {
			return nil, nil, err
		}
		newLane = func(i int, in []tensor) (lane, error) {
			return &grpcLane{conn: conns[i%len(conns)], request: grpcRequest(o.model, in)}, nil
		}
		closeAll = func() {
			for _, c := range conns {
				_ = c.Close() // the load is over
			}
		}
		return newLane, closeAll, nil
	case "http", "json":
		deadline := time.Now().Add(o.warm + o.window + time.Minute)
		newLane = func(_ int, in []tensor) (lane, error) {
			req, err := httpRequest(o.addr, o.model, in, o.proto == "http")
			return &httpLane{addr: o.addr, request: req, deadline: deadline}, err
		}
		return newLane, func() {}, nil
	}
	return nil, nil, fmt.Errorf("-i %q: want http (binary tensors), json, grpc or grpc-go", o.proto)
}

const (
	warming int32 = iota
	measuring
	stopping
)

// run loads the server once and returns what it saw. When ctx ends early, so does the window; requests in flight are
// still answered and the figures are those of the time that passed.
func run(ctx context.Context, o options) (point, error) {
	// A timer rather than a deadline, which every gRPC call would tell the server: clients that do not ask for a
	// timeout send none.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer time.AfterFunc(o.warm+o.window+time.Minute, cancel).Stop()
	workers, closeAll, err := newWorkers(calls, o)
	if err != nil {
		return point{}, err
	}
	defer closeAll()

	var phase atomic.Int32
	var mu sync.Mutex // guards faults
	var faults []string
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			for {
				before := phase.Load()
				if before == stopping {
					return
				}
				start := time.Now()
				err := w.once(calls)
				took := time.Since(start)
				if err != nil {
					w.errs++
					mu.Lock()
					if len(faults) < 5 {
						faults = append(faults, err.Error())
					}
					mu.Unlock()
					time.Sleep(time.Millisecond) // do not spin on a server that refuses
					continue
				}
				if before == measuring && phase.Load() == measuring {
					w.hist.Add(took)
				}
			}
		})
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
		return point{}, fmt.Errorf("the server ended during the load: %w", err)
	}
	own, machine := proc.OwnCPU()-own0, (device.Host().Busy - machine0).Seconds()
	wg.Wait()

	p := point{Proto: o.proto, Model: o.model, Clients: o.clients, Seconds: seconds, Faults: faults,
		Checked: workers[0].check != nil, RSSMB: s1.RSSMB}
	p.fill(workers, s1.CPU-s0.CPU, own, machine)
	return p, nil
}

// fill computes the figures from the workers' counts and the CPU seconds used.
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
