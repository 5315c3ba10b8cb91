package tunecmd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/perf"
	"nereid/app/tune"
)

const tuneUsage = `Finds the configuration with which a model serves best on this machine, by measuring. It does so in servers of its own:
one that serves the model meanwhile keeps its configuration, but shares the machine.

Usage:
  nereid tune --model-repository=FOLDER -m MODEL[,MODEL…] [options] [-- SERVER OPTIONS]

Several models are loaded and measured at the same time, each under the load, and tuned together: one that becomes a tenth
better is worth as much as any other that does.

Goal
  --objective throughput|latency          or model_analyzer's metrics with weights, as perf_throughput=2,perf_latency_p99=1;
                                          default throughput
  --latency-budget MS                     p99 at most
  --min-throughput N                      inferences a second at least
  --max-memory MB, --max-gpu-memory MB    of the server at most

Search
  --search quick|brute                    quick climbs from the present configuration; brute measures all; default quick
  --budget N                              measurements of a quick search at most; default 60
  --max-batch-sizes N,N,…                 values to try, START:END[:STEP], or present; so all of these; default 1 to 128, doubling
  --queue-delays off|US,…                 dynamic batching: none, or with a delay; default off,0,100,500,1000,5000
  --instance-counts N,N,…                 default 1 to the number of cores, 4 to 8
  --instance-kinds cpu,gpu                default both where there is a GPU
  --threads N,N,…                         of an execution in ONNX Runtime, 0: all cores; default up to half of them, and 0
  --concurrency N,N,…                     requests under way; default 1 to 1024, doubling
  --request-rate N,N,…                    requests a second in its place
  --config-file FILE                      model_analyzer's YAML; what it has no place for here is refused by name
  --checkpoint FILE                       keeps every measurement; a search that was cut short goes on there

Measurement
  -b N                                    rows in a request; default 1
  --window MS                             default 1000; --max-trials N windows at most until three agree, default 6
  --request-count N                       one window of N requests in their place
  --input-data zero|random|FOLDER|FILE, --shape NAME:D,D,…, --string-length N, --string-data TEXT: as of nereid perf
  --bls-composing-models NAME,…           that the model calls; those of an ensemble are known
  --tune-composing                        changes the parts' configurations too

Result
  --top N                                 configurations to show; default 3
  --report FILE                           a page of HTML with plots
  --export-path FOLDER                    metrics-model-inference.csv in model_analyzer's columns, with GPUs metrics-model-gpu.csv, and
                                          metrics-server-only.csv of a server without models
  --output-model-repository FOLDER        the best configurations as models of their own
  --apply                                 writes the best configuration into the repository; what was there is kept as a revision in
                                          --data-dir, as of nereid serve, and shows in the GUI

SERVER OPTIONS are those of nereid serve that models need, as --backend-config. An interrupt ends the search and shows what was
found. The exit status is 0, 1 after an error, and 2 when the options are wrong.
`

// tuneOptions is the command line of nereid tune.
type tuneOptions struct {
	program      Program
	model        string
	with         []string // models that are measured and tuned at the same time
	repositories []string
	goal         tune.Goal
	mode         string
	budget       int
	lists        tuneLists
	batch        int
	window       time.Duration
	trials       int
	requests     int // of one window; 0: windows until they agree
	data         []string
	inputs       perf.InputOptions
	composing    []string
	composingToo bool
	top          int
	checkpointAt string
	reportAt     string
	exportAt     string
	variantsAt   string
	applies      bool
	dataDir      string
	server       []string    // options
	python       string      // the folder of Python environments that the private servers share with others; "": none
	fillFree     bool        // sizes of inputs that are free and not given are 1
	machine      tuneMachine // without cores: it is looked at
	events       tuneEvents
}

// tuneEvents hear of a search; nil ones are left out.
type tuneEvents struct {
	learned func(r *tuned, most int) // the axes are known
	trial   func(r *tuned, t tune.Trial)
}

// tuneValues are the options as they are written.
type tuneValues struct {
	objective, batches, delays, counts, kinds, threads, concurrency, rate, composing, file string
	latency, throughput, memory, gpuMemory                                                 float64
	window                                                                                 int
	shape                                                                                  []string
}

// parseTune reads the command line, which goes before a --config-file. It returns every fault at once.
func parseTune(args []string) (*tuneOptions, error) {
	o, v := &tuneOptions{}, &tuneValues{}
	f := o.flags(v)
	if err := f.Parse(args); err != nil {
		return nil, flagError(err)
	}
	o.server = f.Args()
	if v.file == "" {
		return o, o.finish(v)
	}
	text, err := os.ReadFile(v.file)
	if err != nil {
		return nil, fmt.Errorf("--config-file: %w", err)
	}
	more, server, err := analyzerArgs(text, o.model)
	if err != nil {
		return nil, fmt.Errorf("--config-file %s: %w", v.file, err)
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	more = slices.DeleteFunc(more, func(s string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(s, "--"), "=")
		return given[name]
	})
	if err := f.Parse(more); err != nil {
		return nil, fmt.Errorf("--config-file %s: %w", v.file, flagError(err))
	}
	o.server = append(server, o.server...)
	return o, o.finish(v)
}

