package perf

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// Step is the tensors of one request for one row, without the batch dimension.
type Step struct {
	Inputs []client.Tensor
	Want   []client.Tensor // the expected outputs; other outputs may be anything
	At     float64         // of a fixed schedule: milliseconds after its begin
	Timed  bool            // At was given
}

// Data is what is sent: streams of steps. A sequence sends one stream; other requests take all steps in turn.
type Data struct {
	Streams [][]Step
	Given   bool // by the user: a sequence then has the length of its stream unless SequenceOptions.Given
}

// Hash returns a text that is the same for the same data, also in another process.
func (d *Data) Hash() string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(d.Streams) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// Schedule returns the times of all steps after the begin. It fails if a step has none, or one below that of the step
// before.
func (d *Data) Schedule() ([]time.Duration, error) {
	var schedule []time.Duration
	last := time.Duration(-1)
	for i, steps := range d.Streams {
		for k, s := range steps {
			if !s.Timed {
				return nil, fmt.Errorf(`stream %d, step %d: has no "timestamp"; each entry must have one`, i, k)
			}
			at := time.Duration(s.At * float64(time.Millisecond))
			if at < last {
				return nil, fmt.Errorf("stream %d, step %d: the timestamp %v ms comes after %v; put the entries in "+
					"order", i, k, s.At, last)
			}
			last = at
			schedule = append(schedule, at)
		}
	}
	return schedule, nil
}

// InputOptions say how tensors are generated.
type InputOptions struct {
	Zero         bool               // zeros and empty strings in place of random values
	Shapes       map[string][]int64 // of inputs with variable dimensions, by name
	String       string             // the value of every string; "": random ones
	StringLength int                // of random strings; default 128
}

// FillFree sets the variable dimensions of inputs without a given shape to 1.
func (o *InputOptions) FillFree(m *Model) {
	shapes := map[string][]int64{}
	for _, in := range m.Inputs {
		if slices.Contains(in.Shape, -1) {
			shape := slices.Clone(in.Shape)
			for i := range shape {
				shape[i] = max(1, shape[i])
			}
			shapes[in.Name] = shape
		}
	}
	maps.Copy(shapes, o.Shapes)
	o.Shapes = shapes
}

// shapeOf is the shape of one row: the given one, or the model's.
func (o *InputOptions) shapeOf(in IO) ([]int64, error) {
	shape, ok := o.Shapes[in.Name]
	if !ok {
		shape = in.Shape
	}
	if slices.ContainsFunc(shape, func(d int64) bool { return d < 0 }) {
		return nil, fmt.Errorf("input %q has the shape %v, whose size is free; give one with --shape %s:d,d,…", in.Name,
			in.Shape, in.Name)
	}
	return shape, fits(in, shape)
}

// fits returns an error if a shape does not match the model's.
func fits(in IO, shape []int64) error {
	ok := len(shape) == len(in.Shape)
	for i := 0; ok && i < len(shape); i++ {
		ok = shape[i] >= 0 && (in.Shape[i] < 0 || shape[i] == in.Shape[i])
	}
	if !ok {
		return fmt.Errorf("%q: the shape %v does not fit the model's %v", in.Name, shape, in.Shape)
	}
	return nil
}

// CheckShapes refuses shapes for inputs that the model does not have.
func (o *InputOptions) CheckShapes(m *Model) error {
	for name := range o.Shapes {
		if !m.HasInput(name) {
			return fmt.Errorf("--shape: model %q has no input %q", m.Name, name)
		}
	}
	return nil
}

// maxRow bounds the bytes of one generated tensor of one row.
const maxRow = 1 << 31

