package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"nereid/app/backends"
	"nereid/app/command"
	"nereid/app/console/api"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/repo"
	"nereid/engine/system/glob"
)

const inspectUsage = `Says what is in an ONNX model, and where its time goes on this machine.

Usage:
  nereid inspect [--measure] [--runs=<number>] [--dim=<name>=<size>]... [--shape=<input>:<d1>,<d2>,...]... [--json]
                 [--provider=<name>] [--data-dir=<folder>] FILE|FOLDER

FOLDER is a model folder, of which the newest version is taken, or a version folder. The model runs with random numbers,
10 times or --runs times, on all cores of the CPU and without its configuration. --runs=0 only reads the file. An open
dimension is 1, or what --dim says for its name in the file, or what --shape says for the input.

--provider=openvino, cuda or tensorrt shows which parts another execution provider of ONNX Runtime takes. The CPU
provider runs the parts that it refuses. NEREID_ONNXRUNTIME_LIBRARY names an ONNX Runtime that has it.

The times of operators come from separate runs with ONNX Runtime's profiler, which makes runs slower. Operations (FLOP)
are those of matrix products and convolutions.

--measure also says what would make the model faster. FOLDER is then a model folder. Private servers measure its
configuration, and every change of one value (batches, instances, threads), with 1 client and with 8. FP16 and INT8 are
measured by conversions if nereid convert has installed its converters. Nothing is changed. A change that gains at least
10 % has the command that applies it, unless it loses as much with the other number of clients.
`

// Suggestion is a change of a model that was measured beside the model as it is.
type Suggestion struct {
	// Change is of the configuration, or "fp16" or "int8".
	Change string `json:"change"`
	// How says under which conditions both were measured.
	How string `json:"how"`
	// Ratio is how many times as many rows per second there were. P99Ratio is of the latencies; 0: not measured.
	Ratio    float64 `json:"ratio"`
	P99Ratio float64 `json:"p99Ratio"`
	// Differs says by how much answers differ if that is more than the tolerance.
	Differs string `json:"differs"`
	// Failed says why there are no figures.
	Failed string `json:"failed"`
	// Apply is a command.
	Apply string `json:"apply"`
}

// Measurer measures changes of the model in a folder, whose newest version has the ONNX file.
type Measurer func(ctx context.Context, e *command.Env, folder, file, dataDir string) ([]Suggestion, error)

// Inspect runs "nereid inspect …". measure is for --measure.
func Inspect(ctx context.Context, e *command.Env, args []string, measure Measurer) int {
	flags := flag.NewFlagSet("nereid inspect", flag.ContinueOnError)
	asJSON, measured := flags.Bool("json", false, ""), flags.Bool("measure", false, "")
	dataDir := flags.String("data-dir", "", "")
	o := onnxruntime.InspectOptions{Dims: map[string]int64{}, Shapes: map[string][]int64{}}
	flags.IntVar(&o.Runs, "runs", 10, "")
	flags.StringVar(&o.Provider, "provider", "", "")
	flags.Func("dim", "", func(v string) error {
		name, size, _ := strings.Cut(v, "=")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no size of a dimension such as height=224", v)
		}
		o.Dims[name] = n
		return nil
	})
	flags.Func("shape", "", func(v string) error {
		name, shape, _ := cutLast(v, ":")
		for d := range strings.SplitSeq(shape, ",") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil || n < 0 {
				return fmt.Errorf("%q is no shape of an input such as image:1,3,224,224", v)
			}
			o.Shapes[name] = append(o.Shapes[name], n)
		}
		return nil
	})
	if status, done := e.Parse(flags, args, inspectUsage); done {
		return status
	}
	if flags.NArg() != 1 || o.Runs < 0 || o.Runs > 1000 {
		fmt.Fprintln(e.Stderr, "error: name one model, and at most 1000 runs; nereid inspect --help shows the use")
		return 2
	}
	var out struct {
		*api.Inspection
		Suggestions []Suggestion `json:"suggestions,omitempty"`
	}
	var err error
	if out.Inspection, err = inspectModel(ctx, e, *dataDir, flags.Arg(0), o); err == nil && *measured {
		out.Suggestions, err = suggest(ctx, e, flags.Arg(0), out.File, *dataDir, measure)
	}
	switch {
	case err != nil:
	case *asJSON:
		err = json.NewEncoder(e.Stdout).Encode(out)
	default:
		err = errors.Join(printInspection(e.Stdout, out.Inspection), printSuggestions(e.Stdout, out.Suggestions))
	}
	return e.ExitStatus(err, "")
}