// flagError words package flag's error as ours.
func flagError(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: "); ok {
		return fmt.Errorf("unknown option %s; nereid tune --help lists the options", name)
	}
	return err
}

func (o *tuneOptions) flags(v *tuneValues) *flag.FlagSet {
	f := flag.NewFlagSet("nereid tune", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	more := func(to *[]string) func(string) error {
		return func(s string) error { *to = append(*to, s); return nil }
	}
	f.StringVar(&v.file, "config-file", "", "")
	f.Func("m", "", o.names)
	f.Func("model", "", o.names)
	f.Func("model-repository", "", more(&o.repositories))
	f.StringVar(&v.objective, "objective", "throughput", "")
	f.Float64Var(&v.latency, "latency-budget", 0, "")
	f.Float64Var(&v.throughput, "min-throughput", 0, "")
	f.Float64Var(&v.memory, "max-memory", 0, "")
	f.Float64Var(&v.gpuMemory, "max-gpu-memory", 0, "")
	f.StringVar(&o.mode, "search", "quick", "")
	f.IntVar(&o.budget, "budget", tune.DefaultBudget, "")
	f.StringVar(&v.batches, "max-batch-sizes", "", "")
	f.StringVar(&v.delays, "queue-delays", "", "")
	f.StringVar(&v.counts, "instance-counts", "", "")
	f.StringVar(&v.kinds, "instance-kinds", "", "")
	f.StringVar(&v.threads, "threads", "", "")
	f.StringVar(&v.concurrency, "concurrency", "", "")
	f.StringVar(&v.rate, "request-rate", "", "")
	f.StringVar(&o.checkpointAt, "checkpoint", "", "")
	f.IntVar(&o.batch, "b", 1, "")
	f.IntVar(&v.window, "window", 1000, "")
	f.IntVar(&o.trials, "max-trials", 6, "")
	f.IntVar(&o.requests, "request-count", 0, "")
	f.Func("input-data", "", more(&o.data))
	f.Func("shape", "", more(&v.shape))
	f.IntVar(&o.inputs.StringLength, "string-length", 0, "")
	f.StringVar(&o.inputs.String, "string-data", "", "")
	f.StringVar(&v.composing, "bls-composing-models", "", "")
	f.BoolVar(&o.composingToo, "tune-composing", false, "")
	f.IntVar(&o.top, "top", 3, "")
	f.StringVar(&o.reportAt, "report", "", "")
	f.StringVar(&o.exportAt, "export-path", "", "")
	f.StringVar(&o.variantsAt, "output-model-repository", "", "")
	f.BoolVar(&o.applies, "apply", false, "")
	f.StringVar(&o.dataDir, "data-dir", "", "")
	return f
}

// names takes a model, or several with commas; it may be given several times.
func (o *tuneOptions) names(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); o.model == "" {
			o.model = name
		} else {
			o.with = append(o.with, name)
		}
	}
	return nil
}

// finish checks the options and makes what they say. It returns every fault at once.
func (o *tuneOptions) finish(v *tuneValues) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.model == "" {
		bad("-m: name the model")
	}
	if len(o.repositories) == 0 {
		bad("--model-repository: name the folder that the model's folder is in")
	}
	if o.mode != "quick" && o.mode != "brute" {
		bad("--search %s: want quick or brute", o.mode)
	}
	for _, option := range []struct {
		name  string
		value int
	}{{"--budget", o.budget}, {"-b", o.batch}, {"--max-trials", o.trials}, {"--top", o.top}} {
		if option.value < 1 {
			bad("%s %d: want 1 or more", option.name, option.value)
		}
	}
	if o.requests < 0 {
		bad("--request-count %d: want 1 or more", o.requests)
	}
	if v.window < 50 || v.window > 600_000 {
		bad("--window %d: want 50 to 600000 ms", v.window)
	}
	o.window = time.Duration(v.window) * time.Millisecond
	for _, text := range v.shape {
		name, shape, err := perf.ParseShape(text)
		if err != nil {
			bad("--shape %w", err)
		}
		if o.inputs.Shapes == nil {
			o.inputs.Shapes = map[string][]int64{}
		}
		o.inputs.Shapes[name] = shape
	}
	for name := range strings.SplitSeq(v.composing, ",") {
		if name != "" {
			o.composing = append(o.composing, name)
		}
	}
	for _, s := range o.server {
		name, _, _ := strings.Cut(strings.TrimLeft(s, "-"), "=")
		if slices.Contains(tuneOwn(), name) {
			bad("-- %s: nereid tune sets this option of its servers itself", s)
		}
	}
	errs = append(errs, o.goals(v), o.values(v))
	return errors.Join(errs...)
}

