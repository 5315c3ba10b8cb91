package convert

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"nereid/app/command"
	"nereid/app/console/folders"
	"nereid/app/console/imports/staging"
	"nereid/app/durable"
	"nereid/engine/repo"
)

const usage = `Converts a trained model to ONNX, or an ONNX model to a smaller one, compares
the two, and puts the result into a model repository.

Usage:
  nereid convert -r FOLDER [options] MODEL

MODEL is one of
  .pkl .pickle .joblib        a model of scikit-learn, or of XGBoost's or LightGBM's classes for it
  .json .ubj .xgb             a model of XGBoost (save_model)
  .txt .lgb                   a model of LightGBM (save_model)
  .cbm .cb                    a model of CatBoost (save_model)
  .pt .pth .torchscript       a TorchScript file; with --class weights of PyTorch (state_dict, also .safetensors)
  .pt2                        a program of torch.export
  torchvision:NAME timm:NAME  a model of these libraries, with random weights
  a SavedModel's folder       and .pb (frozen graph), .keras, .h5, .tflite: a model of TensorFlow
  .pdmodel, .json             a model of PaddlePaddle, with its .pdiparams beside it
  predict_net.pb, .netdef     a model of Caffe2, with init_net.pb or init_*.netdef beside it
  .onnx                       with --fp16, --int8, --opset, --simplify or --external-data

The converters are installed into environments of their own in the data folder, once. Both models then answer the same
rows. The table shows by how much they differ, their sizes, and the time of one row. If a number differs by more than
the tolerance, or a label differs, nothing is put into the repository. With --fp16 and --int8 the difference is a share
of the output's largest value, and 99 % of the labels must be the same. The first rows become golden requests, which
each version of the model must pass before it is served. Captured requests do not, since they may be confidential.

--optimize goes on: it also makes FP16 and INT8, and tries the execution providers of this machine's ONNX Runtime.
Private servers search for the best configuration of each, as nereid tune does. The best one is put into the repository,
if it is 10 % better than the model as converted. A variant whose answers differ is never taken.

`

type converter struct {
	repository, name, python, dataDir string
	trust, accept, asJSON             bool
	source                            source
	class, arguments                  string
	inputs, scale                     string
	confidential                      bool // inputs must not be kept
	shapes                            []inputShape
	fp16, int8, simplify, external    bool
	opset                             int
	tolerance                         float64
	toleranceGiven                    bool
	optimize                          optimizeOptions
	env                               *command.Env
}

func (o *converter) sections() []command.Section {
	return []command.Section{{Options: []command.Option{
		command.Opt("-r, --model-repository", "FOLDER", "where the model is put", &o.repository),
		command.Opt("--name", "NAME", "the model's name; default: from the file", &o.name),
		command.Opt("--tolerance", "NUMBER", "how much a number may differ: absolute below 1, else relative; "+
			"default 0.0001, with --fp16 0.01, with --int8 0.1", &o.tolerance),
		command.Opt("--trust", "", "runs code: that of a pickle, a .pt2, a Lambda layer, or --class's file", &o.trust),
		command.Opt("--accept", "", "takes a model that differs by more", &o.accept),
		command.Opt("--python", "PATH", "the interpreter for a new environment; default python3", &o.python),
		command.Opt("--data-dir", "FOLDER", "the server's data folder; default as of nereid serve", &o.dataDir),
		command.Opt("--json", "", "prints JSON", &o.asJSON),
	}}, {Title: "Rows to compare with, and to calibrate with", Options: []command.Option{
		command.Opt("--inputs", "FILE", "rows: .npy, .npz, .csv, .json as for perf_analyzer, a folder of pictures or "+
			"of saved requests, or captured:MODEL, what the server captured of a model; default: made ones", &o.inputs),
		command.Opt("--image-scale", "SCALE", "of pictures: unit (0 to 1), signed (-1 to 1), imagenet or none; "+
			"default: none for UINT8, imagenet for colours of 160 pixels or more, else unit", &o.scale),
	}}, {Title: "PyTorch and Caffe2", Options: []command.Option{
		command.Opt("--shape", "[NAME:[TYPE:]]D,...", "an input, -1 for an open dimension, such as -1,3,224,224 or "+
			"tokens:INT64:-1,16; repeatable. TorchScript, classes and Caffe2 need it", func(v string) error {
			s, err := parseShape(v)
			o.shapes = append(o.shapes, s)
			return err
		}),
		command.Opt("--class", "CLASS", "what makes the model of weights: FILE.py:Class, torchvision:NAME or timm:NAME",
			&o.class),
		command.Opt("--arguments", "JSON", `what the class is made with, such as {"num_classes": 10}`, &o.arguments),
	}}, {Title: "Changes", Options: []command.Option{
		command.Opt("--fp16", "", "numbers of 16 bits inside, for GPUs; inputs and outputs stay", &o.fp16),
		command.Opt("--int8", "", "weights of 8 bits; with --inputs also calibrated activations", &o.int8),
		command.Opt("--simplify", "", "folds constants and removes what has no effect", &o.simplify),
		command.Opt("--opset", "NUMBER", "the version of ONNX's operators", &o.opset),
		command.Opt("--external-data", "", "weights in a file beside the model, as models above 2 GB have them",
			&o.external),
	}}, {Title: "Optimize", Options: []command.Option{
		command.Opt("--optimize", "", "measures precisions, execution providers and configurations, and takes the best",
			&o.optimize.on),
		command.Opt("--objective", "throughput|latency", "what is best; default throughput", &o.optimize.objective),
		command.Opt("--latency-budget", "MS", "the highest p99", &o.optimize.budgetMs),
	}}}
}

