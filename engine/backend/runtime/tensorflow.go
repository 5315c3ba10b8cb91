package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/backend"
	"nereid/engine/backend/runtime/savedmodel"
	"nereid/engine/backend/runtime/tfapi"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/system/glob"
)

func tensorFlow() framework {
	return framework{
		name: modelconfig.BackendTensorFlow, title: "TensorFlow", pkg: "tensorflow",
		env: []string{"TF_CPP_MIN_LOG_LEVEL=2"},
		places: []string{"libtensorflow_cc.so*", "libtensorflow.so*", "lib/libtensorflow.so*",
			"lib/libtensorflow_cc.so*", "tensorflow/libtensorflow_cc.so*"},
		names:     []string{"libtensorflow_cc.so.2", "libtensorflow.so.2"},
		signature: tensorFlowSignature, load: loadTensorFlow,
		read: func(_ context.Context, s backend.Spec, _ *processOptions) (*modelconfig.Signature, error) {
			return tensorFlowSignature(s, s.Log)
		},
	}
}

const (
	savedModelPlatform = "tensorflow_savedmodel"
	graphDefPlatform   = "tensorflow_graphdef"
)

// tensorFlowSignature reads a SavedModel's signature. A frozen graph has none, so its configuration must list outputs.
func tensorFlowSignature(s backend.Spec, log *slog.Logger) (*modelconfig.Signature, error) {
	path, err := modelPath(s)
	if err != nil {
		return nil, err
	}
	saved, err := isSavedModel(s, path)
	switch {
	case err != nil:
		return nil, err
	case !saved && len(s.Config.GetOutput()) == 0:
		return nil, status.Errorf(status.InvalidArg,
			"unable to complete the configuration of model '%s': a graph does not say which of its tensors are inputs "+
				"and outputs; list them in config.pbtxt", s.ModelName)
	case !saved:
		return nil, nil
	}
	choice, err := choose(s, path)
	if err != nil {
		return nil, err
	}
	if asked := parameter(s.Config, "TF_SIGNATURE_DEF"); asked == "" && choice.Name != "serving_default" && log != nil {
		log.Warn("a SavedModel has no signature serving_default; another one is used", "model", s.ModelName,
			"signature", choice.Name)
	}
	sig := &modelconfig.Signature{Platform: savedModelPlatform, Backend: modelconfig.BackendTensorFlow}
	if sig.Inputs, err = describe(s, choice.Signature.Inputs, "input"); err == nil {
		sig.Outputs, err = describe(s, choice.Signature.Outputs, "output")
	}
	return sig, err
}

// isSavedModel distinguishes a SavedModel's folder from a graph's file, and makes sure that the platform says the same.
func isSavedModel(s backend.Spec, path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, status.Errorf(status.Internal, "cannot read the file of model '%s': %w", s.ModelName, err)
	}
	switch p := s.Config.GetPlatform(); {
	case info.IsDir() && p == graphDefPlatform:
		return false, status.Errorf(status.InvalidArg,
			"model '%s' has the platform tensorflow_graphdef, and %s is a folder; a SavedModel's platform is "+
				"tensorflow_savedmodel", s.ModelName, path)
	case !info.IsDir() && p == savedModelPlatform:
		return false, status.Errorf(status.InvalidArg,
			"model '%s' has the platform tensorflow_savedmodel, and %s is no folder; a graph's platform is "+
				"tensorflow_graphdef", s.ModelName, path)
	}
	return info.IsDir(), nil
}

func choose(s backend.Spec, path string) (savedmodel.Choice, error) {
	m, err := savedmodel.Read(path)
	if err != nil {
		code := status.InvalidArg
		if errors.Is(err, fs.ErrNotExist) {
			code = status.NotFound
		}
		return savedmodel.Choice{}, status.Errorf(code, "unable to load model '%s': %w", s.ModelName, err)
	}
	c, err := m.Choose(parameter(s.Config, "TF_GRAPH_TAG"), parameter(s.Config, "TF_SIGNATURE_DEF"))
	if err != nil {
		return c, status.Errorf(status.InvalidArg, "unable to load model '%s', %w", s.ModelName, err)
	}
	return c, nil
}

