package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"nereid/app/command"
	"nereid/engine/client"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

const inferAbout = `Sends one inference request and prints the outputs.

An input is NAME=VALUE. A value is a number, numbers with commas, a JSON array, or a text for an input of type BYTES.
@FILE takes it from a file, by the end of its name: .npy; .png, .jpg, .gif (an image, scaled to the input's size);
.json; .txt and .csv (numbers, or one text); any other file is taken byte for byte. @- is the standard input, as .txt.

The responses of a decoupled model are printed as they come. Only Nereid sends them over HTTP; Triton needs gRPC. They
cannot have outputs of type FP16 or BF16.`

// inferOptions are the options of nereid infer.
type inferOptions struct {
	version         string
	inputs, outputs []string
	shapes          []string
	id              string
	classes         int
	image           imageOptions
}

func (o *inferOptions) options() []command.Option {
	return []command.Option{
		command.Opt("-i, --input", "NAME=VALUE", "an input; may be given several times", &o.inputs),
		command.Opt("-o, --output", "NAME[=@FILE]", "only this output; with a file it is written there: .npy, "+
			".json, else its bytes. May be given several times", &o.outputs),
		command.Opt("-x, --model-version", "VERSION", "default: the server chooses", &o.version),
		command.Opt("--shape", "NAME:1,3,224", "the shape of an input; default: from the value and the model",
			&o.shapes),
		command.Opt("--id", "TEXT", "the ID of the request", &o.id),
		command.Opt("--classes", "N", "the N highest values of each output with their labels", &o.classes),
		command.Opt("--layout", "NCHW|NHWC", "the order of an image's dimensions; default: from the shape",
			command.OneOf(&o.image.layout, "NCHW", "NHWC")),
		command.Opt("--scale", "KIND", "none: 0 to 255; unit: 0 to 1; signed: -1 to 1; imagenet: its mean and "+
			"deviation. Default for floats: imagenet if the input is in colour and at least 160 high, else unit",
			command.OneOf(&o.image.scale, "none", "unit", "signed", "imagenet")),
		command.Opt("--bgr", "", "blue first, as in OpenCV", &o.image.bgr),
	}
}

// Infer runs "nereid infer".
func Infer(ctx context.Context, e *command.Env, args []string) int {
	var o inferOptions
	return runVerb(ctx, e, verb{
		name: "infer", args: "MODEL", least: 1, most: 1, about: inferAbout, options: o.options(),
		run: func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args[0]) },
	}, args)
}

func (o *inferOptions) run(ctx context.Context, s *session, model string) error {
	meta, err := s.client.ModelMetadata(ctx, model, o.version)
	if err != nil {
		return err
	}
	r := &client.Request{Model: model, Version: o.version, ID: o.id}
	if r.Inputs, err = o.tensors(s, meta); err != nil {
		return err
	}
	files, err := o.wanted(r, meta)
	if err != nil {
		return err
	}
	c, err := o.inferClient(ctx, s)
	if err != nil {
		return err
	}
	resp, err := s.inferOnce(ctx, c, r)
	if resp == nil && err == nil {
		return s.printStream(ctx, c, r, files)
	}
	if err != nil {
		return err
	}
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		if path := files[t.Name]; path != "" {
			if err := writeOutput(path, t); err != nil {
				return fmt.Errorf("output %q: %w", t.Name, err)
			}
		}
	}
	return s.printResponse(resp, files)
}

// inferOnce returns the response of a model that is not decoupled, and nil for one that is. A server may refuse to tell
// configurations; then only its refusal of the request says so.
func (s *session) inferOnce(ctx context.Context, c *client.HTTP, r *client.Request) (*client.Response, error) {
	cfg, untold := s.client.ModelConfig(ctx, r.Model, r.Version)
	if untold == nil && cfg.GetModelTransactionPolicy().GetDecoupled() {
		return nil, nil
	}
	resp, err := c.Infer(ctx, r)
	if e, ok := errors.AsType[*client.Error](err); ok && untold != nil &&
		strings.Contains(e.Message, "decoupled transaction policy") {
		return nil, nil
	}
	return resp, err
}

// printStream sends a request to a decoupled model and prints each response when it comes. The error of one response is
// returned after the last one.
func (s *session) printStream(ctx context.Context, c *client.HTTP, r *client.Request, files map[string]string) error {
	for name, path := range files {
		if path != "" {
			return fmt.Errorf("-o %s=@%s: model '%s' is decoupled, so there may be any number of responses; "+
				"leave out the file", name, path, r.Model)
		}
	}
	var failed error
	err := c.InferStream(ctx, r, func(resp *client.Response) error {
		if resp.Err != nil {
			failed = errors.Join(failed, resp.Err)
			return nil
		}
		return s.printResponse(resp, files)
	})
	return errors.Join(failed, err)
}

// inferClient returns the client of the session, or one that sends JSON if the server takes no binary tensors.
func (o *inferOptions) inferClient(ctx context.Context, s *session) (*client.HTTP, error) {
	meta, err := s.client.ServerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(meta.GetExtensions(), "binary_tensor_data") {
		return s.client, nil
	}
	return client.NewHTTP(s.url, client.HTTPOptions{Client: s.plain, Token: s.token, JSONInputs: true,
		JSONOutputs: true})
}

