package tunecmd

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/command"
	"nereid/app/perf"
	"nereid/app/tune"
)

const usageHead = `Finds the configuration with which a model serves best on this machine, by measuring. It starts
its own servers: a server that serves the model meanwhile keeps its configuration, but shares the machine.

Usage:
  nereid tune --model-repository=FOLDER -m MODEL[,MODEL…] [options] [-- SERVER OPTIONS]

Several models are loaded, measured and tuned together, each under the load. An improvement of one model counts as much
as the same improvement of any other.
`

const usageTail = `
The lists take values N,N,…, a range START:END[:STEP], or the word present for the present value.

SERVER OPTIONS are those of nereid serve that models need, as --backend-config. An interrupt ends the search and shows
what was found. The exit status is 0, 1 after an error, and 2 when the options are wrong.
`

// options is the command line of nereid tune.
type options struct {
	model         string
	with          []string // further models, which are measured and tuned at the same time
	repositories  []string
	configName    string   // of the server's --model-config-name
	serverOptions []string // of the private servers
	dataDir       string

	search  searchOptions
	measure measureOptions
	output  outputOptions
	text    texts

	program  Program
	python   string  // the folder of Python environments that the private servers share with others; "": none
	fillFree bool    // dimensions of inputs that may have any size and are not given are 1
	machine  machine // without cores: the command detects them
	events   events
}

type searchOptions struct {
	mode          string // "quick", "brute" or "each"
	budget        int
	goal          tune.Goal
	lists         lists
	tuneComposing bool
	checkpoint    string // a file
}

type measureOptions struct {
	batch     int
	window    time.Duration
	trials    int // the most windows
	requests  int // of one window; 0: windows until they agree
	paths     []string
	inputs    perf.InputOptions
	composing []string
}

type outputOptions struct {
	top                        int
	report, export, repository string // files and folders
	apply                      bool
}

// events are called during a search; nil functions are left out.
type events struct {
	spaceKnown func(r *result)
	trial      func(r *result, t tune.Trial)
}

// texts are options as the user writes them.
type texts struct {
	objective, composing, file                                           string
	batches, delays, instances, kinds, threads, concurrency, requestRate string
	maxLatency, minThroughput, maxMemory, maxGPUMemory                   float64
	window                                                               int
	shapes                                                               []string
}

// newOptions returns the defaults.
func newOptions() *options {
	return &options{
		search:  searchOptions{mode: "quick", budget: tune.DefaultBudget},
		measure: measureOptions{batch: 1, trials: 6},
		output:  outputOptions{top: 3},
		text:    texts{objective: "throughput", window: 1000},
	}
}

// sections declares all options.
func (o *options) sections() []command.Section {
	return []command.Section{
		{Title: "Models", Options: o.modelOptions()},
		{Title: "Goal", Options: o.goalOptions()},
		{Title: "Search", Options: o.searchOptions()},
		{Title: "Measurement", Options: o.measureOptions()},
		{Title: "Result", Options: o.outputOptions()},
	}
}

func (o *options) modelOptions() []command.Option {
	opt := command.Opt
	return []command.Option{
		opt("--model-repository", "FOLDER", "that has the models' folders; may be repeated", &o.repositories),
		opt("-m, --model", "MODEL[,MODEL…]", "the models; may be repeated", o.addModels),
		opt("--model-config-name", "NAME", "as of nereid serve", &o.configName),
		opt("--config-file", "FILE", "model_analyzer's YAML; keys without a counterpart here are refused by name",
			&o.text.file),
	}
}

func (o *options) goalOptions() []command.Option {
	opt, v := command.Opt, &o.text
	return []command.Option{
		opt("--objective", "throughput|latency", "or model_analyzer's metrics with weights, as "+
			"perf_throughput=2,perf_latency_p99=1; default throughput", &v.objective),
		opt("--latency-budget", "MS", "the highest p99", &v.maxLatency),
		opt("--min-throughput", "N", "the lowest number of inferences per second", &v.minThroughput),
		opt("--max-memory", "MB", "the most memory of the server", &v.maxMemory),
		opt("--max-gpu-memory", "MB", "the most GPU memory of the server", &v.maxGPUMemory),
	}
}

