package python_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/device"
)

// cards is the driver of a machine with so many GPUs.
type cards int

func (n cards) GPUs() (all []device.GPU, err error) {
	for i := range int(n) {
		all = append(all, device.GPU{UUID: fmt.Sprintf("GPU-%d", i), Name: "A card", Major: 8, MemoryBytes: 1 << 30})
	}
	return all, nil
}
func (cards) Read(string) (device.Reading, error) { return device.Reading{}, nil }
func (cards) Close() error                        { return nil }

// placed is the arguments of an instance: kind, number and CUDA_VISIBLE_DEVICES.
func placed(t *testing.T, visible *string, settings map[string]string, parameters, groups string) map[string]string {
	t.Helper()
	m, err := device.NewMachine(device.Options{Driver: cards(3), Visible: visible, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	r := serveWith(t, settings, map[string]string{
		"m/config.pbtxt": config(parameters + groups),
		"m/1/model.py": code("y = x", fmt.Sprintf(`
def initialize(self, args):
    with open(os.path.join(%q, args["model_instance_name"]), "w") as f:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
        json.dump([args["model_instance_kind"], args["model_instance_device_id"], visible], f)`, folder)),
	}, func(o *engine.Options) { o.Machine = m }).ready()
	if a := r.one(request("m", map[string][]float32{"IN": {4}})); a.err != nil || a.floats("OUT")[0] != 4 {
		t.Errorf("%v %v; want 4", a.floats("OUT"), a.err)
	}
	found := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var said []string
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err == nil {
			err = json.Unmarshal(text, &said)
		}
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = strings.Join(said, " ")
	}
	return found
}

func TestInstancesOnGPUs(t *testing.T) {
	list := func(s string) *string { return &s }
	const both = `instance_group [ { kind: KIND_GPU gpus: [ 0, 2 ] }, { kind: KIND_CPU } ]`
	for _, tt := range []struct {
		name       string
		visible    *string // of the server
		settings   map[string]string
		parameters string
		groups     string
		want       map[string]string
	}{
		{name: "C057 without a group: one on each GPU, as Triton's Python backend asks for", visible: nil,
			want: map[string]string{"m_0_gpu0": "GPU 0 unset", "m_0_gpu1": "GPU 1 unset", "m_0_gpu2": "GPU 2 unset"}},
		{name: "D022 C059 kind and number as Triton gives them", groups: both,
			want: map[string]string{"m_0_0_gpu0": "GPU 0 unset", "m_0_0_gpu2": "GPU 2 unset", "m_1_0": "CPU 0 unset"}},
		{name: "G022 of a server that sees two", visible: list("2,0"), groups: `instance_group [ { kind: KIND_GPU } ]`,
			want: map[string]string{"m_0_0_gpu0": "GPU 0 2,0", "m_0_0_gpu1": "GPU 1 2,0"}},
		{name: "G022 each sees its own card", settings: map[string]string{"visible-gpus": "instance"}, groups: both,
			want: map[string]string{"m_0_0_gpu0": "GPU 0 0", "m_0_0_gpu2": "GPU 0 2", "m_1_0": "CPU 0 "}},
		{name: "G022 each its own of those that the server sees", visible: list("2, GPU-0"),
			parameters: `parameters { key: "VISIBLE_GPUS" value { string_value: "instance" } }`,
			groups:     `instance_group [ { kind: KIND_GPU } ]`,
			want:       map[string]string{"m_0_0_gpu0": "GPU 0 2", "m_0_0_gpu1": "GPU 0 GPU-0"}},
		{name: "the model's parameter counts more", settings: map[string]string{"visible-gpus": "instance"},
			parameters: `parameters { key: "VISIBLE_GPUS" value { string_value: "all" } }`,
			groups:     `instance_group [ { kind: KIND_GPU gpus: 1 } ]`,
			want:       map[string]string{"m_0_0_gpu1": "GPU 1 unset"}},
		{name: "C057 KIND_MODEL", settings: map[string]string{"visible-gpus": "all"},
			groups: `instance_group [ { kind: KIND_MODEL } ]`,
			want:   map[string]string{"m_0_0": "MODEL 0 unset"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.visible != nil {
				t.Setenv("CUDA_VISIBLE_DEVICES", *tt.visible)
			} else if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
				t.Setenv("CUDA_VISIBLE_DEVICES", v) // restored afterwards
				if err := os.Unsetenv("CUDA_VISIBLE_DEVICES"); err != nil {
					t.Fatal(err)
				}
			}
			if got := placed(t, tt.visible, tt.settings, tt.parameters, tt.groups); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%v\nwant %v", got, tt.want)
			}
		})
	}
}

func TestInvalidVisibilityIsRefused(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(`parameters { key: "VISIBLE_GPUS" value { string_value: "some" } }`),
		"m/1/model.py":   code("y = x", ""),
	})
	if s, _ := r.Model("m"); len(s.Versions) != 1 ||
		!strings.Contains(s.Versions[0].Reason, `VISIBLE_GPUS of model 'm': "some" is neither all nor instance`) {
		t.Errorf("%+v", s.Versions)
	}
}

// The server's backends for frameworks that only use the CPU do not ask for a GPU.
func TestBackendsThatUseGPUs(t *testing.T) {
	r := serve(t, nil, map[string]string{"m/config.pbtxt": config(""), "m/1/model.py": code("y = x", "")}).ready()
	own := filepath.Join(t.TempDir(), "openvino")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "model.py"), []byte(code("y = x", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]map[string]bool{
		"":                {"openvino": false, "pytorch": true, "tensorflow": false},
		filepath.Dir(own): {"openvino": true, "pytorch": true, "tensorflow": false},
	} {
		all, err := r.backend.Based(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			if uses, known := want[b.Name()]; known && b.(backend.GPUUser).UsesGPUs() != uses {
				t.Errorf("backend %s of %q uses GPUs: %v", b.Name(), folder, !uses)
			}
		}
	}
}