// describe returns what configurations say of a signature's tensors. Tensors of any rank are compared by what the
// configuration says of them.
func describe(s backend.Spec, list []savedmodel.Tensor, kind string) ([]modelconfig.IO, error) {
	var all []modelconfig.IO
	for _, t := range list {
		io := modelconfig.IO{Name: t.Name, DataType: tfapi.DataType(t.Type), Dims: t.Dims}
		if t.Node == "" {
			return nil, status.Errorf(status.Unsupported,
				"unable to process %s '%s' for '%s': it is no dense tensor; save the model with a signature of "+
					"dense ones", kind, t.Name, s.ModelName)
		}
		if io.DataType == 0 {
			return nil, status.Errorf(status.Unsupported,
				"unable to process %s '%s' for '%s', unsupported datatype '%s'", kind, t.Name, s.ModelName,
				tfapi.TypeName(t.Type))
		}
		if t.Unranked {
			if io.Dims = anyShape(s.Config, t.Name); io.Dims == nil {
				return nil, errAnyShape(s, kind, t.Name)
			}
		}
		all = append(all, io)
	}
	return all, nil
}

// anyShape is the shape of a model's tensor that may have any: that of the configuration; nil: it has none.
func anyShape(c *inferencepb.ModelConfig, name string) []int64 {
	for _, t := range tensors(c) {
		dims := t.GetDims()
		if t.GetReshape() != nil {
			dims = t.GetReshape().GetShape()
		}
		if t.GetName() != name || len(dims) == 0 {
			continue
		}
		if c.GetMaxBatchSize() > 0 {
			return append([]int64{-1}, dims...)
		}
		return dims
	}
	return nil
}

// errAnyShape is the error for a tensor of any rank that the configuration does not describe.
func errAnyShape(s backend.Spec, kind, name string) error {
	return status.Errorf(status.InvalidArg,
		"unable to complete the configuration of model '%s': %s '%s' of the model may have any shape; list its "+
			"dims in config.pbtxt", s.ModelName, kind, name)
}

type configTensor interface {
	GetName() string
	GetDims() []int64
	GetReshape() *inferencepb.ModelTensorReshape
}

func tensors(c *inferencepb.ModelConfig) (all []configTensor) {
	for _, t := range c.GetInput() {
		all = append(all, t)
	}
	for _, t := range c.GetOutput() {
		all = append(all, t)
	}
	return all
}

// tfModel is a model version in a process.
type tfModel struct {
	spec    backend.Spec
	session *tfapi.Session
	// Of a SavedModel, by the names of the signature, which an input and an output may share; nil: it is a graph.
	inputs, outputs map[string]savedmodel.Tensor
}

