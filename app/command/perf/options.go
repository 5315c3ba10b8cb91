package perfcmd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"nereid/app/perf"
)

// options is the command line of nereid perf: perf_analyzer's options, by their names.
type options struct {
	verbose                           int
	version                           bool
	program                           string // the version of the program
	url, protocol                     string
	model, modelVersion, composing    string
	async, sync, streaming, serial    bool
	headers                           []string
	compression, inFormat, outFormat  string
	metricsURL, csvPath, exportPath   string
	verboseCSV, collect               bool
	data                              []string
	zero                              bool
	inputs                            perf.InputOptions
	tls                               tlsOptions
	threads, current, most            int
	dynamic                           bool
	concurrency, rates                string
	intervals, distribution, schedule string
	shape                             []string
	windowMode                        string
	windowCount                       int
	ids                               string

	measure perf.Options // what needs no server to be known
}

// refused are options of perf_analyzer that ask for what this tool does not do, with the reason.
var refused = map[string]string{
	"session-concurrency":        "sessions of chats are for OpenAI's API, which this server does not speak",
	"periodic-concurrency-range": "use --concurrency-range, which holds each level until it is stable",
	"request-period":             "it belongs to --periodic-concurrency-range",
	"enable-mpi":                 "start one nereid perf for each model; they need no common process group",
	"proto":                      "it belongs to --service-kind=dynamic_grpc",
	"grpc-method":                "it belongs to --service-kind=dynamic_grpc",
	"trace-level":                "set the server's traces by its --trace-config option or its trace API, or in the GUI",
	"trace-rate":                 "set the server's traces by its --trace-config option or its trace API, or in the GUI",
	"trace-count":                "set the server's traces by its --trace-config option or its trace API, or in the GUI",
	"log-frequency":              "set the server's traces by its --trace-config option or its trace API, or in the GUI",
}

// withoutEffect are options of perf_analyzer that change nothing here, nor there for --service-kind=triton.
var withoutEffect = []string{"model-signature-name", "triton-server-directory", "model-repository", "endpoint", "output-shared-memory-size"}

// serviceKinds are the service kinds with what is to be said of them.
var serviceKinds = map[string]string{
	"triton":       "",
	"triton_c_api": "there is no library to load: measure a server, or use package engine in a Go benchmark",
	"tfserving":    "TensorFlow Serving has another protocol; this tool measures servers that speak KServe v2",
	"torchserve":   "TorchServe has another protocol; this tool measures servers that speak KServe v2",
	"openai":       "OpenAI's API is another protocol; this tool measures servers that speak KServe v2",
	"dynamic_grpc": "this tool measures servers that speak KServe v2",
}

// parse reads the command line. The first fault is returned.
func parse(args []string) (*options, error) {
	o := &options{protocol: "http", compression: "none", inFormat: "binary", outFormat: "binary", windowMode: "time_windows"}
	f := flag.NewFlagSet("nereid perf", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	o.generalFlags(f)
	o.loadFlags(f)
	o.inputFlags(f)
	o.serverFlags(f)
	for name, why := range refused {
		f.Func(name, "", func(string) error { return errors.New("not supported: " + why) })
	}
	for _, name := range withoutEffect {
		f.String(name, "", "")
	}
	if err := f.Parse(splitShort(args)); err != nil {
		return nil, flagError(err)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: options begin with a dash", f.Arg(0))
	}
	if o.version {
		return o, nil
	}
	return o, o.finish(f)
}

// flagError takes package flag's prefix from a fault.
func flagError(err error) error {
	text := strings.TrimPrefix(err.Error(), "flag provided but not defined: ")
	if text != err.Error() {
		return fmt.Errorf("unknown option %s; nereid perf --help lists the options", text)
	}
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errors.New(text)
}

// splitShort takes a value off the letter that it follows, as getopt does: -b4 is -b 4 and -vv is -v -v.
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

func (o *options) generalFlags(f *flag.FlagSet) {
	f.BoolVar(&o.version, "version", false, "")
	f.StringVar(&o.model, "m", "", "")
	f.StringVar(&o.modelVersion, "x", "", "")
	f.StringVar(&o.composing, "bls-composing-models", "", "")
	f.BoolFunc("v", "", func(string) error { o.verbose++; return nil })
	f.BoolVar(&o.verboseCSV, "verbose-csv", false, "")
	f.StringVar(&o.csvPath, "f", "", "")
	f.StringVar(&o.exportPath, "profile-export-file", "", "")
	f.BoolVar(&o.collect, "collect-metrics", false, "")
	f.StringVar(&o.metricsURL, "metrics-url", "", "")
	f.Func("metrics-interval", "", milliseconds(&o.measure.Interval))
	f.Func("service-kind", "", func(v string) error {
		why, ok := serviceKinds[v]
		if !ok {
			return errors.New("want triton")
		}
		if why != "" {
			return errors.New("not supported: " + why)
		}
		return nil
	})
}

func (o *options) loadFlags(f *flag.FlagSet) {
	m := &o.measure
	both := func(set func(string) error, names ...string) {
		for _, n := range names {
			f.Func(n, "", set)
		}
	}
	f.StringVar(&o.concurrency, "concurrency-range", "", "")
	f.StringVar(&o.rates, "request-rate-range", "", "")
	f.Func("request-distribution", "", oneOf(&o.distribution, "constant", "poisson"))
	f.StringVar(&o.intervals, "request-intervals", "", "")
	f.BoolFunc("fixed-schedule", "", func(string) error { o.schedule = "yes"; return nil })
	f.BoolVar(&m.Binary, "binary-search", false, "")
	both(milliseconds(&m.Threshold), "latency-threshold", "l")
	f.Func("measurement-mode", "", oneOf(&o.windowMode, "time_windows", "count_windows"))
	both(aboveZero(milliseconds(&m.Window)), "measurement-interval", "p")
	f.Func("measurement-request-count", "", count(&o.windowCount, 1))
	both(percent(&m.Stability), "stability-percentage", "s")
	both(count(&m.MaxTrials, 1), "max-trials", "r")
	f.Func("percentile", "", func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n != -1 && (n < 1 || n > 99) {
			return errors.New("want -1 for the average, or 1 to 99")
		}
		m.Percentile = max(0, n)
		return nil
	})
	f.Func("warmup-request-count", "", count(&m.Warmup, 0))
	f.Func("request-count", "", count(&m.Requests, 0))
	f.Func("max-threads", "", count(&o.threads, 1)) // there are no threads to bound
	f.Func("num-of-sequences", "", count(&m.Sequences.Count, 1))
	f.Func("sequence-length", "", func(v string) error {
		m.Sequences.Given = true
		return count(&m.Sequences.Length, 1)(v)
	})
	m.Sequences.Variation = 20
	f.Func("sequence-length-variation", "", percent(&m.Sequences.Variation))
	f.StringVar(&o.ids, "sequence-id-range", "", "")
	f.BoolVar(&o.serial, "serial-sequences", false, "") // they are in any case
	f.Func("c", "", count(&o.most, 1))
	f.Func("t", "", count(&o.current, 1))
	f.BoolVar(&o.dynamic, "d", false, "")
}