// Run runs "nereid convert". tune is for --optimize.
func Run(ctx context.Context, e *command.Env, args []string, tune Tuner) int {
	o := converter{env: e, python: "python3", tolerance: -1,
		optimize: optimizeOptions{tune: tune, objective: "throughput"}}
	flags := command.NewFlagSet("nereid convert", o.sections())
	err := command.ParseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		err = command.FlagError("nereid convert", err)
	case flags.NArg() != 1:
		err = errors.New("name one model; nereid convert --help shows the use")
	default:
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = o.convert(ctx, flags.Arg(0))
	}
	return e.ExitStatus(err, usage+command.Help(o.sections()))
}

// check looks whether the options are for such a model, and sets the tolerance.
func (o *converter) check() error {
	change := o.fp16 || o.int8 || o.simplify
	of := o.source.file
	switch kind := o.source.kind; {
	case kind == kindONNX && !change && o.opset == 0 && !o.external && !o.optimize.on:
		return fmt.Errorf("%s is an ONNX model already; say what to change (--fp16, --int8, --simplify, --opset, "+
			"--external-data, --optimize), or import it", of)
	case o.optimize.on && (o.fp16 || o.int8):
		return errors.New("--optimize makes FP16 and INT8 itself; leave --fp16 and --int8 out")
	case !o.optimize.on && (o.optimize.budgetMs != 0 || o.optimize.objective == "latency"):
		return errors.New("--objective and --latency-budget are for --optimize")
	case o.optimize.objective != "" && o.optimize.objective != "throughput" && o.optimize.objective != "latency":
		return fmt.Errorf("--objective %q is none of throughput and latency", o.optimize.objective)
	case o.optimize.budgetMs < 0:
		return fmt.Errorf("--latency-budget %g is no time", o.optimize.budgetMs)
	case kind != kindONNX && change:
		return fmt.Errorf("--fp16, --int8 and --simplify are for ONNX models; convert %s without them first", of)
	case o.opset != 0 && (kind == kindPickle || kind == kindXGBoost || kind == kindLightGBM || kind == kindCatBoost ||
		kind == kindCaffe2):
		return fmt.Errorf("--opset is not for %s; convert it without, then change the ONNX model", of)
	case o.fp16 && o.int8:
		return errors.New("--fp16 and --int8 exclude each other")
	case len(o.shapes) > 0 && kind != kindPyTorch && kind != kindCaffe2:
		return fmt.Errorf("--shape is for models of PyTorch and Caffe2; %s says the shapes of its inputs", of)
	case o.arguments != "" && o.source.class == "":
		return errors.New("--arguments is for --class and models of libraries")
	case kind == kindPickle && !o.trust:
		return fmt.Errorf("%s is a pickle: to read it runs the code in it. If you trust where it is from, say --trust",
			of)
	case o.source.code() != "" && !o.trust:
		return fmt.Errorf("--class runs the code in %s. If you trust where it is from, say --trust", o.source.code())
	case o.scale != "" && o.scale != "unit" && o.scale != "signed" && o.scale != "imagenet" && o.scale != "none":
		return fmt.Errorf("--image-scale %q is none of unit, signed, imagenet and none", o.scale)
	}
	if err := checkArguments(o.arguments); err != nil {
		return err
	}
	o.toleranceGiven = o.tolerance >= 0
	switch {
	case o.toleranceGiven:
	case o.fp16:
		o.tolerance = 0.01
	case o.int8:
		o.tolerance = 0.1
	default:
		o.tolerance = 1e-4
	}
	return nil
}