func (o *options) searchOptions() []command.Option {
	opt, s, v := command.Opt, &o.search, &o.text
	return []command.Option{
		opt("--search", "quick|brute|each", "quick climbs from the present configuration; brute measures all; each "+
			"measures every change alone, by default few of them; default quick", &s.mode),
		opt("--budget", "N", "the most measurements of a quick search; default 60", &s.budget),
		opt("--max-batch-sizes", "LIST", "default 1 to 128, doubling", &v.batches),
		opt("--queue-delays", "LIST", "of dynamic batching in microseconds; off: none; default off,0,100,500,1000,5000",
			&v.delays),
		opt("--instance-counts", "LIST", "default 1 to the number of cores, 4 to 8", &v.instances),
		opt("--instance-kinds", "cpu,gpu", "default both where there is a GPU", &v.kinds),
		opt("--threads", "LIST", "of an execution in ONNX Runtime, 0: all cores; default up to half of the cores, "+
			"and 0",
			&v.threads),
		opt("--concurrency", "LIST", "requests in flight; default 1 to 1024, doubling", &v.concurrency),
		opt("--request-rate", "LIST", "requests per second instead", &v.requestRate),
		opt("--checkpoint", "FILE", "keeps every measurement; a search that was interrupted continues there",
			&s.checkpoint),
		opt("--tune-composing", "", "changes the configurations of composing models too", &s.tuneComposing),
	}
}

func (o *options) measureOptions() []command.Option {
	opt, m, v := command.Opt, &o.measure, &o.text
	return []command.Option{
		opt("-b", "N", "rows in a request; default 1", &m.batch),
		opt("--window", "MS", "default 1000", &v.window),
		opt("--max-trials", "N", "the most windows until three agree; default 6", &m.trials),
		opt("--request-count", "N", "one window of N requests instead", &m.requests),
		opt("--input-data", "zero|random|FOLDER|FILE", "as of nereid perf", &m.paths),
		opt("--shape", "NAME:D,D,…", "as of nereid perf", &v.shapes),
		opt("--string-length", "N", "as of nereid perf", &m.inputs.StringLength),
		opt("--string-data", "TEXT", "as of nereid perf", &m.inputs.String),
		opt("--bls-composing-models", "NAME,…", "models that the model calls; those of an ensemble are known",
			&v.composing),
	}
}

func (o *options) outputOptions() []command.Option {
	opt, out := command.Opt, &o.output
	return []command.Option{
		opt("--top", "N", "configurations to show; default 3", &out.top),
		opt("--report", "FILE", "a page of HTML with plots", &out.report),
		opt("--export-path", "FOLDER", "metrics-model-inference.csv in model_analyzer's columns, with GPUs "+
			"metrics-model-gpu.csv, and metrics-server-only.csv of a server without models",
			&out.export),
		opt("--output-model-repository", "FOLDER", "the best configurations as separate models", &out.repository),
		opt("--apply", "", "writes the best configuration into the repository; the one before is kept as a revision "+
			"in "+
			"--data-dir and shows in the GUI", &out.apply),
		opt("--data-dir", "FOLDER", "as of nereid serve", &o.dataDir),
	}
}

// addModels takes a model, or several with commas.
func (o *options) addModels(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); o.model == "" {
			o.model = name
		} else {
			o.with = append(o.with, name)
		}
	}
	return nil
}

// parse reads the command line. Its options override those of a --config-file. It returns all faults at once.
func parse(args []string) (*options, error) {
	o := newOptions()
	f := command.NewFlagSet("nereid tune", o.sections())
	if err := f.Parse(args); err != nil {
		return nil, command.FlagError("nereid tune", err)
	}
	o.serverOptions = f.Args()
	file := o.text.file
	if file == "" {
		return o, o.finish()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config-file: %w", err)
	}
	more, server, err := analyzerArgs(text, o.model)
	if err != nil {
		return nil, fmt.Errorf("--config-file %s: %w", file, err)
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	more = slices.DeleteFunc(more, func(s string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(s, "--"), "=")
		return given[name]
	})
	if err := f.Parse(more); err != nil {
		return nil, fmt.Errorf("--config-file %s: %w", file, command.FlagError("nereid tune", err))
	}
	o.serverOptions = append(server, o.serverOptions...)
	return o, o.finish()
}

