package terminal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// input is an input that the user gives a value for.
type input struct {
	name  string
	dt    tensor.DataType
	model []int64 // the shape in the model's metadata; -1 is any
	shape []int64 // of --shape; nil: not given
	image imageOptions
}

// read makes the tensor from a value of -i.
func (in *input) read(value string, stdin io.Reader) (client.Tensor, error) {
	path, ok := strings.CutPrefix(value, "@")
	if !ok {
		return in.literal(value)
	}
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(stdin)
		path = "-.txt"
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return client.Tensor{}, err
	}
	ext := strings.ToLower(filepath.Ext(path))
	switch ext {
	case ".npy":
		t, err := decodeNPY(data)
		if err != nil {
			return t, err
		}
		if t.DataType != in.dt {
			return t, fmt.Errorf("%s has elements of type %v; convert it with astype", path, t.DataType)
		}
		return in.shaped(t.Data, t.Shape)
	case ".json":
		return in.parse(data)
	}
	switch {
	case in.dt == tensor.Bytes:
		if ext == ".txt" || ext == ".csv" {
			data = bytes.TrimRight(data, "\r\n")
		}
		return in.shaped(tensor.AppendBytesElement(nil, string(data)), []int64{1})
	case slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif"}, ext):
		return in.picture(data)
	case ext == ".txt" || ext == ".csv":
		return in.literal(string(data))
	}
	if size := in.dt.Size(); len(data)%size != 0 {
		return client.Tensor{}, fmt.Errorf("%s has %d bytes, which are no whole elements", path, len(data))
	}
	return in.shaped(data, []int64{int64(len(data) / in.dt.Size())})
}

// literal makes the tensor from a text: JSON, numbers, or one text for BYTES.
func (in *input) literal(text string) (client.Tensor, error) {
	trimmed := strings.TrimSpace(text)
	if in.dt == tensor.Bytes {
		if strings.HasPrefix(trimmed, "[") && json.Valid([]byte(trimmed)) {
			return in.parse([]byte(trimmed))
		}
		return in.shaped(tensor.AppendBytesElement(nil, text), []int64{1})
	}
	if !strings.HasPrefix(trimmed, "[") {
		numbers := strings.FieldsFunc(trimmed, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
		trimmed = "[" + strings.Join(numbers, ",") + "]"
	}
	return in.parse([]byte(trimmed))
}

// parse makes the tensor from JSON: an array, which may nest, or one value.
func (in *input) parse(data []byte) (client.Tensor, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return client.Tensor{}, fmt.Errorf("its value is neither numbers nor JSON: %w", err)
	}
	if dec.More() {
		return client.Tensor{}, errors.New("something follows the JSON value")
	}
	if _, ok := v.([]any); !ok {
		v = []any{v}
	}
	var shape []int64
	for e := v; ; {
		list, ok := e.([]any)
		if !ok {
			break
		}
		shape = append(shape, int64(len(list)))
		if len(list) == 0 {
			break
		}
		e = list[0]
	}
	b, err := in.flatten(nil, v, shape)
	if err != nil {
		return client.Tensor{}, err
	}
	return in.shaped(b, shape)
}

