package perfcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nereid/app/perf"
	"nereid/engine/client"
)

// The exit statuses of perf_analyzer.
const (
	statusOK       = 0
	statusUnstable = 2
	statusBadUse   = 3
	statusFailed   = 99
)

// Run runs the command and returns its exit status. version is the program's. An interrupt stops it; it then reports what it
// has measured.
func Run(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return statusOK
	case err != nil:
		fmt.Fprintf(stderr, "error: %v\n", err)
		return statusBadUse
	case o.version:
		fmt.Fprintf(stdout, "nereid perf %s\n", version)
		return statusOK
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second interrupt ends the program at once
	o.program = version
	code, err := o.run(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
	}
	return code
}

// run measures and reports.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	control, err := o.dial() // for questions, so that they do not wait behind the load
	if err != nil {
		return statusBadUse, err
	}
	defer control.Close()
	m := &o.measure
	if err := o.describe(ctx, control); err != nil {
		return statusFailed, err
	}
	if m.Target, err = o.target(); err != nil {
		return statusFailed, err
	}
	defer m.Target.Close()
	m.Server = control
	if o.collect {
		m.Gather = perf.Scrape(ctx, http.DefaultClient, o.metricsAddress())
	}
	o.settings(stdout)
	report := perf.ReportOptions{Model: &m.Model, Protocol: map[string]string{"http": "HTTP", "grpc": "gRPC"}[o.protocol], Verbose: o.verbose > 0}
	m.Events = o.events(stdout, stderr, report)
	result, err := perf.Run(ctx, *m)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		fmt.Fprintln(stderr, "interrupted: these are the figures of what was measured")
		err = nil
	}
	if werr := o.write(stdout, result); werr != nil {
		return statusFailed, errors.Join(err, werr)
	}
	switch {
	case err != nil:
		return statusFailed, err
	case result.Beyond != nil && !result.Beyond.Stable && !result.Beyond.Over && len(result.Points) == 0:
		return statusUnstable, nil
	}
	return statusOK, nil
}

// describe learns the model and makes the inputs.
func (o *options) describe(ctx context.Context, c client.Client) error {
	var composing []perf.ModelVersion
	for part := range strings.SplitSeq(o.composing, ",") {
		if name, version, _ := strings.Cut(part, ":"); name != "" {
			composing = append(composing, perf.ModelVersion{Name: name, Version: version})
		}
	}
	m := &o.measure
	var err error
	if m.Model, err = perf.Describe(ctx, c, o.model, o.modelVersion, composing); err != nil {
		return err
	}
	if m.Model.Decoupled && !o.streaming {
		return fmt.Errorf("model %q is decoupled: it answers over streams only; add -i grpc --streaming", o.model)
	}
	if m.Data, err = o.readInputs(); err != nil {
		return err
	}
	if o.schedule != "" {
		last := time.Duration(-1)
		for _, steps := range m.Data.Streams {
			for _, s := range steps {
				at := time.Duration(s.At * float64(time.Millisecond))
				if at < last {
					return fmt.Errorf("--fixed-schedule: the timestamp %v ms comes after %v; put the entries in order", s.At, last)
				}
				last = at
				m.Schedule = append(m.Schedule, at)
			}
		}
	}
	return nil
}

// readInputs makes or reads the tensors of the requests.
func (o *options) readInputs() (*perf.Data, error) {
	paths := o.data
	if o.zero {
		paths = []string{"zero"}
	}
	if o.schedule != "" && perf.Generated(paths) {
		return nil, errors.New("--fixed-schedule wants --input-data with a timestamp in each entry")
	}
	return perf.ReadInputs(paths, &o.measure.Model, o.inputs)
}

// target is how the load is sent.
func (o *options) target() (perf.Target, error) {
	c, err := o.dial()
	if err != nil {
		return nil, err
	}
	if g, ok := c.(*client.GRPC); ok && o.streaming {
		return perf.NewStream(g, o.streams(), o.measure.Model.Decoupled)
	}
	return perf.NewUnary(c), nil
}

// streams is how many calls the load has: few, as of perf_analyzer's threads.
func (o *options) streams() int {
	if r := o.measure.Concurrency; r != nil && r.End > 0 {
		return int(min(16, max(r.Start, r.End)))
	}
	return 8
}

// metricsAddress is where the server's metrics are: by default on the host of -u.
func (o *options) metricsAddress() string {
	if o.metricsURL != "" {
		if !strings.Contains(o.metricsURL, "://") {
			return "http://" + o.metricsURL
		}
		return o.metricsURL
	}
	return "http://" + net.JoinHostPort(o.host(), "8002") + "/metrics"
}