// loadTensorFlow opens the library and loads the model.
func loadTensorFlow(_ context.Context, s backend.Spec, o *processOptions) (backend.Model, error) {
	config, err := sessionConfig(s.Config, o.Settings)
	if err != nil {
		return nil, err
	}
	version := ""
	err = o.open(func(path string) (err error) {
		version, err = tfapi.Open(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Log.Debug("opened TensorFlow", "version", version)
	if err := operators(o.Settings["op-library-directory"]); err != nil {
		return nil, err
	}
	path, err := modelPath(s)
	if err != nil {
		return nil, err
	}
	saved, err := isSavedModel(s, path)
	if err != nil {
		return nil, err
	}
	m := &tfModel{spec: s}
	if saved {
		err = m.loadSaved(path, config)
	} else {
		err = m.loadGraph(path, config)
	}
	if err == nil {
		err = m.initialize()
	}
	if err != nil {
		_ = m.Close() // err is why
		return nil, err
	}
	return m, nil
}

// operators loads the libraries of operators in a folder.
func operators(folder string) error {
	if folder == "" {
		return nil
	}
	found := glob.In(folder, "*.so")
	var err error
	if len(found) == 0 {
		err = errors.New("there is no *.so")
	}
	for _, path := range found {
		if err == nil {
			err = tfapi.LoadLibrary(path)
		}
	}
	if err != nil {
		return status.Errorf(status.InvalidArg, "--backend-config=tensorflow,op-library-directory=%s: %w", folder, err)
	}
	return nil
}

func (m *tfModel) loadSaved(path string, config []byte) error {
	choice, err := choose(m.spec, path)
	if err != nil {
		return err
	}
	m.inputs, m.outputs = byName(choice.Signature.Inputs), byName(choice.Signature.Outputs)
	if m.session, err = tfapi.LoadSavedModel(path, choice.Tags, config); err != nil {
		return m.failed(err, path)
	}
	return nil
}

func byName(list []savedmodel.Tensor) map[string]savedmodel.Tensor {
	all := map[string]savedmodel.Tensor{}
	for _, t := range list {
		all[t.Name] = t
	}
	return all
}

func (m *tfModel) loadGraph(path string, config []byte) error {
	def, err := os.ReadFile(path)
	if err != nil {
		return status.Errorf(status.Internal, "cannot read the file of model '%s': %w", m.spec.ModelName, err)
	}
	if len(def) == 0 {
		return status.Errorf(status.InvalidArg, "model %s has an empty network: %s", m.spec.ModelName, path)
	}
	if m.session, err = tfapi.LoadGraph(def, config); err != nil {
		return m.failed(err, path)
	}
	return nil
}

// failed adds what could not be loaded to an error of TensorFlow.
func (m *tfModel) failed(err error, path string) error {
	code := status.Internal
	var own *tfapi.Error
	if errors.As(err, &own) {
		code = own.Status()
	}
	return status.Errorf(code, "unable to load model '%s' from %s: %w", m.spec.ModelName, path, err)
}

// initialize runs what the file that TF_INIT_OPS_FILE names lists: of the version's folder, or the model's.
func (m *tfModel) initialize() error {
	name := parameter(m.spec.Config, "TF_INIT_OPS_FILE")
	if name == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(m.spec.VersionFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(m.spec.ModelFolder, name))
	}
	if err != nil {
		return status.Errorf(status.NotFound, "TF_INIT_OPS_FILE of model '%s': %w", m.spec.ModelName, err)
	}
	var file struct {
		Ops []string `json:"init_ops"`
	}
	if err := json.Unmarshal(text, &file); err != nil || file.Ops == nil {
		return status.Errorf(status.InvalidArg,
			"TF_INIT_OPS_FILE %s of model '%s' is not {\"init_ops\": [names of operations]}", name, m.spec.ModelName)
	}
	for _, op := range file.Ops {
		if err := m.session.RunOperation(op); err != nil {
			return m.failed(err, name)
		}
	}
	return nil
}

func (m *tfModel) Traits() backend.Traits { return backend.Traits{} }

// NewInstance makes the instance of the process.
func (m *tfModel) NewInstance(_ context.Context, p backend.Placement) (backend.Instance, error) {
	if p.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && !m.session.HasGPU() {
		return nil, status.Errorf(status.Unsupported,
			"instance %s is for GPU %d, which this TensorFlow does not see: name the library of a TensorFlow for "+
				"GPUs by --backend-config=tensorflow,library=<path>, or use KIND_CPU", p.Name, p.Device)
	}
	in, out := ports(m.spec.Config)
	inNodes, err := m.look(in, m.inputs, "input")
	if err != nil {
		return nil, err
	}
	outNodes, err := m.look(out, m.outputs, "output")
	if err != nil {
		return nil, err
	}
	r, err := m.session.NewRunner(inNodes, outNodes)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "model '%s': %w", m.spec.ModelName, err)
	}
	x := newInstance(m.spec, r)
	for i := range x.in {
		t, ok := m.inputs[x.in[i].name]
		x.in[i].scalar = ok && !t.Unranked && len(t.Dims) == 0
	}
	return x, nil
}

