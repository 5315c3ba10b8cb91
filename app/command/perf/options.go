package perfcmd

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nereid/app/command"
	"nereid/app/perf"
)

// options is the command line of nereid perf: perf_analyzer's options, by their names.
type options struct {
	showVersion bool
	verbose     int
	model       modelOptions
	load        loadOptions
	input       inputOptions
	server      serverOptions
	output      outputOptions

	measure perf.Options // what can be said without asking the server
}

type modelOptions struct {
	name, version string
	composing     []perf.ModelVersion
}

// loadOptions are the load and the windows as the user writes them.
type loadOptions struct {
	distribution  string
	fixedSchedule bool
	async, sync   bool
	windowMode    string
	windowCount   int

	// The old options -t, -c and -d.
	concurrent, most int
	dynamic          bool
}

// inputOptions are the tensors that are sent.
type inputOptions struct {
	perf.InputOptions
	paths  []string
	zero   bool
	shapes []string
}

type serverOptions struct {
	url, protocol       string
	streaming           bool
	headers             []string
	compression         string
	inFormat, outFormat string
	metricsURL          string
	collectMetrics      bool
	tls                 tlsOptions
}

type outputOptions struct {
	csv, export string // files
	verboseCSV  bool
}

// refused are options of perf_analyzer for what this tool does not do, with the reason.
var refused = map[string]string{
	"session-concurrency":        "sessions of chats are for OpenAI's API, which this server does not speak",
	"periodic-concurrency-range": "use --concurrency-range, which holds each level until it is stable",
	"request-period":             "it belongs to --periodic-concurrency-range",
	"enable-mpi":                 "start one nereid perf for each model; they need no common process group",
	"proto":                      "it belongs to --service-kind=dynamic_grpc",
	"grpc-method":                "it belongs to --service-kind=dynamic_grpc",
	"trace-level":                tracesElsewhere,
	"trace-rate":                 tracesElsewhere,
	"trace-count":                tracesElsewhere,
	"log-frequency":              tracesElsewhere,
}

const tracesElsewhere = "set the server's traces by its --trace-config option or its trace API, or in the GUI"

// withoutEffect are options of perf_analyzer that change nothing here, nor there for --service-kind=triton.
var withoutEffect = []string{
	"model-signature-name", "triton-server-directory", "model-repository", "endpoint", "output-shared-memory-size",
}

// otherProtocols are the service kinds that are not supported, with the reason.
var otherProtocols = map[string]string{
	"triton_c_api": "nereid perf loads no library: measure a server, or use package engine in a Go benchmark",
	"tfserving":    "TensorFlow Serving has another protocol; this tool measures servers that speak KServe v2",
	"torchserve":   "TorchServe has another protocol; this tool measures servers that speak KServe v2",
	"openai":       "OpenAI's API is another protocol; this tool measures servers that speak KServe v2",
	"dynamic_grpc": "this tool measures servers that speak KServe v2",
}

const usageHead = `Measures a server under load, with perf_analyzer's options and its CSV.

Usage:
  nereid perf -m MODEL [options]
`

const usageTail = `
The exit status is 0, 2 when no stable measurement was possible, 3 when the options are wrong, and 99 after another
error. An interrupt ends the measurement; the figures until then are reported.
`

func newOptions() *options {
	o := &options{
		load:   loadOptions{windowMode: "time_windows"},
		server: serverOptions{protocol: "http", compression: "none", inFormat: "binary", outFormat: "binary"},
	}
	t := &o.server.tls
	t.verifyPeer, t.verifyHost, t.certType, t.keyType = "1", "2", "PEM", "PEM"
	o.measure.Sequences.Variation = 20
	return o
}

// sections declares all options.
func (o *options) sections() []command.Section {
	return []command.Section{
		{Title: "Load (one of the ranges, intervals and schedule; default --concurrency-range=1)",
			Options: o.loadOptions()},
		{Title: "Measurement", Options: o.windowOptions()},
		{Title: "Model and inputs", Options: o.inputOptions()},
		{Title: "Sequences", Options: o.sequenceOptions()},
		{Title: "Server", Options: o.serverOptions()},
		{Title: "TLS", Options: o.server.tls.options()},
		{Title: "Output", Options: o.outputOptions()},
		{Options: unsupportedOptions()},
	}
}

