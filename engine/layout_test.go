package engine_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/lifecycle"
	"nereid/engine/metrics"
)

// dims returns the configuration of an identity model with n elements.
func dims(n string) string {
	return strings.ReplaceAll(oneVersion, "dims: 4", "dims: "+n)
}

// served is the first dimension of a served model's input.
func served(e *engine.Engine, name string) int64 {
	m, _ := e.Model(name)
	for _, v := range m.Versions {
		if v.State == lifecycle.Ready && len(m.Config.GetInput()) > 0 {
			return m.Config.GetInput()[0].GetDims()[0]
		}
	}
	return 0
}

// TestCustomConfigurations picks configs/<name>.pbtxt by --model-config-name.
func TestCustomConfigurations(t *testing.T) {
	fill := func(t *testing.T) string {
		root := t.TempDir()
		write(t, root+"/both/config.pbtxt", dims("1"))
		write(t, root+"/both/configs/h100.pbtxt", dims("2"))
		write(t, root+"/both/configs/a100.pbtxt", dims("3"))
		write(t, root+"/plain/config.pbtxt", dims("1"))
		write(t, root+"/custom/configs/h100.pbtxt", dims("2"))
		for _, name := range []string{"both", "plain", "custom"} {
			write(t, root+"/"+name+"/1/.keep", "")
		}
		return root
	}
	for _, tt := range []struct {
		name, config        string
		mode                engine.ControlMode
		both, plain, custom int64
	}{
		{"I005 A027 the custom one where it is there, else config.pbtxt", "h100", engine.ModeNone, 2, 1, 2},
		{"A027 another device's", "a100", engine.ModeNone, 3, 1, 0},
		{"A027 without a name", "", engine.ModeNone, 1, 1, 0},
		{"A027 in explicit mode", "h100", engine.ModeExplicit, 2, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := start(t, engine.Options{
				ModelOptions: engine.ModelOptions{Repositories: []string{fill(t)}, ConfigName: tt.config},
				Mode:         tt.mode, StartupModels: []string{"*"},
			})
			for name, want := range map[string]int64{"both": tt.both, "plain": tt.plain, "custom": tt.custom} {
				if got := served(e, name); got != want {
					t.Errorf("%s serves the configuration %d, want %d", name, got, want)
				}
			}
		})
	}
	t.Run("A027 polling follows it", func(t *testing.T) {
		root, ch := fill(t), newChanges()
		e := start(t, engine.Options{
			ModelOptions: engine.ModelOptions{
				Repositories: []string{root}, ConfigName: "h100", Settle: time.Millisecond,
				Events: engine.EventListener{Changed: ch.note},
			},
			Mode: engine.ModePoll, PollInterval: 5 * time.Millisecond,
		})
		write(t, root+"/plain/configs/h100.pbtxt", dims("7"))
		ch.until(t, "the custom configuration to come", func() bool { return served(e, "plain") == 7 })
		if err := os.Remove(root + "/both/configs/h100.pbtxt"); err != nil {
			t.Fatal(err)
		}
		ch.until(t, "the custom configuration to go", func() bool { return served(e, "both") == 1 })
	})
}

func TestMetricTags(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/id/config.pbtxt", oneVersion+
		`metric_tags [ { key: "team" value: "vision \"2\"" }, { key: "a" value: "x" } ]`)
	write(t, root+"/id/1/.keep", "")
	write(t, root+"/plain/config.pbtxt", oneVersion)
	write(t, root+"/plain/1/.keep", "")
	write(t, root+"/steps/config.pbtxt", `platform: "ensemble" max_batch_size: 8
		metric_tags { key: "team" value: "sound" }
		input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }
		ensemble_scheduling { step { model_name: "id"
			input_map { key: "INPUT0" value: "X" } output_map { key: "OUTPUT0" value: "Y" } } }`)
	write(t, root+"/steps/1/.keep", "")
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}}})
	if _, err := ask(e, request(1, 1)); err != nil {
		t.Fatal(err)
	}
	x, err := metrics.New(metrics.Options{Source: e})
	if err != nil {
		t.Fatal(err)
	}
	text := string(x.Append(nil))
	for name, want := range map[string]string{
		"A044 a model's tags are labels of its metrics, as Triton writes them": "" +
			`nv_inference_request_success{_a="x",_team="vision \"2\"",model="id",version="1"} 1`,
		"A044 also of failures": `nv_inference_request_failure{_a="x",_team="vision \"2\"",model="id",` +
			`reason="REJECTED",version="1"} 0`,
		"A044 also of an ensemble":    `nv_inference_request_success{_team="sound",model="steps",version="1"} 0`,
		"A044 other models have none": `nv_inference_request_success{model="plain",version="1"} 0`,
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("%s is missing in\n%s", want, text)
			}
		})
	}
}

// TestRuntime loads models that name the file of their backend.
func TestRuntime(t *testing.T) {
	for _, tt := range []struct{ name, runtime, want string }{
		{"A034 the name that the backend has in Triton", "libtriton_identity.so", ""},
		{"A034 another library", "libtriton_other.so",
			"unable to find backend library 'libtriton_other.so' for model 'id'"},
		{"A034 Python for a backend that is not written in it", "model.py",
			"backend 'identity' has no runtime 'model.py'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/id/config.pbtxt", oneVersion+"runtime: \""+tt.runtime+"\"\n")
			write(t, root+"/id/1/.keep", "")
			e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}}})
			m, _ := e.Model("id")
			if len(m.Versions) != 1 || !strings.Contains(m.Versions[0].Reason, tt.want) ||
				(m.Versions[0].State == lifecycle.Ready) != (tt.want == "") {
				t.Errorf("%+v, want %q", m.Versions, tt.want)
			}
		})
	}
}