// look finds the nodes of a graph for the configuration's tensors, and compares their types.
func (m *tfModel) look(list []port, of map[string]savedmodel.Tensor, kind string) ([]string, error) {
	nodes := make([]string, len(list))
	for i := range list {
		p := &list[i]
		nodes[i] = p.name
		if of != nil {
			t, ok := of[p.name]
			if !ok {
				return nil, status.Errorf(status.InvalidArg,
					"unexpected inference %s '%s' for model '%s': its signature has no such", kind, p.name,
					m.spec.ModelName)
			}
			nodes[i] = t.Node
		}
		typ, err := m.session.Type(nodes[i])
		if err != nil {
			return nil, status.Errorf(status.InvalidArg, "unexpected inference %s '%s' for model '%s': %w", kind,
				p.name, m.spec.ModelName, err)
		}
		if dt := tfapi.DataType(typ); p.dt != 0 && dt != p.dt {
			return nil, status.Errorf(status.InvalidArg,
				"unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s",
				m.spec.ModelName, p.dt.ConfigName(), kind, p.name, dt.ConfigName())
		}
	}
	return nodes, nil
}

// Close frees the session.
func (m *tfModel) Close() error {
	if m.session != nil {
		m.session.Close()
		m.session = nil
	}
	return nil
}

// sessionConfig makes the ConfigProto that the parameters of a model and the backend's settings ask for. Field numbers:
// config.proto of TensorFlow.
func sessionConfig(c *inferencepb.ModelConfig, settings map[string]string) ([]byte, error) {
	var b []byte
	number := func(name string, field protowire.Number) error {
		n, err := count(c, name)
		if err == nil && n > 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
		}
		return err
	}
	yes := func(on bool, field protowire.Number) {
		if on {
			b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), 1)
		}
	}
	if err := errors.Join(number("TF_NUM_INTRA_THREADS", 2), number("TF_NUM_INTER_THREADS", 5)); err != nil {
		return nil, err
	}
	// Each instance is a process, so sessions cannot be shared.
	if _, err := count(c, "MAX_SESSION_SHARE_COUNT"); err != nil {
		return nil, err
	}
	own, err := flag(c, "TF_USE_PER_SESSION_THREADS")
	if err != nil {
		return nil, err
	}
	yes(own, 9)
	yes(!strings.EqualFold(settings["allow-soft-placement"], "false"), 7)
	var gpu []byte
	if f, err := strconv.ParseFloat(settings["gpu-memory-fraction"], 64); err == nil && f > 0 {
		gpu = protowire.AppendFixed64(protowire.AppendTag(gpu, 1, protowire.Fixed64Type), math.Float64bits(f))
	} else {
		gpu = protowire.AppendVarint(protowire.AppendTag(gpu, 4, protowire.VarintType), 1) // allow_growth
	}
	return protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), gpu), nil
}

// checkTensorFlow checks a setting of --backend-config=tensorflow.
func checkTensorFlow(key, value string) error {
	switch key {
	case "allow-soft-placement":
		if v := strings.ToLower(value); v != "true" && v != "false" {
			return fmt.Errorf("%q is neither true nor false", value)
		}
	case "gpu-memory-fraction":
		if f, err := strconv.ParseFloat(value, 64); err != nil || f < 0 || f > 1 {
			return fmt.Errorf("%q is not a number from 0 to 1", value)
		}
	case "version":
		if value != "2" {
			return fmt.Errorf("%q is not 2: TensorFlow 1 is not run; its SavedModels and graphs are, by TensorFlow 2",
				value)
		}
	}
	return nil
}