func (o *options) loadOptions() []command.Option {
	opt := command.Opt
	l, m := &o.load, &o.measure
	return []command.Option{
		opt("--concurrency-range", "START[:END[:STEP]]",
			"the number of requests in flight; END 0: until --latency-threshold", levels(&m.Concurrency, true)),
		opt("--request-rate-range", "START[:END[:STEP]]",
			"requests per second, whether they are answered or not; latency "+
				"counts from when a request was due", levels(&m.Rate, false)),
		opt("--request-distribution", "constant|poisson", "of --request-rate-range; default constant",
			command.OneOf(&l.distribution, "constant", "poisson")),
		opt("--request-intervals", "FILE", "gaps in microseconds, one per line, repeated", o.readIntervals),
		opt("--fixed-schedule", "", `each entry of the input data once, at its "timestamp" in milliseconds`,
			&l.fixedSchedule),
		opt("--binary-search", "", "halves the range; needs --latency-threshold", &m.Binary),
		opt("-l, --latency-threshold", "MS", "ends the search; default 0, none", milliseconds(&m.Threshold)),
		opt("-t", "N", "", count(&l.concurrent, 1)),
		opt("-c", "N", "", count(&l.most, 1)),
		opt("-d", "", "", &l.dynamic),
		opt("--max-threads", "N", "", count(new(int), 1)), // requests need no threads
	}
}

func (o *options) windowOptions() []command.Option {
	opt := command.Opt
	l, m := &o.load, &o.measure
	return []command.Option{
		opt("--measurement-mode", "time_windows|count_windows", "default time_windows",
			command.OneOf(&l.windowMode, "time_windows", "count_windows")),
		opt("-p, --measurement-interval", "MS", "length of a time window; default 5000",
			aboveZero(milliseconds(&m.Window))),
		opt("--measurement-request-count", "N", "requests in a count window, which lasts at least a second; default 50",
			count(&l.windowCount, 1)),
		opt("-s, --stability-percentage", "PERCENT", "by how much the last three windows may differ; default 10",
			stability(&m.Stability)),
		opt("-r, --max-trials", "N", "the most windows; default 10", count(&m.MaxTrials, 1)),
		opt("--percentile", "N", "the latency that decides; default -1, the average", percentile(&m.Percentile)),
		opt("--request-count", "N", "one window of N requests", count(&m.Requests, 0)),
		opt("--warmup-request-count", "N", "requests before the measurement", count(&m.Warmup, 0)),
		opt("-a, --async", "", "only the throughput must be stable", &l.async),
		opt("--sync", "", "the throughput and the latency must be stable, the default", &l.sync),
	}
}

func (o *options) inputOptions() []command.Option {
	opt := command.Opt
	in, m := &o.input, &o.measure
	return []command.Option{
		opt("-m", "MODEL", "the model", &o.model.name),
		opt("-x", "VERSION", "its version; default: the server chooses", versionNumber(&o.model.version)),
		opt("--bls-composing-models", "NAME[:VERSION],…", "models that it calls, for their statistics",
			o.addComposing),
		opt("-b", "N", "rows in a request; default 1", count(&m.Batch, 1)),
		opt("--input-data", "zero|random|FOLDER|FILE", "may be repeated for JSON files; default random", &in.paths),
		opt("--data-directory", "FOLDER", "", &in.paths),
		opt("-z", "", "", &in.zero),
		opt("--shape", "NAME:D,D,…", "of an input with dimensions of any size", &in.shapes),
		opt("--string-length", "N", "of strings; default 128 random letters", count(&in.StringLength, 1)),
		opt("--string-data", "TEXT", "the value of all strings", &in.String),
		opt("--request-parameter", "NAME:VALUE:TYPE", "bool, int or string", o.addParameter),
		opt("--shared-memory", "none|system|cuda", "", sharedMemory),
	}
}

func (o *options) sequenceOptions() []command.Option {
	opt := command.Opt
	s := &o.measure.Sequences
	return []command.Option{
		opt("--num-of-sequences", "N", "sequences at a time when the load is a rate; default 4", count(&s.Count, 1)),
		opt("--sequence-length", "N", "default 20", func(v string) error {
			s.Given = true
			return count(&s.Length, 1)(v)
		}),
		opt("--sequence-length-variation", "PERCENT", "default 20", percent(&s.Variation)),
		opt("--sequence-id-range", "START[:END]", "default 1, without an end", func(v string) (err error) {
			s.FirstID, s.EndID, err = perf.ParseIDs(v)
			return err
		}),
		opt("--serial-sequences", "", "", new(bool)), // they always are
	}
}