func (o *options) inputFlags(f *flag.FlagSet) {
	add := func(list *[]string) func(string) error {
		return func(v string) error { *list = append(*list, v); return nil }
	}
	f.Func("input-data", "", add(&o.data))
	f.Func("data-directory", "", add(&o.data))
	f.BoolVar(&o.zero, "z", false, "")
	f.Func("b", "", count(&o.measure.Batch, 1))
	f.Func("shape", "", add(&o.shape))
	f.StringVar(&o.inputs.String, "string-data", "", "")
	f.Func("string-length", "", count(&o.inputs.StringLength, 1))
	f.Func("shared-memory", "", func(v string) error {
		switch v {
		case "none":
			return nil
		case "system", "cuda":
			return fmt.Errorf("%s is not supported yet; leave the option out", v)
		}
		return errors.New("want none, system or cuda")
	})
	f.Func("input-tensor-format", "", oneOf(&o.inFormat, "binary", "json"))
	f.Func("output-tensor-format", "", oneOf(&o.outFormat, "binary", "json"))
	f.Func("request-parameter", "", func(v string) error {
		name, value, err := perf.ParseParameter(v)
		if err != nil {
			return err
		}
		if o.measure.Parameters == nil {
			o.measure.Parameters = map[string]any{}
		}
		o.measure.Parameters[name] = value
		return nil
	})
}

func (o *options) serverFlags(f *flag.FlagSet) {
	f.StringVar(&o.url, "u", "", "")
	f.Func("i", "", func(v string) error { return oneOf(&o.protocol, "http", "grpc")(strings.ToLower(v)) })
	for _, n := range []string{"async", "a"} {
		f.BoolVar(&o.async, n, false, "")
	}
	f.BoolVar(&o.sync, "sync", false, "")
	f.BoolVar(&o.streaming, "streaming", false, "")
	f.Func("H", "", func(v string) error {
		if name, _, ok := strings.Cut(v, ":"); !ok || name == "" {
			return errors.New("want Header:Value")
		}
		o.headers = append(o.headers, v)
		return nil
	})
	f.Func("grpc-compression-algorithm", "", oneOf(&o.compression, "none", "gzip", "deflate"))
	t := &o.tls
	f.BoolVar(&t.grpc, "ssl-grpc-use-ssl", false, "")
	f.StringVar(&t.grpcCA, "ssl-grpc-root-certifications-file", "", "")
	f.StringVar(&t.grpcKey, "ssl-grpc-private-key-file", "", "")
	f.StringVar(&t.grpcCert, "ssl-grpc-certificate-chain-file", "", "")
	t.verifyPeer, t.verifyHost, t.certType, t.keyType = "1", "2", "PEM", "PEM"
	f.Func("ssl-https-verify-peer", "", oneOf(&t.verifyPeer, "0", "1"))
	f.Func("ssl-https-verify-host", "", oneOf(&t.verifyHost, "0", "1", "2"))
	f.StringVar(&t.httpCA, "ssl-https-ca-certificates-file", "", "")
	f.StringVar(&t.httpCert, "ssl-https-client-certificate-file", "", "")
	f.Func("ssl-https-client-certificate-type", "", oneOf(&t.certType, "PEM", "DER"))
	f.StringVar(&t.httpKey, "ssl-https-private-key-file", "", "")
	f.Func("ssl-https-private-key-type", "", oneOf(&t.keyType, "PEM", "DER"))
}

