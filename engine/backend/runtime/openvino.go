package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/backend/runtime/ovapi"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

func openVINO() framework {
	return framework{
		name: modelconfig.BackendOpenVINO, title: "OpenVINO", pkg: "openvino",
		places: []string{"libs/libopenvino_c.so*", "libopenvino_c.so*", "runtime/lib/*/libopenvino_c.so*",
			"lib/libopenvino_c.so*", "openvino/libs/libopenvino_c.so*"},
		names: []string{"libopenvino_c.so"},
		load:  loadOpenVINO, read: openVINOSignature,
	}
}

// ovLibrary opens the library of a process.
func ovLibrary(s backend.Spec, o *processOptions) (l *ovapi.Library, err error) {
	err = o.open(func(path string) (err error) {
		l, err = ovapi.Open(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Log.Debug("opened OpenVINO", "version", l.Version)
	if path := parameter(s.Config, "CPU_EXTENSION_PATH"); path != "" {
		if err := l.AddExtension(path); err != nil {
			return nil, status.Errorf(status.InvalidArg, "parameter CPU_EXTENSION_PATH of model '%s': %w",
				s.ModelName, err)
		}
	}
	return l, nil
}

// readOpenVINO reads a model file, and gives its inputs the shapes that the configuration asks for.
func readOpenVINO(s backend.Spec, o *processOptions) (*ovapi.Model, *ovSettings, error) {
	set, err := parseOpenVINO(s.Config)
	if err != nil {
		return nil, nil, err
	}
	path, err := modelPath(s)
	if err != nil {
		return nil, nil, err
	}
	l, err := ovLibrary(s, o)
	if err != nil {
		return nil, nil, err
	}
	m, err := l.Read(path)
	if err != nil {
		return nil, nil, status.Errorf(status.InvalidArg, "unable to load model '%s' from %s: %w", s.ModelName, path,
			hintIR(path, err))
	}
	if err := set.reshape(s, m); err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, set, nil
}

// hintIR adds a hint to the error of an IR file: its .bin file is easily forgotten.
func hintIR(path string, err error) error {
	weights := strings.TrimSuffix(path, ".xml") + ".bin"
	if filepath.Ext(path) == ".xml" {
		if _, serr := os.Stat(weights); errors.Is(serr, os.ErrNotExist) {
			return fmt.Errorf("%w (there is no %s with the model's weights)", err, filepath.Base(weights))
		}
	}
	return err
}

// openVINOSignature reads a model file's inputs and outputs. Where a configuration batches a model of a fixed batch
// size, its first dimension counts as variable: it is filled up, or the model takes that size only.
func openVINOSignature(_ context.Context, s backend.Spec, o *processOptions) (*modelconfig.Signature, error) {
	m, set, err := readOpenVINO(s, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	sig := &modelconfig.Signature{Backend: modelconfig.BackendOpenVINO}
	for _, part := range []struct {
		kind string
		list func() ([]ovapi.IO, error)
		to   *[]modelconfig.IO
	}{{"input", m.Inputs, &sig.Inputs}, {"output", m.Outputs, &sig.Outputs}} {
		list, err := part.list()
		if err != nil {
			return nil, status.Errorf(status.Unsupported, "unable to load model '%s': %w", s.ModelName, err)
		}
		for _, t := range list {
			io := modelconfig.IO{Name: t.Name, DataType: t.DataType, Dims: t.Dims}
			if t.Unranked {
				if io.Dims = anyShape(s.Config, t.Name); io.Dims == nil {
					return nil, errAnyShape(s, part.kind, t.Name)
				}
			}
			if set.fixed && s.Config.GetMaxBatchSize() > 0 && len(io.Dims) > 0 {
				io.Dims[0] = -1
			}
			*part.to = append(*part.to, io)
		}
	}
	return sig, nil
}

// ovModel is a model version in a process.
type ovModel struct {
	spec backend.Spec
	m    *ovapi.Model
	set  *ovSettings
}

func loadOpenVINO(_ context.Context, s backend.Spec, o *processOptions) (backend.Model, error) {
	m, set, err := readOpenVINO(s, o)
	if err != nil {
		return nil, err
	}
	return &ovModel{s, m, set}, nil
}

// Close frees the model; it is called after the instance is closed.
func (m *ovModel) Close() error {
	m.m.Close()
	return nil
}

func (m *ovModel) Traits() backend.Traits { return backend.Traits{} }

// NewInstance compiles the model for the instance's device.
func (m *ovModel) NewInstance(_ context.Context, p backend.Placement) (backend.Instance, error) {
	device := m.set.device
	if device == "" {
		device = "CPU"
		if p.Kind == inferencepb.ModelInstanceGroup_KIND_GPU {
			device = "GPU." + strconv.Itoa(p.Device)
		}
	}
	properties := m.set.properties
	if device == "CPU" { // its plugin does not know the setting, which changes no answers
		properties = slices.DeleteFunc(slices.Clone(properties),
			func(p ovapi.Property) bool { return p.Key == compilationThreads })
	}
	c, err := m.m.Compile(device, properties)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "unable to compile model '%s' for %s: %w", m.spec.ModelName,
			device, err)
	}
	in, out := ports(m.spec.Config)
	r, err := c.NewRunner(names(in), names(out))
	if err != nil {
		c.Close()
		return nil, status.Errorf(status.InvalidArg, "model '%s': %w", m.spec.ModelName, err)
	}
	x := newInstance(m.spec, r)
	x.overwrites, x.close = true, c.Close
	if m.set.fixed && x.batched {
		if x.pad, err = m.batchSize(); err != nil {
			_ = x.Close() // err is why
			return nil, err
		}
		x.exact = !m.set.padding
	}
	list, err := m.m.Inputs()
	if err != nil {
		_ = x.Close()
		return nil, status.Errorf(status.Unsupported, "unable to load model '%s': %w", m.spec.ModelName, err)
	}
	for i := range x.in {
		k := slices.IndexFunc(list, func(t ovapi.IO) bool { return t.Name == x.in[i].name })
		x.in[i].scalar = k >= 0 && !list[k].Unranked && len(list[k].Dims) == 0
	}
	return x, nil
}

// batchSize returns the rows of a model that has them fixed, 0 if it has not.
func (m *ovModel) batchSize() (int, error) {
	list, err := m.m.Inputs()
	if err != nil {
		return 0, err
	}
	for _, t := range list {
		if len(t.Dims) == 0 || t.Dims[0] <= 0 {
			continue
		}
		if most := int64(m.spec.Config.GetMaxBatchSize()); t.Dims[0] < most {
			return 0, status.Errorf(status.InvalidArg,
				"model '%s' has the fixed batch size %d, and max_batch_size is %d; set it to %d", m.spec.ModelName,
				t.Dims[0], most, t.Dims[0])
		}
		return int(t.Dims[0]), nil
	}
	return 0, nil
}

// ovSettings are what the parameters of a configuration ask for. Names: Triton's OpenVINO backend, and those of its
// first releases.
type ovSettings struct {
	device     string // "": by the instance's kind
	properties []ovapi.Property
	reshapes   bool // RESHAPE_IO_LAYERS
	// SKIP_OV_DYNAMIC_BATCHSIZE or ENABLE_BATCH_PADDING: the batch size is the model's, or max_batch_size
	fixed   bool
	padding bool
}

// compilationThreads is a parameter, and OpenVINO's name for it.
const compilationThreads = "COMPILATION_NUM_THREADS"

func parseOpenVINO(c *inferencepb.ModelConfig) (*ovSettings, error) {
	s := &ovSettings{device: parameter(c, "TARGET_DEVICE")}
	var skip bool
	var errs [3]error
	s.reshapes, errs[0] = flag(c, "RESHAPE_IO_LAYERS")
	skip, errs[1] = flag(c, "SKIP_OV_DYNAMIC_BATCHSIZE")
	s.padding, errs[2] = flag(c, "ENABLE_BATCH_PADDING")
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	s.fixed = skip || s.padding
	add := func(key, value string) {
		if value != "" {
			s.properties = append(s.properties, ovapi.Property{Key: key, Value: value})
		}
	}
	for _, p := range []struct{ name, older, key string }{
		{"INFERENCE_NUM_THREADS", "CPU_THREADS_NUM", "INFERENCE_NUM_THREADS"},
		{compilationThreads, "", compilationThreads},
	} {
		name := p.name
		if parameter(c, name) == "" && p.older != "" {
			name = p.older
		}
		n, err := count(c, name)
		if err != nil {
			return nil, err
		}
		if n >= 0 {
			add(p.key, strconv.Itoa(n))
		}
	}
	hint := strings.ToUpper(parameter(c, "PERFORMANCE_HINT"))
	if !slices.Contains([]string{"", "LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT"}, hint) {
		return nil, status.Errorf(status.InvalidArg,
			"parameter PERFORMANCE_HINT is %q, want LATENCY, THROUGHPUT or CUMULATIVE_THROUGHPUT", hint)
	}
	add("PERFORMANCE_HINT", hint)
	streams := strings.ToUpper(cmp.Or(parameter(c, "NUM_STREAMS"), parameter(c, "CPU_THROUGHPUT_STREAMS")))
	if n, err := strconv.Atoi(streams); streams != "" && streams != "AUTO" && streams != "NUMA" && (err != nil ||
		n < 0) {
		return nil, status.Errorf(status.InvalidArg,
			"parameter NUM_STREAMS is %q, want a number from 0 on, AUTO or NUMA", streams)
	}
	add("NUM_STREAMS", streams)
	for _, name := range []string{"HINT_BF16", "ENFORCE_BF16"} {
		if parameter(c, name) == "" {
			continue
		}
		on, err := flag(c, name)
		if err != nil {
			return nil, err
		}
		add("INFERENCE_PRECISION_HINT", map[bool]string{true: "bf16", false: "f32"}[on])
		break
	}
	return s, nil
}

// reshape gives the model's inputs the shapes that are asked for: those of the configuration (RESHAPE_IO_LAYERS), and
// for a configuration that batches a first dimension that is variable, or max_batch_size where it is to be fixed.
func (set *ovSettings) reshape(s backend.Spec, m *ovapi.Model) error {
	rows := int64(s.Config.GetMaxBatchSize())
	if rows <= 0 && !set.reshapes {
		return nil
	}
	list, err := m.Inputs()
	if err != nil {
		return status.Errorf(status.Unsupported, "unable to load model '%s': %w", s.ModelName, err)
	}
	var names []string
	var shapes [][]int64
	for _, t := range list {
		want := slices.Clone(t.Dims)
		i := slices.IndexFunc(s.Config.GetInput(),
			func(in *inferencepb.ModelInput) bool { return in.GetName() == t.Name })
		if set.reshapes && i >= 0 {
			in := s.Config.GetInput()[i]
			dims := in.GetDims()
			if in.GetReshape() != nil {
				dims = in.GetReshape().GetShape()
			}
			want = slices.Clone(dims)
			if rows > 0 {
				want = append([]int64{-1}, want...)
			}
		}
		if rows > 0 && len(want) > 0 {
			if !set.fixed {
				want[0] = -1
			} else if want[0] < 0 {
				want[0] = rows
			}
		}
		if !t.Unranked && slices.Equal(want, t.Dims) || t.Unranked && !set.reshapes {
			continue
		}
		names, shapes = append(names, t.Name), append(shapes, want)
	}
	if len(names) == 0 {
		return nil
	}
	if err := m.Reshape(names, shapes); err != nil {
		return status.Errorf(status.InvalidArg,
			"model '%s' cannot take the shapes %v of %s (%w); set max_batch_size: 0, or SKIP_OV_DYNAMIC_BATCHSIZE "+
				"or ENABLE_BATCH_PADDING for a model of a fixed batch size",
			s.ModelName, shapes, strings.Join(names, ", "), err)
	}
	return nil
}