// suffix tells the new model from the one beside it.
func (o *converter) suffix() string {
	switch {
	case o.fp16:
		return "_fp16"
	case o.int8:
		return "_int8"
	case o.opset != 0:
		return fmt.Sprintf("_opset%d", o.opset)
	case o.simplify:
		return "_simple"
	case o.optimize.on:
		return "_optimized"
	}
	return "_external"
}

// nameFor makes a model name from the name of what is converted.
func (o *converter) nameFor(s source) string {
	if s.file == "" {
		_, name, _ := strings.Cut(s.class, ":")
		return staging.ModelName(name)
	}
	stem := strings.TrimSuffix(s.file, filepath.Ext(s.file))
	if s.kind == kindCaffe2 {
		stem = strings.TrimRight(strings.TrimSuffix(stem, "predict_net"), "_/")
	}
	if cfg, err := configOf(s.file); err == nil && cfg != nil && s.kind == kindONNX {
		if folder, err := folderOf(s.file); err == nil {
			stem = folder + o.suffix()
		}
	}
	return staging.ModelName(stem)
}

func (o *converter) convert(ctx context.Context, arg string) (err error) {
	if o.source, err = findSource(arg, o.class); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.name == "" {
		o.name = o.nameFor(o.source)
	}
	if err := repo.CheckName(o.name); err != nil {
		return err
	}
	if err := command.CheckRepository(o.repository); err != nil {
		return err
	}
	to := filepath.Join(o.repository, o.name)
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("a model %s is in %s already; choose another --name", o.name, o.repository)
	}
	forget, err := o.takeCaptured()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget()) }()
	hidden := folders.Hidden(o.repository)
	defer func() { err = errors.Join(err, os.RemoveAll(hidden)) }()
	dir, err := o.makeBest(ctx, hidden)
	if err != nil {
		return err
	}
	if err := durable.SyncTree(dir); err != nil {
		return err
	}
	if err := folders.Place(dir, to); err != nil {
		return err
	}
	fmt.Fprintf(o.env.Stderr, "%s is in %s. A server finds it in poll mode; in the mode explicit by nereid load "+
		"%[1]s; in the mode none when it is started again\n", o.name, o.repository)
	return durable.SyncFolder(o.repository)
}

// makeBest makes the model's folder below workspace and prints the report. With --optimize it is that of the best
// variant.
func (o *converter) makeBest(ctx context.Context, workspace string) (dir string, err error) {
	dir, r, err := o.make(ctx, workspace)
	if err != nil {
		return "", err
	}
	out := optimized{ParityReport: &r}
	if o.optimize.on && (r.Differs == "" || o.accept) {
		if dir, err = o.findBest(ctx, workspace, dir, &out); err != nil {
			return "", err
		}
	}
	if o.asJSON {
		err = json.NewEncoder(o.env.Stdout).Encode(out)
	} else {
		err = errors.Join(printReport(o.env.Stdout, out.ParityReport), printVariants(o.env.Stdout, out.Variants))
	}
	if why := r.Differs; err == nil && why != "" && !o.accept {
		err = fmt.Errorf("%s; nothing was put into %s. --accept takes the model all the same", why, o.repository)
	}
	return dir, err
}