// tuneOwn are the options of the private servers that are not the user's.
func tuneOwn() []string {
	return []string{"model-repository", "model-store", "data-dir", "model-control-mode", "http-address", "http-port", "metrics-port", "metrics-address",
		"allow-http", "allow-metrics", "allow-ui", "allow-grpc", "http-use-ssl", "metrics-use-ssl", "history", "model-config-name", "load-model", "exit-on-error",
		"http-base-path", "log-file", "log-info", "http-restricted-api", "model-namespacing", "help"}
}

// goals reads what is to be reached.
func (o *tuneOptions) goals(v *tuneValues) error {
	o.goal.Weights = map[tune.Metric]float64{}
	for part := range strings.SplitSeq(v.objective, ",") {
		name, weight, has := strings.Cut(part, "=")
		n := 1.0
		if has {
			var err error
			if n, err = strconv.ParseFloat(weight, 64); err != nil {
				return fmt.Errorf("--objective %s: the weight %q is no number", part, weight)
			}
		}
		switch name {
		case "throughput":
			name = string(tune.Throughput)
		case "latency":
			name = string(tune.LatencyP99)
		}
		o.goal.Weights[tune.Metric(name)] = n
	}
	for _, c := range []tune.Constraint{{Metric: tune.LatencyP99, Max: v.latency}, {Metric: tune.Throughput, Min: v.throughput},
		{Metric: tune.RAM, Max: v.memory}, {Metric: tune.GPUMemory, Max: v.gpuMemory}} {
		if c.Min != 0 || c.Max != 0 {
			o.goal.Constraints = append(o.goal.Constraints, c)
		}
	}
	return o.goal.Check()
}

// values reads the lists of what is to be tried.
func (o *tuneOptions) values(v *tuneValues) error {
	var errs []error
	numbers := func(option, text string, low, high int, words map[string]int) []int {
		if text == "" {
			return nil
		}
		list, err := tuneList(text, low, high, words)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", option, err))
		}
		return list
	}
	read := func(option, text string, low, high int, words map[string]int) []int {
		if text == present {
			return []int{}
		}
		return numbers(option, text, low, high, words)
	}
	l := &o.lists
	l.batches = read("max-batch-sizes", v.batches, 1, 1<<20, nil)
	l.delays = read("queue-delays", v.delays, 0, 60_000_000, map[string]int{"off": tune.NoBatching})
	l.instances = read("instance-counts", v.counts, 1, 1024, nil)
	l.kinds = read("instance-kinds", v.kinds, 2, 1, map[string]int{"cpu": tune.KindCPU, "gpu": tune.KindGPU})
	l.threads = read("threads", v.threads, 0, 1024, nil)
	l.load = numbers("concurrency", v.concurrency, 1, 65536, nil)
	if rates := numbers("request-rate", v.rate, 1, 10_000_000, nil); rates != nil {
		if l.load != nil {
			errs = append(errs, errors.New("--concurrency and --request-rate: want one of both"))
		}
		l.load, l.rate = rates, true
	}
	if l.load == nil {
		l.load = doubling(1, 1024)
	}
	return errors.Join(errs...)
}

// mostValues is how many values a range may have.
const mostValues = 4096

// tuneList reads "value,value,…" or "start:end:step", in rising order without repeats. words are values that are no numbers.
func tuneList(text string, low, high int, words map[string]int) (out []int, err error) {
	if strings.Contains(text, ":") {
		r, err := perf.ParseRange(text, true)
		if err != nil {
			return nil, err
		}
		switch n := int((r.End-r.Start)/r.Step) + 1; {
		case low > high:
			return nil, fmt.Errorf("%q: want values of %s", text, allowed(low, high, words))
		case r.Start < float64(low) || r.End > float64(high) || r.End < r.Start:
			return nil, fmt.Errorf("%q: want start:end:step with the end not below the start, of %s", text, allowed(low, high, nil))
		case n > mostValues:
			return nil, fmt.Errorf("%q: %d values are more than %d; take a larger step", text, n, mostValues)
		}
		for v := r.Start; v <= r.End; v += r.Step {
			out = append(out, int(v))
		}
	} else {
		for part := range strings.SplitSeq(text, ",") {
			if v, ok := words[part]; ok {
				out = append(out, v)
				continue
			}
			v, err := strconv.Atoi(part)
			if err != nil || v < low || v > high {
				return nil, fmt.Errorf("%q: %q is none of %s", text, part, allowed(low, high, words))
			}
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func allowed(low, high int, words map[string]int) string {
	var list []string
	for w := range words {
		list = append(list, w)
	}
	slices.Sort(list)
	if low <= high {
		list = append(list, fmt.Sprintf("the whole numbers from %d to %d", low, high))
	}
	return strings.Join(list, ", ")
}
