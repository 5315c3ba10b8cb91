package model

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// GoldenFolder is the folder with golden requests, in the model's folder for every version and in a version's for that
// one: requests with the answers that a version must give before it serves. The format is that of perf_analyzer's input
// data, one JSON object a file (*.json):
//
//	{"data":            [{"INPUT0": {"content": [1, 2], "shape": [1, 2]}}],
//	 "validation_data": [{"OUTPUT0": {"content": [1, 2], "shape": [1, 2]}}],
//	 "tolerance": 0.0001}
//
// The n-th of validation_data answers the n-th of data; outputs that it does not name are not looked at. A tensor may
// be its content alone, or {"b64": "<bytes>"}. Without a shape it is the configuration's, of one row; a shape without
// the batch dimension gets it. tolerance, by default 0.0001, is how far a floating point number may be off: absolutely
// for numbers below 1, else relatively.
const GoldenFolder = "golden"

const (
	goldenTolerance = 1e-4
	maxGolden       = 10_000 // requests in all
)

// golden is one request and its answer.
type golden struct {
	where     string // the file and the number
	inputs    []tensor.Tensor
	want      []tensor.Tensor
	tolerance float64
}

// goldenFile is a file as written.
type goldenFile struct {
	Data       []map[string]json.RawMessage `json:"data"`
	Validation []map[string]json.RawMessage `json:"validation_data"`
	Tolerance  *float64                     `json:"tolerance"`
}

// readGolden reads the golden requests beside a model. Errors: InvalidArg, with file and tensor.
func readGolden(modelFolder, versionFolder string, cfg *inferencepb.ModelConfig) ([]golden, error) {
	var all []golden
	for _, folder := range []string{modelFolder, versionFolder} {
		folder = filepath.Join(folder, GoldenFolder)
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, status.Errorf(status.InvalidArg, "golden requests of model '%s': %w", cfg.GetName(), err)
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) != ".json" || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			path := filepath.Join(folder, e.Name())
			text, err := readFile(path)
			if err == nil {
				all, err = appendGolden(all, text, e.Name(), cfg)
			}
			if err != nil {
				return nil, status.Errorf(status.InvalidArg, "golden requests of model '%s': %s: %w", cfg.GetName(),
					path, err)
			}
		}
	}
	return all, nil
}

// appendGolden decodes one file.
func appendGolden(all []golden, text []byte, name string, cfg *inferencepb.ModelConfig) ([]golden, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var f goldenFile
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if len(f.Data) == 0 || len(f.Data) != len(f.Validation) {
		return nil, status.Errorf(status.InvalidArg,
			"data has %d requests and validation_data %d answers; each request needs its answer, and there must be one",
			len(f.Data), len(f.Validation))
	}
	if len(all)+len(f.Data) > maxGolden {
		return nil, status.Errorf(status.InvalidArg, "there are more than %d requests", maxGolden)
	}
	tolerance := goldenTolerance
	if f.Tolerance != nil {
		tolerance = *f.Tolerance
	}
	for i := range f.Data {
		g := golden{where: name + " request " + strconv.Itoa(i), tolerance: tolerance}
		for _, in := range cfg.GetInput() {
			raw, given := f.Data[i][in.GetName()]
			if !given {
				continue
			}
			delete(f.Data[i], in.GetName())
			t, err := goldenTensor(raw, in.GetName(), in.GetDataType(), in.GetDims(), cfg)
			if err != nil {
				return nil, err
			}
			g.inputs = append(g.inputs, t)
		}
		for _, out := range cfg.GetOutput() {
			raw, given := f.Validation[i][out.GetName()]
			if !given {
				continue
			}
			delete(f.Validation[i], out.GetName())
			t, err := goldenTensor(raw, out.GetName(), out.GetDataType(), out.GetDims(), cfg)
			if err != nil {
				return nil, err
			}
			g.want = append(g.want, t)
		}
		for name := range f.Data[i] {
			return nil, status.Errorf(status.InvalidArg, "request %d: the model has no input '%s'", i, name)
		}
		for name := range f.Validation[i] {
			return nil, status.Errorf(status.InvalidArg, "answer %d: the model has no output '%s'", i, name)
		}
		if len(g.want) == 0 {
			return nil, status.Errorf(status.InvalidArg, "answer %d names no output", i)
		}
		all = append(all, g)
	}
	return all, nil
}

