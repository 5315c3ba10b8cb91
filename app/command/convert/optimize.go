package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"nereid/app/backends"
	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// worth is how many times better a variant must be than the model as converted. Less may be noise.
const worth = 1.1

// variantsName is the file of the new model's folder that has the figures of all variants.
const variantsName = "variants.json"

// Tuned is what a search found for the model of a folder.
type Tuned struct {
	Config  string  `json:"-"`       // the text of the best configuration
	Changes string  `json:"changes"` // of the configuration that the model had
	Load    string  `json:"load"`
	Rate    float64 `json:"rate"` // rows per second
	P99Ms   float64 `json:"p99Ms"`
}

// Tuner searches for the best configuration of the model in a folder, by the objective "throughput" or "latency". An
// error is of one variant: it does not load, or no configuration keeps the budget.
type Tuner func(ctx context.Context, folder, dataDir, objective string, budgetMs float64) (Tuned, error)

type optimizeOptions struct {
	on        bool
	objective string
	budgetMs  float64 // of the p99; 0: any
	tune      Tuner
}

// variant is the model in one precision, on one execution provider.
type variant struct {
	Name string `json:"name"` // "converted", a precision or an execution provider
	Tuned
	// Failed says why it cannot be taken: its answers differ, or it cannot be measured.
	Failed string `json:"failed"`
	Taken  bool   `json:"taken"`

	dir string
}

// optimized is what --json prints.
type optimized struct {
	*api.ParityReport
	Variants []variant `json:"variants,omitempty"`
}

// findBest makes and measures the variants of the model in dir. It returns the folder of the best one, with its
// configuration.
func (o *converter) findBest(ctx context.Context, workspace, dir string, out *optimized) (string, error) {
	all := []variant{{Name: "converted", dir: dir}}
	for _, precision := range []string{"fp16", "int8"} {
		v, err := o.precision(ctx, filepath.Join(workspace, precision), dir, precision)
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	more, err := o.providers(workspace, all)
	if err != nil {
		return "", err
	}
	all = append(all, more...)
	for i := range all {
		v := &all[i]
		if v.Failed != "" {
			continue
		}
		fmt.Fprintf(o.env.Stderr, "measuring %s\n", v.Name)
		v.Tuned, err = o.optimize.tune(ctx, v.dir, o.dataDir, o.optimize.objective, o.optimize.budgetMs)
		if err != nil {
			v.Failed = err.Error()
		}
		if ctx.Err() != nil {
			return "", errCancelled
		}
	}
	out.Variants = all
	best := choose(all, o.optimize.objective)
	if best < 0 {
		return "", fmt.Errorf("no variant can be taken (%s); nothing was put into %s", reasons(all), o.repository)
	}
	all[best].Taken = true
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", err
	}
	dir = all[best].dir
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, repo.ConfigName), []byte(all[best].Config), 0o644),
		os.WriteFile(filepath.Join(dir, variantsName), append(text, '\n'), 0o644))
}

// precision makes a variant of the model in dir. One that cannot be made, or that answers differently, has failed.
func (o *converter) precision(ctx context.Context, workspace, dir, precision string) (variant, error) {
	c := *o
	c.source = source{kind: kindONNX, file: filepath.Join(dir, "1", "model.onnx")}
	c.fp16, c.int8, c.simplify, c.opset = precision == "fp16", precision == "int8", false, 0
	c.shapes, c.class, c.arguments, c.optimize = nil, "", "", optimizeOptions{}
	if !o.toleranceGiven {
		c.tolerance = -1
	}
	v := variant{Name: precision}
	if err := c.check(); err != nil {
		return v, err
	}
	made, r, err := c.make(ctx, workspace)
	switch {
	case ctx.Err() != nil:
		return v, errCancelled
	case err != nil:
		v.Failed = err.Error()
	default:
		v.dir, v.Failed = made, r.Differs
	}
	return v, nil
}

// accelerated are the execution providers, in addition to those that every instance has, by ONNX Runtime's name.
var accelerated = []struct {
	provider, name string
	gpu            bool
}{{"OpenVINOExecutionProvider", "openvino", false}, {"TensorrtExecutionProvider", "tensorrt", true}}

// providers makes variants of the first one with the execution providers that this machine's ONNX Runtime has. The
// golden requests compare their answers when the model is loaded.
func (o *converter) providers(workspace string, all []variant) (more []variant, err error) {
	has, err := backends.ONNXProviders(o.dataDir, o.env.Lookup)
	if err != nil {
		return nil, err
	}
	for _, a := range accelerated {
		if !slices.Contains(has, a.provider) {
			continue
		}
		v := variant{Name: a.name, dir: filepath.Join(workspace, a.name, o.name)}
		if err := os.CopyFS(v.dir, os.DirFS(all[0].dir)); err != nil {
			return nil, err
		}
		path := filepath.Join(v.dir, repo.ConfigName)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		cfg, _, faults := modelconfig.Parse(path, text)
		if err := faults.Err(); err != nil {
			return nil, err
		}
		accelerate(cfg, a.name, a.gpu)
		if err := os.WriteFile(path, []byte(modelconfig.Format(cfg)), 0o644); err != nil {
			return nil, err
		}
		more = append(more, v)
	}
	return more, nil
}

// accelerate asks for an execution provider.
func accelerate(cfg *inferencepb.ModelConfig, name string, gpu bool) {
	if cfg.Optimization == nil {
		cfg.Optimization = &inferencepb.ModelOptimizationPolicy{}
	}
	e := &inferencepb.ModelOptimizationPolicy_ExecutionAccelerators{}
	list := []*inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator{{Name: name}}
	if gpu {
		e.GpuExecutionAccelerator = list
	} else {
		e.CpuExecutionAccelerator = list
	}
	cfg.Optimization.ExecutionAccelerators = e
}

// choose returns the index of the best variant, -1 if all failed. The first one, as converted, stays unless another is
// better by worth.
func choose(all []variant, objective string) int {
	gain := func(v, than *variant) float64 {
		if objective == "latency" {
			return than.P99Ms / v.P99Ms
		}
		return v.Rate / than.Rate
	}
	best := -1
	for i := range all {
		switch v := &all[i]; {
		case v.Failed != "":
		case best < 0,
			best == 0 && gain(v, &all[0]) >= worth,
			best > 0 && gain(v, &all[best]) > 1:
			best = i
		}
	}
	return best
}

// reasons says of each variant why it cannot be taken.
func reasons(all []variant) string {
	text := ""
	for i, v := range all {
		if i > 0 {
			text += "; "
		}
		text += v.Name + ": " + v.Failed
	}
	return text
}

// printVariants prints the variants that were measured; nothing without any.
func printVariants(out io.Writer, all []variant) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nVARIANT\tROWS/S\tP99\tCONFIGURATION")
	for _, v := range all {
		name := v.Name
		if v.Taken {
			name += " (taken)"
		}
		if v.Failed != "" {
			fmt.Fprintf(w, "%s\t–\t–\t%s\n", name, v.Failed)
			continue
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.2f ms\t%s, with %s\n", name, v.Rate, v.P99Ms, v.Changes, v.Load)
	}
	return w.Flush()
}
