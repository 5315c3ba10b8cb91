package model

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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

// GoldenFolder is the name of the folder with golden requests: requests and the responses that a version must send
// before it goes into service. The one in the model's folder is for all versions, one in a version's folder for that
// version. Each *.json file contains one JSON object in the format of perf_analyzer's input data:
//
//	{"data":            [{"INPUT0": {"content": [1, 2], "shape": [1, 2]}}],
//	 "validation_data": [{"OUTPUT0": {"content": [1, 2], "shape": [1, 2]}}],
//	 "tolerance": 0.0001}
//
// The n-th element of validation_data is the response to the n-th of data; outputs that it does not contain are not
// compared. A tensor may also be only its content, or {"b64": "<bytes>"}. The default shape is that of the
// configuration, with one row. A batch dimension is added to a shape without one. tolerance (default 0.0001) is the
// allowed error of floating point numbers: absolute for numbers below 1, else relative.
const GoldenFolder = "golden"

const (
	goldenTolerance = 1e-4
	maxGolden       = 10_000 // requests in all files of a version
)

// golden is one request and the expected response.
type golden struct {
	where     string // the file and the index in it
	inputs    []tensor.Tensor
	want      []tensor.Tensor
	tolerance float64
}

// goldenFile is the content of a file with golden requests.
type goldenFile struct {
	Data       []map[string]json.RawMessage `json:"data"`
	Validation []map[string]json.RawMessage `json:"validation_data"`
	Tolerance  *float64                     `json:"tolerance"`
}

// readGolden reads the golden requests of a version. Errors: InvalidArg, with file and tensor.
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

// appendGolden decodes one file and appends its requests to all.
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
		var err error
		batching := cfg.GetMaxBatchSize() > 0
		if g.inputs, err = goldenTensors(f.Data[i], cfg.GetInput(), batching); err != nil {
			return nil, err
		}
		if g.want, err = goldenTensors(f.Validation[i], cfg.GetOutput(), batching); err != nil {
			return nil, err
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

// declared is an input or output of a model configuration.
type declared interface {
	GetName() string
	GetDataType() inferencepb.DataType
	GetDims() []int64
}

// goldenTensors decodes the tensors in raw that the configuration declares, and removes them from raw.
func goldenTensors[D declared](raw map[string]json.RawMessage, all []D, batching bool) (out []tensor.Tensor, _ error) {
	for _, d := range all {
		text, given := raw[d.GetName()]
		if !given {
			continue
		}
		delete(raw, d.GetName())
		t, err := goldenTensor(text, d, batching)
		if err != nil {
			return nil, status.Errorf(status.InvalidArg, "tensor '%s': %w", d.GetName(), err)
		}
		out = append(out, t)
	}
	return out, nil
}

// goldenTensor decodes {"content": […], "shape": […]}, {"b64": "…"} or […].
func goldenTensor(raw json.RawMessage, d declared, batching bool) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: d.GetName(), DataType: tensor.DataType(d.GetDataType())}
	var long struct {
		Content json.RawMessage `json:"content"`
		Shape   []int64         `json:"shape"`
		B64     *string         `json:"b64"`
	}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '[' {
		long.Content = raw
	} else if err := json.Unmarshal(raw, &long); err != nil {
		return t, err
	}
	if t.Shape = long.Shape; t.Shape == nil {
		t.Shape = slices.Clone(d.GetDims())
	}
	if batching && len(t.Shape) == len(d.GetDims()) {
		t.Shape = append([]int64{1}, t.Shape...)
	}
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return t, fmt.Errorf("%w; give it a shape", err)
	}
	if long.B64 != nil {
		t.Data, err = base64.StdEncoding.DecodeString(*long.B64)
	} else {
		t.Data, err = encodeElements(t.DataType, long.Content)
	}
	switch want := n * int64(t.DataType.Size()); {
	case err != nil:
	case t.DataType == tensor.Bytes:
		err = tensor.CheckBytes(t.Data, n)
	case int64(len(t.Data)) != want:
		err = fmt.Errorf("shape %s needs %d bytes, its content has %d", tensor.FormatShape(t.Shape), want, len(t.Data))
	}
	return t, err
}

// runGolden sends every golden request to an instance and compares the responses. Errors: Internal, with the first
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

// testEnsemble sends the golden requests to an ensemble. The models of its steps count them in their statistics.
// Errors: those of readGolden and runGolden.
func (m *Model) testEnsemble(ctx context.Context, s Spec) error {
	all, err := readGolden(s.ModelFolder, s.VersionFolder, s.Config)
	if err != nil {
		return err
	}
	m.keepGolden(s, all)
	return m.sendGolden(ctx, all, func(r *infer.Request) (func(), error) { return func() {}, m.scheduler.Enqueue(r) })
}

// sendGolden passes every golden request to execute, and calls the function that this returns, done, when it has read
// the responses.
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
	r := m.goldenRequest(g)
	defer r.Release()
	r.Served = m
	if err := m.signature.check(r); err != nil {
		return err
	}
	done, err := execute(r)
	defer done()
	if err != nil {
		return err
	}
	return g.compare(ctx, r, func(resp *infer.Response) { m.signature.reshapeOutputs(r, resp) })
}

func (m *Model) goldenRequest(g *golden) *infer.Request {
	r := infer.New()
	r.ModelName = m.name
	r.Inputs = append(r.Inputs, g.inputs...)
	return r
}

// Probe sends the first golden request as a client does, but past the response cache, and compares the response. The
// caller has called Acquire. Errors: ErrNoProbe, those of Infer and of the response, the context's, and Internal with
// the first difference.
func (m *Model) Probe(ctx context.Context) error {
	if m.probe == nil {
		m.leave()
		return ErrNoProbe
	}
	r := m.goldenRequest(m.probe)
	defer r.Release()
	r.Uncached = true
	if err := m.Infer(r); err != nil {
		return err
	}
	return m.probe.compare(ctx, r, func(*infer.Response) {})
}

// ErrNoProbe is the error of Model.Probe for a version that kept no golden request; see Spec.KeepGolden. A sequence
// model keeps none, because its requests belong together.
var ErrNoProbe = status.New(status.NotFound, "there is no golden request that can be sent to the model")

// keepGolden keeps the first of the golden requests for Probe.
func (m *Model) keepGolden(s Spec, all []golden) {
	if m.golden = len(all); s.KeepGolden && len(all) > 0 && s.Config.GetSequenceBatching() == nil {
		m.probe = &all[0]
	}
}

// compare reads the responses of a request, which see gets first, and compares their outputs with the expected ones.
func (g *golden) compare(ctx context.Context, r *infer.Request, see func(*infer.Response)) error {
	defer context.AfterFunc(ctx, r.Cancel)()
	missing := slices.Clone(g.want)
	for {
		resp, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if err = resp.Err; err == nil {
			see(resp)
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

// compareOutputs compares the outputs of a response with the expected ones that are missing so far, and returns those
// that are still missing.
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