// suggest measures changes of a model folder.
func suggest(ctx context.Context, e *command.Env, path, file, dataDir string, measure Measurer) ([]Suggestion, error) {
	folder, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if len(repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), "").Numbers()) == 0 {
		return nil, fmt.Errorf("--measure: %s is no model folder, such as models/digits", path)
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	return measure(ctx, e, folder, file, dataDir)
}

// printSuggestions prints what was measured; those that gain most come first.
func printSuggestions(w io.Writer, list []Suggestion) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Suggestion) int { return cmp.Compare(b.Ratio, a.Ratio) })
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\nCHANGE\tROWS/S\tP99\tMEASURED WITH")
	for _, s := range list {
		rate, p99, how := fmt.Sprintf("× %.2f", s.Ratio), "", s.How
		if s.P99Ratio > 0 {
			p99 = fmt.Sprintf("× %.2f", s.P99Ratio)
		}
		if s.Failed != "" {
			rate, how = "–", s.Failed
		}
		if s.Differs != "" {
			how += "; " + s.Differs
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", printable(s.Change), rate, p99, printable(how))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range worthApplying(list) {
		fmt.Fprintf(w, "\nTo apply %s:\n  %s\n", printable(s.Change), printable(s.Apply))
	}
	return nil
}

// worthApplying returns the suggestions that gain, each change once, without those that lose under another load. The
// list begins with those that gain most.
func worthApplying(list []Suggestion) (out []Suggestion) {
	const worth = 1.1 // less may be noise
	seen := map[string]bool{}
	for _, s := range list {
		loses := slices.ContainsFunc(list, func(other Suggestion) bool {
			return other.Change == s.Change && other.Failed == "" && other.Ratio <= 1/worth
		})
		if s.Ratio >= worth && s.Differs == "" && !loses && !seen[s.Change] {
			seen[s.Change] = true
			out = append(out, s)
		}
	}
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func inspectModel(ctx context.Context, e *command.Env, dataDir, path string, o onnxruntime.InspectOptions) (
	*api.Inspection, error) {
	file, err := onnxFile(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	all, err := backends.ForCommand(dataDir, e.Lookup)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	x, err := all.ONNXRuntime.Inspect(ctx, file, o)
	if err != nil {
		return nil, err
	}
	out := describe(x)
	out.File, out.FileBytes = file, info.Size()
	return out, nil
}

// onnxFile finds the model file that a path stands for.
func onnxFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return path, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if numbers := repo.ScanModel(filepath.Dir(path), filepath.Base(path), "").Numbers(); len(numbers) > 0 {
		path = filepath.Join(path, strconv.FormatInt(numbers[len(numbers)-1], 10))
	}
	for _, name := range []string{"model.onnx", filepath.Join("model.onnx", "model.onnx")} {
		if f := filepath.Join(path, name); isRegular(f) {
			return f, nil
		}
	}
	files := glob.In(path, "*.onnx")
	if len(files) != 1 {
		return "", errors.New(path + " has no model.onnx; name the ONNX file (other frameworks cannot be inspected)")
	}
	return files[0], nil
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

const shownNodes = 50

// describe puts what was found into the form of the page.
func describe(x *onnxruntime.Inspection) *api.Inspection {
	out := &api.Inspection{IRVersion: int64(x.IRVersion), Producer: x.Producer, Unsupported: x.Unsupported,
		LoadError: x.LoadError}
	for domain, version := range x.Opsets {
		out.Opsets = append(out.Opsets, api.Opset{Domain: domain, Version: int64(version)})
	}
	slices.SortFunc(out.Opsets, func(a, b api.Opset) int { return strings.Compare(a.Domain, b.Domain) })
	for dt, w := range x.Weights {
		out.Weights = append(out.Weights, api.Weights{DataType: dt, Tensors: w.Tensors, Elements: w.Elements,
			Bytes: w.Bytes})
	}
	slices.SortFunc(out.Weights, func(a, b api.Weights) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.DataType, b.DataType))
	})
	out.Operators = counts(x.Ops)
	for _, d := range x.Dangers {
		out.Dangers = append(out.Dangers, api.Danger{Op: d.Op, Why: d.Why})
	}
	out.Inputs, out.Outputs = filePorts(x.Inputs), filePorts(x.Outputs)
	if x.Run != nil {
		out.Run = describeRun(x.Run)
	}
	return out
}

