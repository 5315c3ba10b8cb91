package onnxruntime

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/backend/onnxruntime/profile"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Inspection is what a model file says about itself, and what a run on this machine showed.
type Inspection struct {
	*onnxfile.Description // its ports are those of the session if the model loads
	*onnxfile.Info
	Run *Run // nil: it was not run
	// Unsupported are operators that ONNX Runtime does not have, so that the model does not load without a library of
	// operators.
	Unsupported []string
	// LoadError says why the model does not load; "": it does, or Unsupported says why.
	LoadError string
}

// Port is an input or output of a model file.
type Port = onnxfile.Port

// Run is what the runs of a model showed.
type Run struct {
	Shapes      [][]int64       // of the inputs
	Times       []time.Duration // of the runs, in order; the first one of the session is left out
	MemoryBytes int64           // of the session with its weights, after the runs
	Profile     profile.Profile
}

// InspectOptions say how a model is run.
type InspectOptions struct {
	Runs   int                // 0: it is not run
	Dims   map[string]int64   // sizes of variable dimensions by the file's name; others are 1
	Shapes map[string][]int64 // shapes of inputs, which have precedence
	// Provider is the execution provider that gets each part of the graph that it takes: "openvino", or "cuda" or
	// "tensorrt" on the first GPU. ONNX Runtime's CPU provider gets the rest; "" is that provider alone.
	Provider string
}

// Inspect reads the model file at path, and runs it with random numbers. It uses no configuration: the session is one
// of this server with its defaults, with a thread for each core. A file that does not load can be described, but not
// run. The error is InvalidArg for a file that is no model, and for shapes that do not fit,
// and Unsupported if the library has no such provider.
func (b *Backend) Inspect(ctx context.Context, path string, o InspectOptions) (*Inspection, error) {
	info, fault := onnxfile.Check(path, filepath.Dir(path))
	d, err := onnxfile.Describe(path)
	if fault != nil && err == nil && o.Runs == 0 {
		return &Inspection{Description: d, Info: &onnxfile.Info{}, LoadError: fault.Error()}, nil
	}
	if err := cmp.Or(fault, err); err != nil {
		return nil, status.Errorf(status.InvalidArg, "%s: %w", path, err)
	}
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	out := &Inspection{Description: d, Info: info}
	x := &inspector{ctx: ctx, library: l, path: path, b: b}
	if err := x.provide(o.Provider); err != nil {
		return nil, err
	}
	session, err := x.session("")
	if err != nil && o.Runs == 0 && ctx.Err() == nil {
		if list, lerr := x.unsupported(d); lerr == nil && len(list) > 0 {
			out.Unsupported = list
			return out, nil
		}
		out.LoadError = limit(err, path, d).Error()
		return out, nil
	}
	if err != nil {
		return nil, limit(err, path, d)
	}
	defer session.Close()
	sig, err := readSignature(session)
	if err != nil {
		return nil, err
	}
	out.Inputs, out.Outputs = describePorts(sig.inputs), describePorts(sig.outputs)
	if o.Runs == 0 {
		return out, nil
	}
	if err := x.makeInputs(sig, o); err != nil {
		return nil, err
	}
	run := &Run{Shapes: x.shapes}
	if run.Times, err = x.run(session, o.Runs); err != nil {
		return nil, err
	}
	if run.MemoryBytes, err = session.Memory(); err != nil {
		return nil, runtimeError(err)
	}
	run.Profile, err = x.profile(o.Runs)
	out.Run = run
	return out, err
}

// Of the texts of ONNX Runtime about files that are newer than itself.
var (
	irLimit    = regexp.MustCompile(`max supported IR version: (\d+)`)
	opsetLimit = regexp.MustCompile(`Opset (\d+) is under development .* for domain (\S+) is till opset (\d+)`)
)

// limit says in plain words that a file is newer than ONNX Runtime, if that is what err is about. ONNX Runtime's own
// text has the names of its functions.
func limit(err error, path string, d *onnxfile.Description) error {
	if m := irLimit.FindStringSubmatch(err.Error()); m != nil {
		return status.Errorf(status.InvalidArg, "%s has IR version %d, and this ONNX Runtime reads versions up to %s; "+
			"export the model with an older version", path, d.IRVersion, m[1])
	}
	if m := opsetLimit.FindStringSubmatch(err.Error()); m != nil {
		return status.Errorf(status.InvalidArg, "%s has opset %s of %s, and this ONNX Runtime has opsets up to %s; "+
			"export the model with an older opset", path, m[1], m[2], m[3])
	}
	return err
}

func describePorts(list []capi.IO) (out []Port) {
	for _, io := range list {
		out = append(out, Port{Name: io.Name, DataType: elementName(io.Type), Dims: io.Dims, DimNames: io.DimNames})
	}
	return out
}

// inspector runs one model file.
type inspector struct {
	ctx     context.Context
	b       *Backend
	library *capi.Library
	path    string
	spec    backend.Spec
	place   place

	inputs, outputs []string
	types           []int
	shapes          [][]int64
	data            [][]byte
}

// provide sets the execution provider of the sessions, as a configuration would.
func (x *inspector) provide(name string) error {
	x.spec = backend.Spec{Config: &inferencepb.ModelConfig{}, Log: slog.New(slog.DiscardHandler)}
	named := []*accelerator{{Name: name}}
	use := &inferencepb.ModelOptimizationPolicy_ExecutionAccelerators{}
	switch name {
	case "":
	case "openvino":
		use.CpuExecutionAccelerator = named
	case "cuda", "tensorrt":
		use.GpuExecutionAccelerator, x.place.gpu = named, true
	default:
		return status.Errorf(status.InvalidArg, "%q is no execution provider; choose openvino, cuda or tensorrt", name)
	}
	x.spec.Config.Optimization = &inferencepb.ModelOptimizationPolicy{ExecutionAccelerators: use}
	return nil
}