func (o *options) serverOptions() []command.Option {
	opt := command.Opt
	s := &o.server
	return []command.Option{
		opt("-u", "ADDRESS", "default localhost:8000, with gRPC localhost:8001", &s.url),
		opt("-i", "http|grpc", "the protocol; default http", func(v string) error {
			return command.OneOf(&s.protocol, "http", "grpc")(strings.ToLower(v))
		}),
		opt("--streaming", "", "many requests share a gRPC stream; decoupled models need it", &s.streaming),
		opt("-H", "HEADER:VALUE", "sent with every request", func(v string) error {
			if name, _, ok := strings.Cut(v, ":"); !ok || name == "" {
				return errors.New("want Header:Value")
			}
			s.headers = append(s.headers, v)
			return nil
		}),
		opt("--input-tensor-format", "binary|json", "over HTTP; default binary",
			command.OneOf(&s.inFormat, "binary", "json")),
		opt("--output-tensor-format", "binary|json", "over HTTP; default binary",
			command.OneOf(&s.outFormat, "binary", "json")),
		opt("--grpc-compression-algorithm", "none|gzip|deflate", "default none",
			command.OneOf(&s.compression, "none", "gzip", "deflate")),
		opt("--collect-metrics", "", "reads the metrics of the server's GPUs", &s.collectMetrics),
		opt("--metrics-url", "URL", "where; default port 8002 of the server's host", &s.metricsURL),
		opt("--metrics-interval", "MS", "how often; default 1000", milliseconds(&o.measure.Interval)),
		opt("--service-kind", "triton", "", serviceKind),
	}
}

func (t *tlsOptions) options() []command.Option {
	opt := command.Opt
	return []command.Option{
		opt("--ssl-grpc-use-ssl", "", "gRPC over TLS", &t.grpc),
		opt("--ssl-grpc-root-certifications-file", "FILE", "authorities", &t.grpcCA),
		opt("--ssl-grpc-private-key-file", "FILE", "the client's key", &t.grpcKey),
		opt("--ssl-grpc-certificate-chain-file", "FILE", "the client's certificate", &t.grpcCert),
		opt("--ssl-https-verify-peer", "0|1", "verifies the server's certificate; default 1",
			command.OneOf(&t.verifyPeer, "0", "1")),
		opt("--ssl-https-verify-host", "0|1|2", "verifies the server's name; default 2",
			command.OneOf(&t.verifyHost, "0", "1", "2")),
		opt("--ssl-https-ca-certificates-file", "FILE", "authorities", &t.httpCA),
		opt("--ssl-https-client-certificate-file", "FILE", "the client's certificate", &t.httpCert),
		opt("--ssl-https-client-certificate-type", "PEM|DER", "default PEM", command.OneOf(&t.certType, "PEM", "DER")),
		opt("--ssl-https-private-key-file", "FILE", "the client's key", &t.httpKey),
		opt("--ssl-https-private-key-type", "PEM|DER", "default PEM", command.OneOf(&t.keyType, "PEM", "DER")),
	}
}

func (o *options) outputOptions() []command.Option {
	opt := command.Opt
	return []command.Option{
		opt("-f", "FILE", "perf_analyzer's CSV", &o.output.csv),
		opt("--verbose-csv", "", "more columns", &o.output.verboseCSV),
		opt("--profile-export-file", "FILE", "every request with its times and tensors, as JSON", &o.output.export),
		opt("-v", "", "reports each window", func(string) error { o.verbose++; return nil }),
		opt("--version", "", "prints the version", &o.showVersion),
	}
}

// unsupportedOptions are options of perf_analyzer that are refused or have no effect.
func unsupportedOptions() (list []command.Option) {
	for name, why := range refused {
		refuse := func(string) error { return errors.New("not supported: " + why) }
		value := "VALUE"
		if name == "enable-mpi" {
			value = "" // a flag
		}
		list = append(list, command.Option{Names: "--" + name, Value: value, Set: refuse})
	}
	for _, name := range withoutEffect {
		list = append(list, command.Option{Names: "--" + name, Value: "VALUE", Set: func(string) error { return nil }})
	}
	return list
}