// counts lists operators, the most frequent first.
func counts(ops map[string]int) (out []api.OperatorCount) {
	for op, n := range ops {
		out = append(out, api.OperatorCount{Op: op, Count: n})
	}
	slices.SortFunc(out, func(a, b api.OperatorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Op, b.Op))
	})
	return out
}

// countsText writes how often there is each operator.
func countsText(list []api.OperatorCount) string {
	var ops []string
	for _, op := range list {
		ops = append(ops, fmt.Sprintf("%d %s", op.Count, op.Op))
	}
	return strings.Join(ops, ", ")
}

func filePorts(list []onnxruntime.Port) (out []api.FilePort) {
	for _, p := range list {
		out = append(out, api.FilePort{Name: p.Name, DataType: p.DataType, Shape: p.Dims, DimNames: p.DimNames})
	}
	return out
}

func describeRun(r *onnxruntime.Run) *api.InspectedRun {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	times := slices.Sorted(slices.Values(r.Times))
	out := &api.InspectedRun{Shapes: lists(r.Shapes), Runs: len(times),
		MedianUs: us(times[len(times)/2]), BestUs: us(times[0]), WorstUs: us(times[len(times)-1]),
		MemoryBytes: r.MemoryBytes, Providers: r.Profile.Providers, NodeCount: len(r.Profile.Nodes)}
	var sum time.Duration
	for _, n := range r.Profile.Nodes {
		sum += n.Time
	}
	share := func(d time.Duration) float64 { return float64(d) / float64(max(1, sum)) }
	byOp, byProvider := map[string]*api.OperatorTime{}, map[string]map[string]int{}
	for _, n := range r.Profile.Nodes {
		if byProvider[n.Provider] == nil {
			byProvider[n.Provider] = map[string]int{}
		}
		byProvider[n.Provider][n.Op]++
		op := byOp[n.Op]
		if op == nil {
			op = &api.OperatorTime{Op: n.Op}
			byOp[n.Op] = op
		}
		op.Count, op.Us, op.Share, op.FLOPs = op.Count+1, op.Us+us(n.Time), op.Share+share(n.Time), op.FLOPs+n.FLOPs
		out.FLOPs += n.FLOPs
		if len(out.Nodes) < shownNodes {
			out.Nodes = append(out.Nodes, api.NodeTime{Name: n.Name, Op: n.Op, Us: us(n.Time), Share: share(n.Time),
				FLOPs: n.FLOPs, Outputs: lists(n.Outputs)})
		}
	}
	for _, op := range byOp {
		out.Operators = append(out.Operators, *op)
	}
	out.ProviderOperators = map[string]api.List[api.OperatorCount]{}
	for provider, ops := range byProvider {
		out.ProviderOperators[provider] = counts(ops)
	}
	slices.SortFunc(out.Operators, func(a, b api.OperatorTime) int {
		return cmp.Or(cmp.Compare(b.Us, a.Us), strings.Compare(a.Op, b.Op))
	})
	return out
}

func lists(shapes [][]int64) (out []api.List[int64]) {
	for _, s := range shapes {
		out = append(out, s)
	}
	return out
}