// tensors makes the inputs from -i.
func (o *inferOptions) tensors(s *session, meta *inferencepb.ModelMetadataResponse) ([]client.Tensor, error) {
	if len(o.inputs) == 0 && len(meta.GetInputs()) > 0 {
		return nil, errors.New("give the inputs with -i NAME=VALUE; the model has " + signature(meta.GetInputs()))
	}
	shapes := map[string][]int64{}
	for _, text := range o.shapes {
		name, dims, _ := strings.Cut(text, ":")
		shape, err := parseShape(dims)
		if err != nil {
			return nil, fmt.Errorf("--shape %s: %w", text, err)
		}
		shapes[name] = shape
	}
	var all []client.Tensor
	for _, text := range o.inputs {
		name, value, ok := strings.Cut(text, "=")
		i := slices.IndexFunc(meta.GetInputs(),
			func(in *inferencepb.ModelMetadataResponse_TensorMetadata) bool { return in.GetName() == name })
		if !ok {
			return nil, fmt.Errorf("-i %s: want NAME=VALUE; the model has %s", text, signature(meta.GetInputs()))
		}
		if i < 0 {
			return nil, fmt.Errorf("-i %s: the model has no input %q, but %s", text, name, signature(meta.GetInputs()))
		}
		in := meta.GetInputs()[i]
		v := input{name: name, dt: tensor.ParseDataType(in.GetDatatype()), model: in.GetShape(), shape: shapes[name],
			image: o.image}
		if v.dt == tensor.Invalid {
			return nil, fmt.Errorf("input %q has the type %q, which is unknown", name, in.GetDatatype())
		}
		t, err := v.read(value, s.Stdin)
		if err != nil {
			return nil, fmt.Errorf("input %q (%s): %w", name, signature(meta.GetInputs()[i:i+1]), err)
		}
		all = append(all, t)
		delete(shapes, name)
	}
	for name := range shapes {
		return nil, fmt.Errorf("--shape %s: there is no -i of this name", name)
	}
	return all, nil
}

// signature is a list of tensors for an error.
func signature(list []*inferencepb.ModelMetadataResponse_TensorMetadata) string {
	var all []string
	for _, t := range list {
		all = append(all, printable(t.GetName())+" "+t.GetDatatype()+" "+tensor.FormatShape(t.GetShape()))
	}
	return strings.Join(all, ", ")
}

func parseShape(text string) ([]int64, error) {
	shape := []int64{}
	if text == "" {
		return shape, nil
	}
	for d := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(d), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no dimension", d)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// wanted requests the outputs of -o, and returns the files to write.
func (o *inferOptions) wanted(r *client.Request, meta *inferencepb.ModelMetadataResponse) (map[string]string, error) {
	files := map[string]string{}
	for _, text := range o.outputs {
		name, path, ok := strings.Cut(text, "=")
		if ok && (len(path) < 2 || path[0] != '@') {
			return nil, fmt.Errorf("-o %s: want NAME, or NAME=@FILE", text)
		}
		files[name] = strings.TrimPrefix(path, "@")
		r.Outputs = append(r.Outputs, client.Output{Name: name, Classes: o.classes})
	}
	if len(o.outputs) == 0 && o.classes > 0 {
		for _, t := range meta.GetOutputs() {
			r.Outputs = append(r.Outputs, client.Output{Name: t.GetName(), Classes: o.classes})
		}
	}
	return files, nil
}

// outputJSON is an output in the JSON of infer. Data is flat; File says where it is instead.
type outputJSON struct {
	Name     string  `json:"name"`
	DataType string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	Data     []any   `json:"data,omitzero"`
	File     string  `json:"file,omitempty"`
}

type responseJSON struct {
	Model   string       `json:"model_name"`
	Version string       `json:"model_version,omitempty"`
	ID      string       `json:"id,omitempty"`
	Outputs []outputJSON `json:"outputs"`
}

func (s *session) printResponse(r *client.Response, files map[string]string) error {
	out := responseJSON{Model: r.Model, Version: r.Version, ID: r.ID, Outputs: []outputJSON{}}
	rows := [][]string{{"OUTPUT", "TYPE", "SHAPE", "VALUES"}}
	for i := range r.Outputs {
		t := &r.Outputs[i]
		o := outputJSON{Name: t.Name, DataType: t.DataType.String(), Shape: t.Shape, File: files[t.Name]}
		text := "in " + o.File
		if o.File == "" {
			values, err := elements(t, s.asJSON)
			if err != nil {
				return err
			}
			o.Data, text = values, brief(values)
		}
		out.Outputs = append(out.Outputs, o)
		rows = append(rows, []string{printable(o.Name), o.DataType, tensor.FormatShape(o.Shape), text})
	}
	return s.print(out, rows)
}

// writeOutput writes an output to a file, in the form that the file's name asks for.
func writeOutput(path string, t *client.Tensor) error {
	var data []byte
	var err error
	switch {
	case strings.HasSuffix(path, ".npy"):
		data, err = encodeNPY(t)
	case strings.HasSuffix(path, ".json"):
		var values []any
		if values, err = elements(t, true); err == nil {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			err = enc.Encode(outputJSON{Name: t.Name, DataType: t.DataType.String(), Shape: t.Shape, Data: values})
			data = b.Bytes()
		}
	case t.DataType == tensor.Bytes:
		var values []string
		values, err = client.StringValues(t)
		data = []byte(strings.Join(values, "\n"))
	default:
		data = t.Data
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644) //nolint:gosec // as the user's umask says
}