// parse reads the command line. It returns the first error.
func parse(args []string) (*options, error) {
	o := newOptions()
	f := command.NewFlagSet("nereid perf", o.sections())
	if err := f.Parse(splitShort(args)); err != nil {
		return nil, command.FlagError("nereid perf", err)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: options begin with a dash", f.Arg(0))
	}
	if o.showVersion {
		return o, nil
	}
	given := map[string]bool{}
	f.Visit(func(one *flag.Flag) { given[one.Name] = true })
	if err := o.check(given); err != nil {
		return nil, err
	}
	if err := o.convert(); err != nil {
		return nil, err
	}
	return o, o.convertLoad(given)
}

// splitShort separates a value from the letter before it, as getopt does: -b4 is -b 4 and -vv is -v -v.
func splitShort(args []string) []string {
	var out []string
	for _, a := range args {
		short := len(a) > 2 && a[0] == '-' && a[1] != '-' && a[2] != '='
		switch {
		case short && strings.IndexByte("mxpsrlbuiHfct", a[1]) >= 0:
			out = append(out, a[:2], a[2:])
		case short && strings.IndexByte("vadz", a[1]) >= 0:
			for _, c := range a[1:] {
				out = append(out, "-"+string(c))
			}
		default:
			out = append(out, a)
		}
	}
	return out
}

// check refuses options that exclude each other.
func (o *options) check(given map[string]bool) error {
	s, l := &o.server, &o.load
	switch {
	case o.model.name == "":
		return errors.New("-m: name the model")
	case s.streaming && s.protocol != "grpc":
		return errors.New("--streaming: only gRPC has streams; add -i grpc")
	case s.compression != "none" && s.protocol != "grpc":
		return errors.New("--grpc-compression-algorithm: only for gRPC; add -i grpc")
	case (s.inFormat == "json" || s.outFormat == "json") && s.protocol != "http":
		return errors.New("--input-tensor-format and --output-tensor-format: " +
			"only HTTP has tensors in JSON; leave -i grpc out")
	case l.async && l.sync:
		return errors.New("--async and --sync: choose one")
	case l.sync && s.streaming:
		return errors.New("--sync: a stream is asynchronous; leave --sync or --streaming out")
	case !s.collectMetrics && (given["metrics-url"] || given["metrics-interval"]):
		return errors.New("--metrics-url and --metrics-interval want --collect-metrics")
	case o.input.zero && len(o.input.paths) > 0:
		return errors.New("-z and --input-data: choose one")
	}
	return nil
}

// convert fills in the measurement, except for the load.
func (o *options) convert() error {
	if o.load.windowMode == "count_windows" {
		o.measure.WindowCount = 50
		if o.load.windowCount > 0 {
			o.measure.WindowCount = o.load.windowCount
		}
	}
	o.measure.ThroughputOnly = o.load.async
	var err error
	if o.input.Shapes, err = perf.ParseShapes(o.input.shapes); err != nil {
		return fmt.Errorf("--shape: %w", err)
	}
	if o.input.zero {
		o.input.paths = []string{"zero"}
	}
	if o.load.fixedSchedule && perf.Generated(o.input.paths) {
		return errors.New("--fixed-schedule needs --input-data with a timestamp in each entry")
	}
	if err := perf.CheckInputs(o.input.paths); err != nil {
		return err
	}
	if s := &o.server; s.collectMetrics {
		if u, err := url.Parse(s.metricsAddress()); err != nil || u.Host == "" {
			return fmt.Errorf("--metrics-url: %q is no URL such as http://localhost:8002/metrics", s.metricsURL)
		}
	}
	return o.checkFiles()
}

// checkFiles refuses files that cannot be written after the measurement.
func (o *options) checkFiles() error {
	csv, export := o.output.csv, o.output.export
	if err := command.CheckFile(csv); err != nil {
		return fmt.Errorf("-f: %w", err)
	}
	if err := command.CheckFile(export); err != nil {
		return fmt.Errorf("--profile-export-file: %w", err)
	}
	if export == "" {
		return nil
	}
	if csv != "" && filepath.Clean(csv) == filepath.Clean(export) {
		return errors.New("-f and --profile-export-file: name two files")
	}
	if _, err := os.Stat(export); err == nil {
		return fmt.Errorf("--profile-export-file: %s is there already; remove it first, or name another file", export)
	}
	o.measure.Keep = true
	return nil
}