// printInspection prints the report for people.
func printInspection(w io.Writer, x *api.Inspection) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("file", "%s, %s", x.File, size(x.FileBytes))
	line("format", "IR %d, %s, made by %s", x.IRVersion, opsets(x.Opsets), cmp.Or(x.Producer, "a program without name"))
	for _, p := range x.Inputs {
		line("input", "%s %s %s", p.Name, p.DataType, dims(p))
	}
	for _, p := range x.Outputs {
		line("output", "%s %s %s", p.Name, p.DataType, dims(p))
	}
	for _, v := range x.Weights {
		line("weights", "%s: %s in %d tensors, %s", v.DataType, count(v.Elements), v.Tensors, size(v.Bytes))
	}
	line("operators", "%s", countsText(x.Operators))
	for _, op := range x.Unsupported {
		line("unsupported", "ONNX Runtime has no operator %s; a library of operators may have it", op)
	}
	if x.LoadError != "" {
		line("error", "it does not load: %s", x.LoadError)
	}
	for _, d := range x.Dangers {
		line("process", "it runs in processes of its own, because %s %s", d.Op, d.Why)
	}
	if x.Run != nil {
		printRun(line, x.Run)
	}
	return t.Flush()
}

// printable replaces what is no printable character. Names in a file must not control the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func printRun(line func(name, format string, args ...any), r *api.InspectedRun) {
	line("run", "%s median of %d (%s to %s), inputs %s", micro(r.MedianUs), r.Runs, micro(r.BestUs),
		micro(r.WorstUs), shapes(r.Shapes))
	line("memory", "%s with the weights, after the runs", size(r.MemoryBytes))
	if r.FLOPs > 0 {
		line("work", "%s of products in a run, %s a second", flop(float64(r.FLOPs)),
			flop(float64(r.FLOPs)/max(r.MedianUs, 1)*1e6))
	}
	for _, provider := range slices.Sorted(maps.Keys(r.Providers)) {
		ops := countsText(r.ProviderOperators[provider])
		line("provider", "%s: %d nodes (%s)", provider, r.Providers[provider], ops)
	}
	for i, op := range r.Operators {
		if i == 10 {
			break
		}
		line("operator", "%4.1f %%  %s  %s (%d)", op.Share*100, micro(op.Us), op.Op, op.Count)
	}
	for i, n := range r.Nodes {
		if i == 10 {
			break
		}
		line("node", "%4.1f %%  %s  %s %s %s", n.Share*100, micro(n.Us), n.Op, n.Name, shapes(n.Outputs))
	}
}

func opsets(list []api.Opset) string {
	var out []string
	for _, o := range list {
		out = append(out, fmt.Sprintf("%s opset %d", cmp.Or(o.Domain, "ONNX"), o.Version))
	}
	return strings.Join(out, ", ")
}

// shapes writes shapes such as "[1,784] [1]".
func shapes(list api.List[api.List[int64]]) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = strings.ReplaceAll(fmt.Sprint([]int64(s)), " ", ",")
	}
	return strings.Join(words, " ")
}

// dims writes a shape with the names of its open dimensions.
func dims(p api.FilePort) string {
	var out []string
	for i, d := range p.Shape {
		if d < 0 && i < len(p.DimNames) && p.DimNames[i] != "" {
			out = append(out, p.DimNames[i])
		} else {
			out = append(out, strconv.FormatInt(d, 10))
		}
	}
	return "[" + strings.Join(out, ",") + "]"
}

// scaled writes a number with the first unit below which it has at most three digits before the point.
func scaled(n, step float64, units ...string) string {
	for _, unit := range units[:len(units)-1] {
		if n < 1000 {
			return strconv.FormatFloat(n, 'g', 4, 64) + unit
		}
		n /= step
	}
	return strconv.FormatFloat(n, 'g', 4, 64) + units[len(units)-1]
}

func size(n int64) string    { return scaled(float64(n), 1024, " B", " KiB", " MiB", " GiB") }
func count(n int64) string   { return scaled(float64(n), 1000, "", " thousand", " million", " billion") }
func flop(n float64) string  { return scaled(n, 1000, " FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP") }
func micro(n float64) string { return scaled(n, 1000, " µs", " ms", " s") }