// session makes a session. If prefix is not "", it writes a profile.
func (x *inspector) session(prefix string) (*capi.Session, error) {
	opts, err := newSessionOptions(x.spec, pooled, &x.b.o.Settings)
	if err != nil {
		return nil, err
	}
	defer opts.close()
	// An arena that is not shared tells what the runs need.
	if err := opts.AddSessionConfigEntry(sharedMemory, "0"); err != nil {
		return nil, runtimeError(err)
	}
	if err := opts.providers(x.library, x.spec, x.place, x.b.o.RuntimeFolder); err != nil {
		return nil, err
	}
	if prefix != "" {
		if err := capi.Profile(opts.pointer(), prefix); err != nil {
			return nil, runtimeError(err)
		}
	}
	return opts.newSession(x.ctx, x.library, x.path)
}

// makeInputs makes the inputs of the runs: random numbers of 0..1 for floats, otherwise zeros and empty strings.
func (x *inspector) makeInputs(sig *signature, o InspectOptions) error {
	known := map[string]bool{}
	for i := range sig.inputs {
		io := &sig.inputs[i]
		known[io.Name] = true
		if sig.optional[i] {
			continue
		}
		if why := unserved(io); why != "" {
			return status.New(status.Unsupported, why)
		}
		shape, err := shapeOf(io, o)
		if err != nil {
			return err
		}
		data, err := made(elementType(io.Type), shape)
		if err != nil {
			return status.Errorf(status.InvalidArg, "input %s: %w", io.Name, err)
		}
		x.inputs, x.types = append(x.inputs, io.Name), append(x.types, io.Type)
		x.shapes, x.data = append(x.shapes, shape), append(x.data, data)
	}
	for name := range o.Shapes {
		if !known[name] {
			return status.Errorf(status.InvalidArg, "the model has no input %s", name)
		}
	}
	for _, io := range sig.outputs {
		x.outputs = append(x.outputs, io.Name)
	}
	return nil
}

// shapeOf returns the shape of an input in the runs.
func shapeOf(io *capi.IO, o InspectOptions) ([]int64, error) {
	given, shape := o.Shapes[io.Name], slices.Clone(io.Dims)
	if given != nil && len(given) != len(shape) {
		return nil, status.Errorf(status.InvalidArg, "the shape %v is given for input %s, which has %d dimensions",
			given, io.Name, len(shape))
	}
	for i, d := range shape {
		switch {
		case given != nil && d >= 0 && given[i] != d:
			return nil, status.Errorf(status.InvalidArg, "the shape %v is given for input %s, whose shape is %v", given,
				io.Name, io.Dims)
		case given != nil:
			shape[i] = given[i]
		case d < 0 && o.Dims[io.DimNames[i]] > 0:
			shape[i] = o.Dims[io.DimNames[i]]
		case d < 0:
			shape[i] = 1
		}
	}
	return shape, nil
}

const maxMade = 1 << 30 // bytes of an input

// made returns the values of an input.
func made(dt tensor.DataType, shape []int64) ([]byte, error) {
	n, size := int64(1), int64(max(dt.Size(), 4)) // an empty string has a length of four bytes
	for _, d := range shape {
		if d < 0 || d > maxMade || n*d > maxMade/size {
			return nil, fmt.Errorf("the shape %v is too large to be made; give a smaller one", shape)
		}
		n *= d
	}
	switch dt {
	case tensor.FP32:
		b := make([]byte, 0, n*4)
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(rand.Float32())) //nolint:gosec // no secret
		}
		return b, nil
	case tensor.FP64:
		b := make([]byte, 0, n*8)
		for range n {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(rand.Float64())) //nolint:gosec // no secret
		}
		return b, nil
	case tensor.Bytes:
		return make([]byte, n*4), nil
	default:
		return make([]byte, n*int64(dt.Size())), nil
	}
}

// run runs a session once, and then n times for the result.
func (x *inspector) run(s *capi.Session, n int) (times []time.Duration, err error) {
	r, err := s.NewRunner(x.inputs, x.outputs, nil)
	if err != nil {
		return nil, runtimeError(err)
	}
	defer r.Close()
	for i := 0; i <= n && err == nil; i++ {
		r.Reset()
		for k, data := range x.data {
			count := int64(1)
			for _, d := range x.shapes[k] {
				count *= d
			}
			if err := r.AddInput(k, x.types[k], x.shapes[k], count, data, false); err != nil {
				return nil, runtimeError(err)
			}
		}
		for k := range x.outputs {
			r.AddOutput(k)
		}
		start := time.Now()
		err = r.Run()
		if took := time.Since(start); i > 0 {
			times = append(times, took)
		}
		r.DiscardAll()
		if x.ctx.Err() != nil {
			return nil, x.ctx.Err()
		}
	}
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the model does not run with inputs of the shapes %v: %w; give "+
			"other shapes", x.shapes, err)
	}
	return times, nil
}

// profile runs the model in a separate session that notes the time of each node, which makes it slower.
func (x *inspector) profile(runs int) (profile.Profile, error) {
	dir, err := os.MkdirTemp("", "nereid-profile-")
	if err != nil {
		return profile.Profile{}, err
	}
	defer os.RemoveAll(dir)
	s, err := x.session(filepath.Join(dir, "p"))
	if err != nil {
		return profile.Profile{}, err
	}
	defer s.Close()
	if _, err := x.run(s, runs); err != nil {
		return profile.Profile{}, err
	}
	path, err := s.EndProfile()
	if err != nil {
		return profile.Profile{}, runtimeError(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return profile.Profile{}, err
	}
	return profile.Read(text, runs+1)
}