// finish checks the options and converts the texts. It returns all faults at once.
func (o *options) finish() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.model == "" {
		bad("-m: name the model")
	}
	if len(o.repositories) == 0 {
		bad("--model-repository: name the folder that the model's folder is in")
	}
	if strings.ContainsAny(o.configName, `/\`) {
		bad("--model-config-name %s: want the name of a file without its end", o.configName)
	}
	if mode := o.search.mode; mode != "quick" && mode != "brute" && mode != "each" {
		bad("--search %s: want quick, brute or each", mode)
	}
	m, v := &o.measure, &o.text
	for _, option := range []struct {
		name  string
		value int
	}{{"--budget", o.search.budget}, {"-b", m.batch}, {"--max-trials", m.trials}, {"--top", o.output.top}} {
		if option.value < 1 {
			bad("%s %d: want 1 or more", option.name, option.value)
		}
	}
	if m.requests < 0 {
		bad("--request-count %d: want 1 or more", m.requests)
	}
	if v.window < 50 || v.window > 600_000 {
		bad("--window %d: want 50 to 600000 ms", v.window)
	}
	m.window = time.Duration(v.window) * time.Millisecond
	var err error
	if m.inputs.Shapes, err = perf.ParseShapes(v.shapes); err != nil {
		bad("--shape %w", err)
	}
	for name := range strings.SplitSeq(v.composing, ",") {
		if name != "" {
			m.composing = append(m.composing, name)
		}
	}
	for _, s := range o.serverOptions {
		name, _, _ := strings.Cut(strings.TrimLeft(s, "-"), "=")
		if slices.Contains(reservedOptions(), name) {
			bad("-- %s: nereid tune sets this option of its servers itself", s)
		}
	}
	return errors.Join(append(errs, o.parseGoal(), o.parseLists())...)
}

// reservedOptions are the options of the private servers that the user may not set.
func reservedOptions() []string {
	return []string{
		"model-repository", "model-store", "data-dir", "model-control-mode", "http-address", "http-port",
		"metrics-port",
		"metrics-address", "allow-http", "allow-metrics", "allow-ui", "allow-grpc", "http-use-ssl", "metrics-use-ssl",
		"history", "model-config-name", "load-model", "exit-on-error", "http-base-path", "log-file", "log-info",
		"http-restricted-api", "model-namespacing", "help", "config-file",
	}
}

// parseGoal reads the objectives and constraints.
func (o *options) parseGoal() error {
	goal, v := &o.search.goal, &o.text
	goal.Weights = map[tune.Metric]float64{}
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
		goal.Weights[tune.Metric(name)] = n
	}
	for _, c := range []tune.Constraint{
		{Metric: tune.LatencyP99, Max: v.maxLatency}, {Metric: tune.Throughput, Min: v.minThroughput},
		{Metric: tune.RAM, Max: v.maxMemory}, {Metric: tune.GPUMemory, Max: v.maxGPUMemory},
	} {
		if c.Min != 0 || c.Max != 0 {
			goal.Constraints = append(goal.Constraints, c)
		}
	}
	return goal.Check()
}

// parseLists reads the values to try.
func (o *options) parseLists() error {
	var errs []error
	numbers := func(option, text string, low, high int, words map[string]int) []int {
		if text == "" {
			return nil
		}
		list, err := parseList(text, low, high, words)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", option, err))
		}
		return list
	}
	field := func(option, text string, low, high int, words map[string]int) []int {
		if text == present {
			return []int{}
		}
		return numbers(option, text, low, high, words)
	}
	l, v := &o.search.lists, &o.text
	l.batches = field("max-batch-sizes", v.batches, 1, 1<<20, nil)
	l.delays = field("queue-delays", v.delays, 0, 60_000_000, map[string]int{"off": tune.NoBatching})
	l.instances = field("instance-counts", v.instances, 1, 1024, nil)
	l.kinds = field("instance-kinds", v.kinds, 2, 1, map[string]int{"cpu": tune.KindCPU, "gpu": tune.KindGPU})
	l.threads = field("threads", v.threads, 0, 1024, nil)
	l.load = numbers("concurrency", v.concurrency, 1, 65536, nil)
	if rates := numbers("request-rate", v.requestRate, 1, 10_000_000, nil); rates != nil {
		if l.load != nil {
			errs = append(errs, errors.New("--concurrency and --request-rate: want one of both"))
		}
		l.load, l.rate = rates, true
	}
	if o.search.mode == "each" {
		l.setFew()
	}
	if l.load == nil {
		l.load = doubling(1, 1024)
	}
	return errors.Join(errs...)
}

// maxValues is how many values a range may have.
const maxValues = 4096

// parseList reads "value,value,…" or "start:end:step", in rising order without duplicates. words are values that are
// not written as numbers.
func parseList(text string, low, high int, words map[string]int) (out []int, err error) {
	if strings.Contains(text, ":") {
		r, err := perf.ParseRange(text, true)
		if err != nil {
			return nil, err
		}
		switch n := int((r.End-r.Start)/r.Step) + 1; {
		case low > high:
			return nil, fmt.Errorf("%q: want values of %s", text, allowed(low, high, words))
		case r.Start < float64(low) || r.End > float64(high) || r.End < r.Start:
			return nil, fmt.Errorf("%q: want start:end:step with the end not below the start, of %s",
				text, allowed(low, high, nil))
		case n > maxValues:
			return nil, fmt.Errorf("%q: %d values are more than %d; take a larger step", text, n, maxValues)
		}
		for v := r.Start; v <= r.End; v += r.Step {
			out = append(out, int(v))
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		v, ok := words[part]
		if !ok {
			if v, err = strconv.Atoi(part); err != nil || v < low || v > high {
				return nil, fmt.Errorf("%q: %q is none of %s", text, part, allowed(low, high, words))
			}
		}
		out = append(out, v)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// allowed lists the values of an option.
func allowed(low, high int, words map[string]int) string {
	list := slices.Sorted(maps.Keys(words))
	if low <= high {
		list = append(list, fmt.Sprintf("the whole numbers from %d to %d", low, high))
	}
	return strings.Join(list, ", ")
}