// convertLoad fills in the load.
func (o *options) convertLoad(given map[string]bool) error {
	modes := 0
	for _, n := range []string{"concurrency-range", "request-rate-range", "request-intervals", "fixed-schedule"} {
		if given[n] {
			modes++
		}
	}
	if modes > 1 {
		return errors.New("--concurrency-range, --request-rate-range, --request-intervals and --fixed-schedule: " +
			"choose one")
	}
	m, l := &o.measure, &o.load
	old := given["t"] || given["c"] || given["d"]
	switch {
	case old && modes > 0:
		return errors.New("-t, -c and -d are old forms of --concurrency-range and do not go with another load")
	case l.dynamic:
		m.Concurrency = &perf.Range{Start: float64(max(1, l.concurrent)), End: float64(l.most), Step: 1}
	case modes == 0:
		n := float64(max(1, l.concurrent))
		m.Concurrency = &perf.Range{Start: n, End: n, Step: 1}
	}
	m.Poisson = m.Rate != nil && l.distribution == "poisson"
	if l.fixedSchedule {
		m.Schedule = []time.Duration{} // from the input data, once the model is known
	}
	return m.Check()
}

// The setters of options that only this command has.

func (o *options) addParameter(v string) error {
	name, value, err := perf.ParseParameter(v)
	if err != nil {
		return err
	}
	if o.measure.Parameters == nil {
		o.measure.Parameters = map[string]any{}
	}
	o.measure.Parameters[name] = value
	return nil
}

func (o *options) addComposing(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		name, version, _ := strings.Cut(part, ":")
		if err := versionNumber(&version)(version); err != nil {
			return fmt.Errorf("%q: the version: %w", part, err)
		}
		if name != "" {
			o.model.composing = append(o.model.composing, perf.ModelVersion{Name: name, Version: version})
		}
	}
	return nil
}

// versionNumber takes the version of a model. "": the server chooses.
func versionNumber(to *string) func(string) error {
	return func(v string) error {
		if _, err := strconv.ParseInt(v, 10, 64); err != nil && v != "" {
			return errors.New("want a whole number")
		}
		*to = v
		return nil
	}
}

// levels parses the range of a load.
func levels(to **perf.Range, whole bool) func(string) error {
	return func(v string) error {
		r, err := perf.ParseRange(v, whole)
		*to = &r
		return err
	}
}

func (o *options) readIntervals(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		o.measure.Intervals, err = perf.ParseIntervals(b)
	}
	return err
}

func sharedMemory(v string) error {
	switch v {
	case "none":
		return nil
	case "system", "cuda":
		return fmt.Errorf("%s is not supported yet; leave the option out", v)
	}
	return errors.New("want none, system or cuda")
}

func serviceKind(v string) error {
	if why := otherProtocols[v]; why != "" {
		return errors.New("not supported: " + why)
	}
	if v != "triton" {
		return errors.New("want triton")
	}
	return nil
}

func percentile(to *int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n != -1 && (n < 1 || n > 99) {
			return errors.New("want -1 for the average, or 1 to 99")
		}
		*to = max(0, n)
		return nil
	}
}

func milliseconds(d *time.Duration) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return errors.New("want a whole number of milliseconds")
		}
		*d = time.Duration(n) * time.Millisecond
		return nil
	}
}

func aboveZero(set func(string) error) func(string) error {
	return func(v string) error {
		if n, err := strconv.ParseUint(v, 10, 64); err == nil && n == 0 {
			return errors.New("want a number above 0")
		}
		return set(v)
	}
}

func count(n *int, low int) func(string) error {
	return func(v string) error {
		i, err := strconv.ParseInt(v, 10, 32)
		if err != nil || i < int64(low) {
			return fmt.Errorf("want a whole number from %d on", low)
		}
		*n = int(i)
		return nil
	}
}

// stability takes a percentage that may be 0: the windows must then be equal.
func stability(p *float64) func(string) error {
	return func(v string) error {
		err := percent(p)(v)
		*p = max(*p, 1e-9) // 0 is the default
		return err
	}
}

func percent(p *float64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n >= 0 && n <= 1e6) {
			return errors.New("want a percentage from 0 on")
		}
		*p = n
		return nil
	}
}