// goldenTensor decodes {"content": […], "shape": […]}, {"b64": "…"} or […].
func goldenTensor(raw json.RawMessage, name string, dt inferencepb.DataType, dims []int64,
	cfg *inferencepb.ModelConfig) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: name, DataType: tensor.DataType(dt)}
	fail := func(format string, args ...any) (tensor.Tensor, error) {
		return t, status.Errorf(status.InvalidArg, "tensor '%s': "+format, append([]any{name}, args...)...)
	}
	var long struct {
		Content json.RawMessage `json:"content"`
		Shape   []int64         `json:"shape"`
		B64     *string         `json:"b64"`
	}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '[' {
		long.Content = raw
	} else if err := json.Unmarshal(raw, &long); err != nil {
		return fail("%w", err)
	}
	if t.Shape = long.Shape; t.Shape == nil {
		t.Shape = slices.Clone(dims)
	}
	if batched := cfg.GetMaxBatchSize() > 0; batched && len(t.Shape) == len(dims) {
		t.Shape = append([]int64{1}, t.Shape...)
	}
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return fail("%w; give it a shape", err)
	}
	if long.B64 != nil {
		t.Data, err = base64.StdEncoding.DecodeString(*long.B64)
	} else {
		t.Data, err = encodeElements(t.DataType, long.Content)
	}
	if err != nil {
		return fail("%w", err)
	}
	if t.DataType == tensor.Bytes {
		err = tensor.CheckBytes(t.Data, n)
	} else if want := n * int64(t.DataType.Size()); int64(len(t.Data)) != want {
		err = status.Errorf(status.InvalidArg, "shape %s needs %d bytes, its content has %d",
			tensor.FormatShape(t.Shape), want, len(t.Data))
	}
	if err != nil {
		return fail("%w", err)
	}
	return t, nil
}

// runGolden sends every golden request to an instance and compares the answers. Errors: Internal, with the first
// difference.
func runGolden(ctx context.Context, m *Model, all []golden, inst backend.Instance) error {
	return m.sendGolden(ctx, all, func(r *infer.Request) (func(), error) {
		done, err := m.executeAlone(ctx, r, inst)
		if err == nil && !r.Answered() && !m.decoupled {
			err = status.New(status.Internal, "the backend did not answer")
		}
		return done, err
	})
}

// testEnsemble sends the golden requests to an ensemble, whose steps count them like other requests. Errors: those of
// readGolden and runGolden.
func (m *Model) testEnsemble(ctx context.Context, s Spec) error {
	asked, err := readGolden(s.ModelFolder, s.VersionFolder, s.Config)
	if err != nil {
		return err
	}
	m.golden = len(asked)
	return m.sendGolden(ctx, asked, func(r *infer.Request) (func(), error) { return func() {}, m.scheduler.Enqueue(r) })
}

// sendGolden sends every golden request by execute, whose result done is called when its responses have been read.
func (m *Model) sendGolden(ctx context.Context, all []golden,
	execute func(r *infer.Request) (done func(), err error)) error {
	for i := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.sendGoldenRequest(ctx, &all[i], execute); err != nil {
			return status.Errorf(status.Internal, "the version does not answer its golden requests: %s: %w",
				all[i].where, err)
		}
	}
	return nil
}

func (m *Model) sendGoldenRequest(ctx context.Context, g *golden,
	execute func(r *infer.Request) (func(), error)) error {
	r := infer.New()
	defer r.Release()
	r.ModelName, r.Served = m.name, m
	r.Inputs = append(r.Inputs, g.inputs...)
	if err := m.signature.check(r); err != nil {
		return err
	}
	done, err := execute(r)
	defer done()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, r.Cancel)()
	missing := slices.Clone(g.want)
	for {
		resp, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if err = resp.Err; err == nil {
			m.signature.reshapeOutputs(r, resp)
			missing, err = compareOutputs(missing, resp, g.tolerance)
		}
		final := resp.Final
		resp.Release()
		if err != nil {
			return err
		}
		if final {
			break
		}
	}
	if len(missing) > 0 {
		return status.Errorf(status.Internal, "output '%s' was not given", missing[0].Name)
	}
	return nil
}

// compareOutputs compares a response with what is still missing, and returns what is missing after it.
func compareOutputs(missing []tensor.Tensor, resp *infer.Response, tolerance float64) ([]tensor.Tensor, error) {
	for i := range resp.Outputs {
		got := &resp.Outputs[i]
		at := slices.IndexFunc(missing, func(t tensor.Tensor) bool { return t.Name == got.Name })
		if at < 0 {
			continue
		}
		if err := compareTensors(got, &missing[at], tolerance); err != nil {
			return missing, err
		}
		missing = slices.Delete(missing, at, at+1)
	}
	return missing, nil
}