// Generate makes one step of zeros or random values, which every request sends. It leaves out optional inputs.
func Generate(m *Model, o InputOptions) (*Data, error) {
	if err := o.CheckShapes(m); err != nil {
		return nil, err
	}
	var step Step
	for _, in := range m.Inputs {
		if in.Optional {
			continue
		}
		shape, err := o.shapeOf(in)
		if err != nil {
			return nil, err
		}
		n, err := tensor.Elements(shape)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		t := client.Tensor{Name: in.Name, DataType: in.DataType, Shape: shape}
		if t.Data, err = o.values(in.DataType, n); err != nil {
			return nil, fmt.Errorf("input %q of shape %v: %w", in.Name, shape, err)
		}
		step.Inputs = append(step.Inputs, t)
	}
	return &Data{Streams: [][]Step{{step}}}, nil
}

// values returns n elements. Random floats lie in [0, 1), so that none is NaN. Random integers have seven bits, so that
// they are valid in every type.
func (o *InputOptions) values(dt tensor.DataType, n int64) ([]byte, error) {
	size := int64(dt.Size())
	if dt == tensor.Bytes {
		size = 4 + int64(max(len(o.String), o.stringLength()))
	}
	if size == 0 {
		return nil, fmt.Errorf("the data type %v cannot be generated", dt)
	}
	if n > maxRow/size {
		return nil, fmt.Errorf("more than %d bytes", maxRow)
	}
	if dt == tensor.Bytes {
		return o.strings(n), nil
	}
	b := make([]byte, n*size)
	if o.Zero {
		return b, nil
	}
	_, _ = rand.Read(b) // never fails
	e := int(size)
	for i := 0; i < len(b); i += e {
		tame(dt, b[i:i+e])
	}
	return b, nil
}

// tame changes the bytes of a random element into those of a valid value.
func tame(dt tensor.DataType, e []byte) {
	unit := float64(e[0]) / 256
	switch dt {
	case tensor.Bool:
		e[0] &= 1
	case tensor.FP16: // 1.m − 1 in the bits: an exponent of −1 gives [0.5, 1)
		e[1] = 0x38 | e[1]&3
	case tensor.BF16:
		e[1], e[0] = 0x3f, e[0]&0x7f
	case tensor.FP32:
		putLittle(e, uint64(math.Float32bits(float32(unit))))
	case tensor.FP64:
		putLittle(e, math.Float64bits(unit))
	default:
		putLittle(e, uint64(e[0]&0x7f))
	}
}

func putLittle(e []byte, v uint64) {
	for i := range e {
		e[i] = byte(v >> (8 * i))
	}
}

func (o *InputOptions) stringLength() int {
	if o.StringLength > 0 {
		return o.StringLength
	}
	return 128
}

// letters are what random strings are made of.
const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz01"

func (o *InputOptions) strings(n int64) []byte {
	b := []byte{}
	for range n {
		s := []byte(o.String)
		if o.String == "" && !o.Zero {
			s = make([]byte, o.stringLength())
			_, _ = rand.Read(s) // never fails
			for i := range s {
				s[i] = letters[s[i]&63]
			}
		}
		b = tensor.AppendBytesElement(b, s)
	}
	return b
}