// settings tells what will be done.
func (o *options) settings(w io.Writer) {
	m := &o.measure
	fmt.Fprintf(w, "*** Measurement Settings ***\n  Batch size: %d\n  Service Kind: TRITON\n", max(1, m.Batch))
	if m.Warmup > 0 {
		fmt.Fprintf(w, "  Sending %d warmup requests\n", m.Warmup)
	}
	what := "average latency and throughput"
	if m.Percentile > 0 {
		what = fmt.Sprintf("p%d latency and throughput", m.Percentile)
	}
	if m.Rough {
		what = "throughput"
	}
	switch {
	case m.Requests > 0:
		fmt.Fprintf(w, "  Sending a total of %d requests\n", m.Requests)
	case m.Schedule != nil:
		fmt.Fprintf(w, "  Sending %d requests by the schedule of the input data\n", len(m.Schedule))
	case m.WindowCount > 0:
		fmt.Fprintf(w, "  Using \"count_windows\" mode for stabilization\n  Stabilizing using %s\n  Minimum number of samples in each window: %d\n", what, m.WindowCount)
	default:
		window := m.Window
		if window == 0 {
			window = 5 * time.Second
		}
		fmt.Fprintf(w, "  Using \"time_windows\" mode for stabilization\n  Stabilizing using %s\n  Measurement window: %d msec\n", what, window.Milliseconds())
	}
	if m.Threshold > 0 {
		fmt.Fprintf(w, "  Latency limit: %d msec\n", m.Threshold.Milliseconds())
	}
	if m.Rate != nil {
		fmt.Fprintf(w, "  Using %s distribution on request generation\n", map[bool]string{true: "poisson", false: "uniform"}[m.Poisson])
	}
	if m.Binary {
		fmt.Fprintln(w, "  Using Binary Search algorithm")
	}
	if m.Model.Decoupled {
		fmt.Fprintln(w, "  Detected decoupled model, using the first response for measuring latency")
	}
	fmt.Fprintln(w)
}

// events prints what happens.
func (o *options) events(stdout, stderr io.Writer, report perf.ReportOptions) perf.Events {
	pass := 0
	return perf.Events{
		Level: func(level float64) {
			pass = 0
			if o.measure.Concurrency != nil {
				fmt.Fprintf(stdout, "Request concurrency: %g\n", level)
			} else {
				fmt.Fprintf(stdout, "Request Rate: %g inference requests per seconds\n", level)
			}
		},
		Window: func(_ float64, p *perf.Point) {
			if pass++; o.verbose > 0 {
				fmt.Fprintf(stdout, "  Pass [%d] throughput: %.6g infer/sec. Latency: %d usec\n", pass, p.Throughput(), p.Decisive().Microseconds())
			}
		},
		Point: func(p *perf.Point) {
			switch {
			case p.Over:
				fmt.Fprintf(stderr, "Measured latency went over the set limit of %d msec.\n", o.measure.Threshold.Milliseconds())
			case !p.Stable && !p.Interrupted:
				fmt.Fprintf(stderr, "Failed to obtain stable measurement within %d measurement windows for %g. Please try to increase the %s; these are the figures of all windows:\n",
					p.Windows, p.Level, map[bool]string{true: "--measurement-request-count", false: "--measurement-interval"}[o.measure.WindowCount > 0])
			}
			if err := perf.WriteReport(stdout, p, report); err != nil {
				fmt.Fprintf(stderr, "error: the report: %v\n", err)
			}
		},
	}
}

// write makes the summary and the files.
func (o *options) write(stdout io.Writer, r *perf.Result) error {
	if err := perf.WriteSummary(stdout, r.Points); err != nil {
		return err
	}
	if o.csvPath != "" && len(r.Points) > 0 {
		csv := perf.CSVOptions{Model: &o.measure.Model, Verbose: o.verboseCSV, Metrics: o.collect}
		if err := writeFile(o.csvPath, func(w io.Writer) error { return perf.WriteCSV(w, r.Points, csv) }); err != nil {
			return err
		}
		if s := r.Points[0].Server; s != nil {
			for i, c := range s.Composing {
				path := filepath.Join(filepath.Dir(o.csvPath), fmt.Sprintf("%s_v%s.%s", c.Model.Name, c.Model.Version, filepath.Base(o.csvPath)))
				err := writeFile(path, func(w io.Writer) error { return perf.WriteComposingCSV(w, r.Points, i, o.measure.Model.Cached) })
				if err != nil {
					return err
				}
			}
		}
	}
	if o.exportPath == "" {
		return nil
	}
	return writeFile(o.exportPath, func(w io.Writer) error { return perf.WriteExport(w, r.Experiments, o.program) })
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
