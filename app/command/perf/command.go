package perfcmd

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"nereid/app/command"
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

// Run runs the command and returns its exit status. An interrupt stops the measurement, reports its figures so far and
// is no failure; a second one ends the program.
func Run(ctx context.Context, env *command.Env, args []string) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(env.Stdout, usageHead, command.Help(newOptions().sections()), usageTail)
		return statusOK
	case err != nil:
		fmt.Fprintf(env.Stderr, "error: %v\n", err)
		return statusBadUse
	case o.showVersion:
		fmt.Fprintf(env.Stdout, "nereid perf %s\n", env.Version)
		return statusOK
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second interrupt ends the program at once
	code, err := o.run(ctx, env)
	if err != nil {
		fmt.Fprintf(env.Stderr, "error: %v\n", err)
	}
	return code
}

// run measures and reports.
func (o *options) run(ctx context.Context, env *command.Env) (status int, err error) {
	control, err := o.server.dial() // a separate client, so that its requests do not wait behind the load
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
	if o.server.collectMetrics {
		c, err := o.server.metricsClient()
		if err != nil {
			return statusBadUse, err
		}
		m.Gather = perf.Scrape(ctx, c, o.server.metricsAddress())
	}
	o.printSettings(env.Stdout)
	m.Events = o.events(env.Stdout, env.Stderr)
	result, err := perf.Run(ctx, *m)
	if b := result.Beyond; b != nil && !m.Binary && err == nil {
		if levels := cmp.Or(m.Concurrency, m.Rate); levels != nil && levels.Has(b.Level+levels.Step) {
			fmt.Fprintf(env.Stderr, "The levels after %g are not measured.\n", b.Level)
		}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		fmt.Fprintln(env.Stderr, "interrupted: these are the figures of what was measured")
		err = nil
	}
	if werr := o.writeResult(env, result); werr != nil {
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

// describe asks the server about the model. It also makes the inputs and, for --fixed-schedule, the schedule.
func (o *options) describe(ctx context.Context, c client.Client) error {
	m := &o.measure
	var err error
	if m.Model, err = perf.Describe(ctx, c, o.model.name, o.model.version, o.model.composing); err != nil {
		return err
	}
	if m.Model.Decoupled && !o.server.streaming {
		return fmt.Errorf("model %q is decoupled: it answers over streams only; add -i grpc --streaming", o.model.name)
	}
	m.Data, err = perf.ReadInputs(o.input.paths, &m.Model, o.input.InputOptions)
	if err != nil || !o.load.fixedSchedule {
		return err
	}
	if m.Schedule, err = m.Data.Schedule(); err != nil {
		return fmt.Errorf("--fixed-schedule: %w", err)
	}
	return nil
}

// target returns the connections over which the load is sent.
func (o *options) target() (perf.Target, error) {
	c, err := o.server.dial()
	if err != nil {
		return nil, err
	}
	g, ok := c.(*client.GRPC)
	if !ok || !o.server.streaming {
		return perf.NewUnary(c), nil
	}
	streams := 8
	if r := o.measure.Concurrency; r != nil && r.End > 0 {
		streams = int(min(16, max(r.Start, r.End)))
	}
	return perf.NewStream(g, streams, o.measure.Model.Decoupled)
}

// metricsClient is a client of the server's metrics. They get the headers of the requests, among which a token may be,
// but not if they are on another machine than the server.
func (s *serverOptions) metricsClient() (*http.Client, error) {
	u, err := url.Parse(s.metricsAddress())
	if err != nil {
		return nil, err
	}
	conf, err := s.tls.config(u.Hostname())
	if err != nil {
		return nil, err
	}
	next := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf}
	return &http.Client{Transport: headerTransport{s.host(), s.header(), next}}, nil
}

// headerTransport sends a header with every request to a host.
type headerTransport struct {
	host   string
	header http.Header
	next   http.RoundTripper
}

func (t headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == t.host {
		r = r.Clone(r.Context())
		maps.Copy(r.Header, t.header)
	}
	return t.next.RoundTrip(r)
}

// metricsAddress is the URL of the server's metrics: by default on the host of -u.
func (s *serverOptions) metricsAddress() string {
	switch {
	case s.metricsURL == "":
		return "http://" + net.JoinHostPort(s.host(), "8002") + "/metrics"
	case !strings.Contains(s.metricsURL, "://"):
		return "http://" + s.metricsURL
	}
	return s.metricsURL
}

// printSettings says what will be measured, in perf_analyzer's words.
func (o *options) printSettings(w io.Writer) {
	m := &o.measure
	fmt.Fprintf(w, "*** Measurement Settings ***\n  Batch size: %d\n  Service Kind: TRITON\n", max(1, m.Batch))
	if m.Warmup > 0 {
		fmt.Fprintf(w, "  Sending %d warmup requests\n", m.Warmup)
	}
	what := "average latency and throughput"
	if m.Percentile > 0 {
		what = fmt.Sprintf("p%d latency and throughput", m.Percentile)
	}
	if m.ThroughputOnly {
		what = "throughput"
	}
	const windows = "  Using %q mode for stabilization\n  Stabilizing using %s\n"
	switch {
	case m.Requests > 0:
		fmt.Fprintf(w, "  Sending a total of %d requests\n", m.Requests)
	case m.Schedule != nil:
		fmt.Fprintf(w, "  Sending %d requests by the schedule of the input data\n", len(m.Schedule))
	case m.WindowCount > 0:
		fmt.Fprintf(w, windows+"  Minimum number of samples in each window: %d\n", "count_windows", what, m.WindowCount)
	default:
		window := m.Window
		if window == 0 {
			window = perf.DefaultWindow
		}
		fmt.Fprintf(w, windows+"  Measurement window: %d msec\n", "time_windows", what, window.Milliseconds())
	}
	if m.Threshold > 0 {
		fmt.Fprintf(w, "  Latency limit: %d msec\n", m.Threshold.Milliseconds())
	}
	if m.Rate != nil {
		distribution := "uniform"
		if m.Poisson {
			distribution = "poisson"
		}
		fmt.Fprintf(w, "  Using %s distribution on request generation\n", distribution)
	}
	if m.Binary {
		fmt.Fprintln(w, "  Using Binary Search algorithm")
	}
	if m.Model.Decoupled {
		fmt.Fprintln(w, "  Detected decoupled model, using the first response for measuring latency")
	}
	fmt.Fprintln(w)
}

// events returns functions that print the levels, windows and points of a measurement.
func (o *options) events(stdout, stderr io.Writer) perf.Events {
	m := &o.measure
	report := perf.ReportOptions{Model: &m.Model, Protocol: "HTTP", Verbose: o.verbose > 0}
	if o.server.protocol == "grpc" {
		report.Protocol = "gRPC"
	}
	pass := 0
	return perf.Events{
		Level: func(level float64) {
			pass = 0
			if m.Concurrency != nil {
				fmt.Fprintf(stdout, "Request concurrency: %g\n", level)
			} else {
				fmt.Fprintf(stdout, "Request Rate: %g inference requests per seconds\n", level)
			}
		},
		Window: func(_ float64, p *perf.Point) {
			if pass++; o.verbose > 0 {
				fmt.Fprintf(stdout, "  Pass [%d] throughput: %.6g infer/sec. Latency: %d usec\n",
					pass, p.Throughput(), p.Decisive().Microseconds())
			}
		},
		Point: func(p *perf.Point) {
			switch {
			case p.Over:
				fmt.Fprintf(stderr, "Measured latency went over the set limit of %d msec.\n",
					m.Threshold.Milliseconds())
			case !p.Stable && !p.Interrupted:
				option := "--measurement-interval"
				if m.WindowCount > 0 {
					option = "--measurement-request-count"
				}
				fmt.Fprintf(stderr, "Failed to obtain stable measurement within %d measurement windows for %g. "+
					"Please try to increase the %s; these are the figures of all windows:\n", p.Windows, p.Level,
					option)
			}
			if err := perf.WriteReport(stdout, p, report); err != nil {
				fmt.Fprintf(stderr, "error: the report: %v\n", err)
			}
		},
	}
}

// writeResult writes the summary and the files.
func (o *options) writeResult(env *command.Env, r *perf.Result) error {
	if err := perf.WriteSummary(env.Stdout, r.Points); err != nil {
		return err
	}
	if err := o.writeCSV(env, r.Points); err != nil {
		return err
	}
	if o.output.export == "" || len(r.Experiments) == 0 {
		return nil
	}
	return command.WriteFile(o.output.export, func(w io.Writer) error {
		return perf.WriteExport(w, r.Experiments, env.Version)
	})
}

// writeCSV writes the points, and those of the composing models into files of their own.
func (o *options) writeCSV(env *command.Env, points []perf.Point) error {
	path, model := o.output.csv, &o.measure.Model
	switch {
	case path == "":
		return nil
	case len(points) == 0:
		fmt.Fprintf(env.Stderr, "No level has figures for -f: %s is not written.\n", path)
		return nil
	}
	csv := perf.CSVOptions{Model: model, Verbose: o.output.verboseCSV, Metrics: o.server.collectMetrics}
	if err := command.WriteFile(path, func(w io.Writer) error { return perf.WriteCSV(w, points, csv) }); err != nil {
		return err
	}
	s := points[0].Server
	if s == nil {
		return nil
	}
	for i, c := range s.Composing {
		name := fmt.Sprintf("%s_v%s.%s", c.Model.Name, c.Model.Version, filepath.Base(path))
		if err := command.WriteFile(filepath.Join(filepath.Dir(path), name), func(w io.Writer) error {
			return perf.WriteComposingCSV(w, points, i, model.Cached)
		}); err != nil {
			return err
		}
	}
	return nil
}