// flatten appends the elements of v, which must have the shape.
func (in *input) flatten(b []byte, v any, shape []int64) ([]byte, error) {
	list, ok := v.([]any)
	switch {
	case ok != (len(shape) > 0) || ok && int64(len(list)) != shape[0]:
		return b, errors.New("the lists of its value are not all of one length")
	case !ok:
		return in.element(b, v)
	}
	var err error
	for _, e := range list {
		if b, err = in.flatten(b, e, shape[1:]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// element appends one value of JSON.
func (in *input) element(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		if in.dt == tensor.Bytes {
			return tensor.AppendBytesElement(b, v), nil
		}
	case bool:
		if in.dt == tensor.Bool {
			return append(b, map[bool]byte{true: 1}[v]), nil
		}
	case json.Number:
		switch in.dt {
		case tensor.Bool:
			if v == "0" || v == "1" {
				return append(b, v[0]-'0'), nil
			}
		case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
			if f, err := v.Float64(); err == nil {
				return appendFloat(b, in.dt, f), nil
			}
		default:
			if b, ok := tensor.AppendInteger(b, in.dt, v.String()); ok {
				return b, nil
			}
		}
	}
	return b, fmt.Errorf("%v is no value of type %v", v, in.dt)
}

func appendFloat(b []byte, dt tensor.DataType, f float64) []byte {
	switch dt {
	case tensor.FP16:
		return tensor.AppendBits(b, 16, uint64(tensor.ToFloat16(float32(f))))
	case tensor.BF16:
		return tensor.AppendBits(b, 16, uint64(tensor.ToBFloat16(float32(f))))
	case tensor.FP32:
		return tensor.AppendBits(b, 32, uint64(math.Float32bits(float32(f))))
	}
	return tensor.AppendBits(b, 64, math.Float64bits(f))
}

// shaped returns a tensor of elements that have a natural shape, in the shape that the model takes.
func (in *input) shaped(data []byte, natural []int64) (client.Tensor, error) {
	n, err := tensor.Elements(natural)
	if err != nil {
		return client.Tensor{}, err
	}
	shape := in.shape
	if shape == nil {
		shape = fit(natural, n, in.model)
	}
	if shape == nil {
		return client.Tensor{}, fmt.Errorf("a value of shape %s does not fit; give another one, or --shape",
			tensor.FormatShape(natural))
	}
	if want, err := tensor.Elements(shape); err != nil || want != n {
		return client.Tensor{}, fmt.Errorf("its value has %d elements, which do not fit the shape %s", n,
			tensor.FormatShape(shape))
	}
	return client.Tensor{Name: in.name, DataType: in.dt, Shape: shape, Data: data}, nil
}

// fit returns the shape to send n elements in: natural, if it fits the model after 1s in front are added. Else the
// elements fill the model's shape, and its first variable dimension takes what remains. nil: they do not fit.
func fit(natural []int64, n int64, model []int64) []int64 {
	if missing := len(model) - len(natural); missing >= 0 {
		full := append(slices.Repeat([]int64{1}, missing), natural...)
		if fits := !slices.ContainsFunc(indexes(model),
			func(i int) bool { return model[i] >= 0 && model[i] != full[i] }); fits {
			return full
		}
	}
	fixed, variable, shape := int64(1), -1, slices.Clone(model)
	for i, d := range model {
		if d >= 0 {
			fixed *= d
			continue
		}
		shape[i] = 1
		if variable < 0 {
			variable = i
		}
	}
	switch {
	case fixed == n:
		return shape
	case variable >= 0 && fixed > 0 && n%fixed == 0:
		shape[variable] = n / fixed
		return shape
	}
	return nil
}

func indexes(list []int64) []int {
	all := make([]int, len(list))
	for i := range all {
		all[i] = i
	}
	return all
}

// elements returns the values of a tensor as package json encodes them. Numbers that JSON lacks are texts, such as
// "NaN". With text set, BYTES elements must be text.
func elements(t *client.Tensor, text bool) ([]any, error) {
	out := []any{}
	if t.DataType == tensor.Bytes {
		values, err := client.StringValues(t)
		for _, v := range values {
			if !utf8.ValidString(v) {
				if text {
					return nil, fmt.Errorf("output %q is no text; write it to a file: -o %s=@FILE", t.Name, t.Name)
				}
				v = fmt.Sprintf("(%d bytes)", len(v))
			}
			out = append(out, v)
		}
		return out, err
	}
	size := t.DataType.Size()
	if n, err := tensor.ByteSize(t.DataType, t.Shape); err != nil || n != int64(len(t.Data)) {
		return nil, fmt.Errorf("output %q has %d bytes, which its shape %s does not need", t.Name, len(t.Data),
			tensor.FormatShape(t.Shape))
	}
	for b := t.Data; len(b) > 0; b = b[size:] {
		out = append(out, element(t.DataType, b))
	}
	return out, nil
}

// element returns the first element of b.
func element(dt tensor.DataType, b []byte) any {
	var wide [8]byte
	copy(wide[:], b[:dt.Size()])
	n := binary.LittleEndian.Uint64(wide[:])
	shift := 64 - 8*dt.Size()
	switch dt {
	case tensor.Bool:
		return n != 0
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		return int64(n<<shift) >> shift
	case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
		f := tensor.Float(dt, b)
		switch {
		case math.IsNaN(f) || math.IsInf(f, 0):
			return strconv.FormatFloat(f, 'g', -1, 64)
		case dt != tensor.FP64:
			return float32(f)
		}
		return f
	}
	return n
}

// brief is a list of values for a table: the first few, and how many follow.
func brief(values []any) string {
	const most = 10
	var b strings.Builder
	for i, v := range values {
		if i == most {
			fmt.Fprintf(&b, " … %d more", len(values)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(printable(briefValue(v)))
	}
	return b.String()
}

// briefValue has at most six digits of a float, and the first 200 bytes of a text.
func briefValue(v any) string {
	switch v := v.(type) {
	case float32, float64:
		return fmt.Sprintf("%.6v", v)
	case string:
		if len(v) > 200 {
			return v[:200] + "…"
		}
	}
	return fmt.Sprint(v)
}
