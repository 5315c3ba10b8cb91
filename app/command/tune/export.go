package tunecmd

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
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

// loadColumn is model_analyzer's name of the column with the load.
func (r *result) loadColumn() string {
	if r.rate {
		return "Request Rate"
	}
	return "Concurrency"
}

// writeCSV writes the trials in model_analyzer's columns: the best configurations first, each under all its loads.
// Format: metrics-model-inference.csv of model_analyzer, whose fields may be chosen.
func (r *result) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"Model", "Batch", r.loadColumn(), "Model Config Path", "Instance Group", "Max Batch Size",
		"Satisfies Constraints", "Throughput (infer/sec)",
		"p99 Latency (ms)", "Avg Latency (ms)", "p90 Latency (ms)", "p95 Latency (ms)", "RAM Usage (MB)",
		"CPU Utilization (%)"}}
	for _, t := range r.inOrder() {
		for i, model := range r.names {
			cfg, err := r.completed(model, t.Candidate)
			if err != nil {
				return err
			}
			m := &t.Measurement
			if len(m.Models) > 0 {
				m = &m.Models[i]
			}
			rows = append(rows, []string{model, strconv.Itoa(r.batch), strconv.Itoa(r.space.LoadOf(t.Candidate)),
				r.variantName(t.Candidate), groupText(cfg),
				strconv.Itoa(int(cfg.GetMaxBatchSize())), yes(r.goal.Keeps(&t.Measurement)), number(m.Throughput),
				number(m.Of(tune.LatencyP99)),
				number(m.Of(tune.LatencyAvg)), number(m.Of(tune.LatencyP90)), number(m.Of(tune.LatencyP95)),
				number(m.Of(tune.RAM)), cpuNumber(m)})
		}
	}
	return out.WriteAll(rows)
}

// writeGPUCSV writes the figures of all GPUs together.
// Format: metrics-model-gpu.csv of model_analyzer.
func (r *result) writeGPUCSV(w io.Writer) error {
	rows := [][]string{{"Model", "GPU UUID", "Batch", r.loadColumn(), "Model Config Path", "Instance Group",
		"Satisfies Constraints", "GPU Memory Usage (MB)",
		"GPU Utilization (%)", "GPU Power Usage (W)"}}
	for _, t := range r.inOrder() {
		cfg, err := r.completed(r.model(), t.Candidate)
		if err != nil {
			return err
		}
		rows = append(rows, []string{strings.Join(r.names, ","), "all", strconv.Itoa(r.batch),
			strconv.Itoa(r.space.LoadOf(t.Candidate)), r.variantName(t.Candidate), groupText(cfg),
			yes(r.goal.Keeps(&t.Measurement)), number(t.Of(tune.GPUMemory)), number(t.GPUUtilization),
			number(t.GPUPower)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// writeServerCSV writes what a server without models uses. All GPUs are one row.
// Format: metrics-server-only.csv of model_analyzer, with its optional columns of memory and CPU.
func (r *result) writeServerCSV(w io.Writer) error {
	m := r.serverOnly
	return csv.NewWriter(w).WriteAll([][]string{
		{"Model", "GPU UUID", "GPU Memory Usage (MB)", "GPU Utilization (%)", "GPU Power Usage (W)", "RAM Usage (MB)",
			"CPU Utilization (%)"},
		{"triton-server", "all", number(m.Of(tune.GPUMemory)), number(m.GPUUtilization), number(m.GPUPower),
			number(m.Of(tune.RAM)), cpuNumber(m)},
	})
}

// cpuNumber is the share of one core in percent; empty if too little was measured.
func cpuNumber(m *tune.Measurement) string {
	if m.CPUUnknown {
		return ""
	}
	return number(m.Of(tune.CPU))
}

func yes(b bool) string {
	if b {
		return "Yes"
	}
	return "No"
}

// number formats with at most three decimals.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// inOrder are the trials by the rank of their configuration, then by the load. Failed trials are left out.
func (r *result) inOrder() (out []tune.Trial) {
	for _, head := range r.ranked {
		var same []tune.Trial
		for _, t := range r.found.Trials {
			if t.Failed == "" && r.space.Variant(t.Candidate) == r.space.Variant(head.Candidate) {
				same = append(same, t)
			}
		}
		slices.SortFunc(same, func(a, b tune.Trial) int {
			return r.space.LoadOf(a.Candidate) - r.space.LoadOf(b.Candidate)
		})
		out = append(out, same...)
	}
	return out
}

// groupText is the instances in model_analyzer's form: "2:CPU".
func groupText(cfg *inferencepb.ModelConfig) string {
	var words []string
	for _, g := range cfg.GetInstanceGroup() {
		words = append(words, fmt.Sprintf("%d:%s", g.GetCount(), strings.TrimPrefix(g.GetKind().String(), "KIND_")))
	}
	return strings.Join(words, "+")
}

// writeRepository writes the present configuration and the best ones as separate models, with copies of the model's
// files.
func (r *result) writeRepository(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, t := range append([]tune.Trial{{Candidate: r.space.Start()}}, r.shown()...) {
		for _, c := range r.space.Changes(t.Candidate) {
			if c.Model != r.model() {
				return fmt.Errorf("--output-model-repository: %s changes model %s too; a variant of it would need "+
					"that one under another name", r.variantName(t.Candidate), c.Model)
			}
		}
		if err := r.writeVariant(root, t.Candidate); err != nil {
			return fmt.Errorf("--output-model-repository: %w", err)
		}
	}
	return nil
}

func (r *result) writeVariant(root string, c tune.Candidate) error {
	name := r.variantName(c)
	folder := filepath.Join(root, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return fmt.Errorf("%w; remove it, or name another folder", err)
	}
	text, err := r.configOf(&r.models[0], c)
	if err != nil {
		return err
	}
	if text, err = modelconfig.Replace(text, &inferencepb.ModelConfig{Name: name}, "name"); err != nil {
		return err
	}
	if err := copyTree(r.models[0].folder, folder); err != nil {
		return err
	}
	return errors.Join( // the copy may have the other configuration, which a server would use
		durable.Replace(filepath.Join(folder, repo.ConfigName), []byte(text), 0o644),
		durable.Replace(repo.ConfigPath(folder, r.models[0].configName), []byte(text), 0o644))
}
