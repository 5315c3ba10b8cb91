package tunecmd

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/app/durable"
	"nereid/app/tune"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// writeCSV writes the trials in model_analyzer's columns, the best first, and those of what else was measured after them.
// Format: metrics-model-inference.csv of model_analyzer, whose fields may be chosen.
func (r *tuned) writeCSV(w io.Writer) error {
	load := "Concurrency"
	if r.rate {
		load = "Request Rate"
	}
	out := csv.NewWriter(w)
	rows := [][]string{{"Model", "Batch", load, "Model Config Path", "Instance Group", "Max Batch Size", "Satisfies Constraints", "Throughput (infer/sec)",
		"p99 Latency (ms)", "Avg Latency (ms)", "p90 Latency (ms)", "p95 Latency (ms)", "RAM Usage (MB)", "CPU Utilization (%)"}}
	for _, t := range r.inOrder() {
		for i, model := range append([]string{r.model}, r.with...) {
			cfg, err := r.completed(model, t.Candidate)
			if err != nil {
				return err
			}
			m := &t.Measurement
			if len(m.Models) > 0 {
				m = &m.Models[i]
			}
			rows = append(rows, []string{model, strconv.Itoa(r.batch), strconv.Itoa(r.space.LoadOf(t.Candidate)), r.variantName(t.Candidate), groupText(cfg),
				strconv.Itoa(int(cfg.GetMaxBatchSize())), yes(r.goal.Keeps(&t.Measurement)), number(m.Throughput), number(m.Of(tune.LatencyP99)),
				number(m.Of(tune.LatencyAvg)), number(m.Of(tune.LatencyP90)), number(m.Of(tune.LatencyP95)), number(m.Of(tune.RAM)), number(m.Of(tune.CPU))})
		}
	}
	return out.WriteAll(rows)
}

// writeGPUCSV is the same for what the GPUs showed together.
// Format: metrics-model-gpu.csv of model_analyzer.
func (r *tuned) writeGPUCSV(w io.Writer) error {
	rows := [][]string{{"Model", "GPU UUID", "Batch", "Concurrency", "Model Config Path", "Instance Group", "Satisfies Constraints", "GPU Memory Usage (MB)",
		"GPU Utilization (%)", "GPU Power Usage (W)"}}
	for _, t := range r.inOrder() {
		cfg, err := r.completed(r.model, t.Candidate)
		if err != nil {
			return err
		}
		rows = append(rows, []string{strings.Join(append([]string{r.model}, r.with...), ","), "all", strconv.Itoa(r.batch), strconv.Itoa(r.space.LoadOf(t.Candidate)), r.variantName(t.Candidate), groupText(cfg),
			yes(r.goal.Keeps(&t.Measurement)), number(t.Of(tune.GPUMemory)), number(t.GPUUtilization), number(t.GPUPower)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// writeServerCSV writes what a server without models takes, which is the models' in no other table. The GPUs are taken together.
// Format: metrics-server-only.csv of model_analyzer, with the columns of memory and processors that it can be told to add.
func (r *tuned) writeServerCSV(w io.Writer) error {
	m := r.alone
	return csv.NewWriter(w).WriteAll([][]string{
		{"Model", "GPU UUID", "GPU Memory Usage (MB)", "GPU Utilization (%)", "GPU Power Usage (W)", "RAM Usage (MB)", "CPU Utilization (%)"},
		{"triton-server", "all", number(m.Of(tune.GPUMemory)), number(m.GPUUtilization), number(m.GPUPower), number(m.Of(tune.RAM)), number(m.Of(tune.CPU))},
	})
}

func yes(b bool) string {
	if b {
		return "Yes"
	}
	return "No"
}

// number has three decimals at most.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// inOrder are the trials by their configurations' ranks, and of each by the load. Those that failed are left out.
func (r *tuned) inOrder() (out []tune.Trial) {
	for _, head := range r.ranked {
		var own []tune.Trial
		for _, t := range r.result.Trials {
			if t.Failed == "" && r.space.Variant(t.Candidate) == r.space.Variant(head.Candidate) {
				own = append(own, t)
			}
		}
		slices.SortFunc(own, func(a, b tune.Trial) int { return r.space.LoadOf(a.Candidate) - r.space.LoadOf(b.Candidate) })
		out = append(out, own...)
	}
	return out
}

// variantName is what model_analyzer calls a configuration: numbered in the order of measuring.
func (r *tuned) variantName(c tune.Candidate) string {
	if r.space.IsPresent(c) {
		return r.model + "_config_default"
	}
	n := 0
	for _, v := range r.variants() {
		if v == r.space.Variant(c) {
			break
		}
		if v != r.space.Variant(r.space.Start()) {
			n++
		}
	}
	return fmt.Sprintf("%s_config_%d", r.model, n)
}

// variants are the configurations that were measured, in order.
func (r *tuned) variants() (out []string) {
	for _, t := range r.result.Trials {
		if v := r.space.Variant(t.Candidate); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// completed is a candidate's configuration of a model with what the server completed of the present one.
func (r *tuned) completed(model string, c tune.Candidate) (*inferencepb.ModelConfig, error) {
	present := r.present[model]
	text, err := tuneConfig(modelconfig.Format(present), present, of(r.space.Changes(c), model))
	if err != nil {
		return nil, err
	}
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	return cfg, faults.Err()
}

// groupText is the instances as model_analyzer has them: "2:CPU".
func groupText(cfg *inferencepb.ModelConfig) string {
	var words []string
	for _, g := range cfg.GetInstanceGroup() {
		words = append(words, fmt.Sprintf("%d:%s", g.GetCount(), strings.TrimPrefix(g.GetKind().String(), "KIND_")))
	}
	return strings.Join(words, "+")
}

// writeRepository writes the present configuration and the best ones as models of their own, with the model's files.
func (r *tuned) writeRepository(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, t := range append([]tune.Trial{{Candidate: r.space.Start()}}, r.shown()...) {
		for _, c := range r.space.Changes(t.Candidate) {
			if c.Model != r.model {
				return fmt.Errorf("--output-model-repository: %s changes model %s too; a variant of it would need that one under another name", r.variantName(t.Candidate), c.Model)
			}
		}
		if err := r.writeVariant(root, t.Candidate); err != nil {
			return fmt.Errorf("--output-model-repository: %w", err)
		}
	}
	return nil
}

func (r *tuned) writeVariant(root string, c tune.Candidate) error {
	name := r.variantName(c)
	folder := filepath.Join(root, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return fmt.Errorf("%w; remove it, or name another folder", err)
	}
	text, err := r.configOf(r.model, c)
	if err != nil {
		return err
	}
	if text, err = modelconfig.Replace(text, &inferencepb.ModelConfig{Name: name}, "name"); err != nil {
		return err
	}
	if err := copyTree(r.models[0].folder, folder); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(folder, repo.ConfigName), []byte(text), 0o644)
}

// copyTree copies a model's files. They are no links: a file that is written to again in one of the models would change in the
// other.
func copyTree(from, to string) error {
	from, err := filepath.EvalSymlinks(from) // links are followed, here and below
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == from:
			return err
		case repo.Ignored(d.Name()) && d.IsDir():
			return fs.SkipDir
		case repo.Ignored(d.Name()):
			return nil
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return durable.Copy(path, at)
		}
		if err := os.Mkdir(at, 0o755); err != nil || d.IsDir() {
			return err
		}
		return copyTree(path, at)
	})
}