// finish reads what belongs together.
func (o *options) finish(f *flag.FlagSet) error {
	given := map[string]bool{}
	f.Visit(func(one *flag.Flag) { given[one.Name] = true })
	if o.model == "" {
		return errors.New("-m: name the model")
	}
	switch {
	case o.streaming && o.protocol != "grpc":
		return errors.New("--streaming: only gRPC has streams; add -i grpc")
	case o.compression != "none" && o.protocol != "grpc":
		return errors.New("--grpc-compression-algorithm: only for gRPC; add -i grpc")
	case (o.inFormat == "json" || o.outFormat == "json") && o.protocol != "http":
		return errors.New("--input-tensor-format and --output-tensor-format: only HTTP has tensors in JSON; leave -i grpc out")
	case o.async && o.sync:
		return errors.New("--async and --sync: choose one")
	case o.sync && o.streaming:
		return errors.New("--sync: a stream is asynchronous; leave --sync or --streaming out")
	case !o.collect && (given["metrics-url"] || given["metrics-interval"]):
		return errors.New("--metrics-url and --metrics-interval want --collect-metrics")
	case o.zero && len(o.data) > 0:
		return errors.New("-z and --input-data: choose one")
	}
	if o.windowMode == "count_windows" {
		o.measure.WindowCount = 50
		if o.windowCount > 0 {
			o.measure.WindowCount = o.windowCount
		}
	}
	o.measure.Rough = o.async
	if o.exportPath != "" {
		if _, err := os.Stat(o.exportPath); err == nil {
			return fmt.Errorf("--profile-export-file: %s is there already; remove it first, or name another file", o.exportPath)
		}
		o.measure.Keep = true
	}
	for _, s := range o.shape {
		name, shape, err := perf.ParseShape(s)
		if err != nil {
			return fmt.Errorf("--shape: %w", err)
		}
		if o.inputs.Shapes == nil {
			o.inputs.Shapes = map[string][]int64{}
		}
		o.inputs.Shapes[name] = shape
	}
	if o.ids != "" {
		var err error
		if o.measure.Sequences.FirstID, o.measure.Sequences.EndID, err = perf.ParseIDs(o.ids); err != nil {
			return fmt.Errorf("--sequence-id-range: %w", err)
		}
	}
	return o.finishLoad(given)
}

// finishLoad reads how the load is made.
func (o *options) finishLoad(given map[string]bool) error {
	modes := 0
	for _, n := range []string{"concurrency-range", "request-rate-range", "request-intervals", "fixed-schedule"} {
		if given[n] {
			modes++
		}
	}
	if modes > 1 {
		return errors.New("--concurrency-range, --request-rate-range, --request-intervals and --fixed-schedule: choose one")
	}
	m := &o.measure
	old := given["t"] || given["c"] || given["d"]
	switch {
	case old && modes > 0:
		return errors.New("-t, -c and -d are old forms of --concurrency-range and do not go with another load")
	case o.dynamic:
		m.Concurrency = &perf.Range{Start: float64(max(1, o.current)), End: float64(o.most), Step: 1}
	case given["request-rate-range"]:
		r, err := perf.ParseRange(o.rates, false)
		if err != nil {
			return fmt.Errorf("--request-rate-range: %w", err)
		}
		m.Rate, m.Poisson = &r, o.distribution == "poisson"
	case given["request-intervals"]:
		b, err := os.ReadFile(o.intervals)
		if err == nil {
			m.Intervals, err = perf.ParseIntervals(b)
		}
		if err != nil {
			return fmt.Errorf("--request-intervals %s: %w", o.intervals, err)
		}
	case o.schedule != "": // the times are in the data
	case given["concurrency-range"]:
		r, err := perf.ParseRange(o.concurrency, true)
		if err != nil {
			return fmt.Errorf("--concurrency-range: %w", err)
		}
		m.Concurrency = &r
	default:
		n := float64(max(1, o.current))
		m.Concurrency = &perf.Range{Start: n, End: n, Step: 1}
	}
	return nil
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

func oneOf(field *string, values ...string) func(string) error {
	return func(v string) error {
		for _, want := range values {
			if v == want {
				*field = v
				return nil
			}
		}
		return fmt.Errorf("want %s", strings.Join(values, " or "))
	}
}
