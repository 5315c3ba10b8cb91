package model

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/device"
)

// cards is a machine with GPUs of these compute capabilities, such as 8.6.
type cards []float64

func (c cards) GPUs() (all []device.GPU, _ error) {
	for i, v := range c {
		major := int(v)
		all = append(all, device.GPU{UUID: "GPU-" + string(rune('a'+i)), Physical: i, Major: major,
			Minor: int(v*10+0.5) - 10*major})
	}
	return all, nil
}
func (cards) Close() error                        { return nil }
func (cards) Read(string) (device.Reading, error) { return device.Reading{}, nil }

// noting is a backend for GPUs that records which file it has to load.
type noting struct {
	backend.Backend
	file *string
}

func (noting) UsesGPUs() bool { return true }

func (n noting) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	*n.file = s.Config.GetDefaultModelFilename()
	return n.Backend.Load(ctx, s)
}

func TestFileByComputeCapability(t *testing.T) {
	const files = `backend: "identity" default_model_filename: "any.onnx"
		cc_model_filenames { key: "8.0" value: "a100.onnx" } cc_model_filenames { key: "8.6" value: "a10.onnx" } `
	for _, tt := range []struct {
		name, config string
		cards        cards
		want, fails  string
	}{
		{"A015 the GPU's file", files, cards{8.0}, "a100.onnx", ""},
		{"A015 another GPU's file", files, cards{8.6}, "a10.onnx", ""},
		{"A015 a GPU that the map does not have", files, cards{9.0}, "any.onnx", ""},
		{"A015 no GPU", files, nil, "any.onnx", ""},
		{"A015 instances on the CPU of a machine with a GPU", files + `instance_group { kind: KIND_CPU }`, cards{8.0},
			"any.onnx", ""},
		{"A015 the GPU that the group names", files + `instance_group { kind: KIND_GPU gpus: 1 }`, cards{8.0, 8.6},
			"a10.onnx", ""},
		{"A015 two GPUs alike", files, cards{8.0, 8.0}, "a100.onnx", ""},
		{"A015 two GPUs that need different files", files, cards{8.0, 8.6}, "",
			"GPU 1 with compute capability 8.6 needs a10.onnx, GPU 0 with compute capability 8.0 needs a100.onnx; " +
				"make a model for each"},
		{"A015 a GPU and the CPU", files + `instance_group [ { kind: KIND_GPU gpus: 0 }, { kind: KIND_CPU } ]`,
			cards{8.0}, "", "the CPU needs any.onnx"},
		{"A015 no map", `backend: "identity" default_model_filename: "any.onnx"`, cards{8.0}, "any.onnx", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := device.Options{Log: slog.New(slog.DiscardHandler)}
			if tt.cards != nil {
				o.Driver = tt.cards
			}
			machine, err := device.NewMachine(o)
			if err != nil {
				t.Fatal(err)
			}
			var file string
			s := spec(config(t, tt.config), t.TempDir(), nil)
			s.Backend, s.Machine = noting{builtin.Identity(), &file}, machine
			m, err := Load(t.Context(), s)
			if m != nil {
				defer func() { _ = m.Close(context.Background()) }()
			}
			switch {
			case tt.fails != "":
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("Load = %v, want %q", err, tt.fails)
				}
			case err != nil:
				t.Error(err)
			case file != tt.want:
				t.Errorf("the file is %s, want %s", file, tt.want)
			case m.Config().GetDefaultModelFilename() != "any.onnx":
				t.Errorf("the configuration that is shown names %s", m.Config().GetDefaultModelFilename())
			}
		})
	}
}