// ReadFolder makes one step of the files of a folder. A file has the name of an input and its bytes in row-major order,
// or one string per line. A file with the name of an output is the expected output; its length decides variable
// dimensions.
func ReadFolder(dir string, m *Model, o InputOptions) (*Data, error) {
	if err := o.CheckShapes(m); err != nil {
		return nil, err
	}
	var step Step
	for _, in := range m.Inputs {
		t, err := readTensor(dir, in)
		if err == nil {
			if t.Shape, err = o.shapeOf(in); err == nil {
				err = whole(&t)
			}
		}
		switch {
		case err == nil:
			step.Inputs = append(step.Inputs, t)
		case in.Optional && errors.Is(err, fs.ErrNotExist):
		default:
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
	}
	for _, out := range m.Outputs {
		t, err := readTensor(dir, out)
		if err == nil {
			t.Shape = out.shapeFor(&t)
			err = whole(&t)
		}
		switch {
		case err == nil:
			step.Want = append(step.Want, t)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("output %q: %w", out.Name, err)
		}
	}
	return &Data{Streams: [][]Step{{step}}, Given: true}, nil
}

// readTensor reads the file of a tensor. The caller sets the shape.
func readTensor(dir string, io IO) (client.Tensor, error) {
	t := client.Tensor{Name: io.Name, DataType: io.DataType}
	b, err := os.ReadFile(filepath.Join(dir, io.Name))
	if err != nil {
		return t, err
	}
	t.Data = b
	if io.DataType == tensor.Bytes {
		t.Data = []byte{}
		for line := range strings.Lines(string(bytes.TrimSuffix(b, []byte("\n")))) {
			t.Data = tensor.AppendBytesElement(t.Data, strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		}
	}
	return t, nil
}

// shapeFor is the model's shape with the first variable dimension as large as the tensor's bytes need, and 1 for the
// others.
func (io IO) shapeFor(t *client.Tensor) []int64 {
	shape := slices.Clone(io.Shape)
	free := slices.Index(shape, -1)
	if free < 0 {
		return shape
	}
	rest := int64(max(1, t.DataType.Size())) // bytes, or strings, for 1 there
	for i := range shape {
		if shape[i] < 0 {
			shape[i] = 1
		}
		rest *= shape[i]
	}
	have := int64(len(t.Data))
	if t.DataType == tensor.Bytes {
		have = 0
		for range tensor.BytesElements(t.Data) {
			have++
		}
	}
	shape[free] = have / max(1, rest)
	return shape
}

// whole returns an error unless a tensor has the bytes that its shape needs.
func whole(t *client.Tensor) error {
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return err
	}
	if t.DataType == tensor.Bytes {
		if err := tensor.CheckBytes(t.Data, n); err != nil {
			return fmt.Errorf("%d strings are needed for the shape %v: %w", n, t.Shape, err)
		}
		return nil
	}
	if want, err := tensor.ByteSize(t.DataType, t.Shape); err != nil || int64(len(t.Data)) != want {
		return fmt.Errorf("%d bytes, but the shape %v of %v needs %d", len(t.Data), t.Shape, t.DataType, want)
	}
	return nil
}

// Generated reports whether ReadInputs generates the tensors for these paths.
func Generated(paths []string) bool {
	return len(paths) == 0 || len(paths) == 1 && (paths[0] == "random" || paths[0] == "zero")
}

// ReadInputs returns what the values of --input-data name: "random" or no value at all for random tensors, "zero" for
// zeros, and otherwise folders and JSON files, whose data is joined.
func ReadInputs(paths []string, m *Model, o InputOptions) (*Data, error) {
	if Generated(paths) {
		o.Zero = len(paths) == 1 && paths[0] == "zero"
		return Generate(m, o)
	}
	var all *Data
	for _, path := range paths {
		data, err := readPath(path, m, o)
		if err != nil {
			return nil, fmt.Errorf("--input-data %s: %w", path, err)
		}
		if all == nil {
			all = data
		} else {
			all.Append(data)
		}
	}
	return all, nil
}

func readPath(path string, m *Model, o InputOptions) (*Data, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return ReadFolder(path, m, o)
	}
	return ParseData(b, m, o)
}

// readFile returns the bytes of a file; nil for a folder.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("want zero, random, a folder or a file of JSON: %w", err)
	}
	if info.IsDir() {
		return nil, nil
	}
	return os.ReadFile(path)
}

// CheckInputs returns what ReadInputs finds wrong with paths for any model.
func CheckInputs(paths []string) error {
	if Generated(paths) {
		return nil
	}
	for _, path := range paths {
		b, err := readFile(path)
		if err == nil && b != nil {
			_, err = parseDocument(b)
		}
		if err != nil {
			return fmt.Errorf("--input-data %s: %w", path, err)
		}
	}
	return nil
}
