package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

func dropFile(r *rig, name, content string) api.Import {
	r.t.Helper()
	im := get[api.Import](r, 201, "POST", "/api/imports", api.ImportCreate{})
	if code, body := r.call("PUT", "/api/imports/"+im.ID+"/files/"+name, strings.NewReader(content)); code != 204 {
		r.t.Fatalf("PUT = %d %s", code, body)
	}
	return get[api.Import](r, 200, "POST", "/api/imports/"+im.ID+"/analyze", nil)
}

// What is wrong with a dropped file is said without the folder that it is staged in.
func TestABrokenFileIsNamedWithoutItsStagingFolder(t *testing.T) {
	im := dropFile(newRig(t, engine.ModeExplicit), "net.onnx", "bad file")
	if len(im.Faults) == 0 {
		t.Fatal("a broken file has no fault")
	}
	for _, f := range im.Faults {
		if strings.Contains(f.Message, "imports") || f.Severity == api.SeverityError && !strings.Contains(f.Message, "1/model.onnx") {
			t.Errorf("fault %q, want the file as 1/model.onnx", f.Message)
		}
	}
}

func TestAFileCalledModelGetsAFreeName(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	if im := dropFile(r, "model.onnx", "good"); im.Name != "model" || im.Exists {
		t.Errorf("the first is called %q, exists %v; want model, new", im.Name, im.Exists)
	}
	if err := os.MkdirAll(filepath.Join(r.repo, "model", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if im := dropFile(r, "model.onnx", "good"); im.Name != "model_2" || im.Exists {
		t.Errorf("the second is called %q, exists %v; want model_2, new", im.Name, im.Exists)
	}
	if im := dropFile(r, "ready.onnx", "good"); im.Name != "ready" || !im.Exists {
		t.Errorf("a file named as a model is called %q, exists %v; want ready, existing", im.Name, im.Exists)
	}
}

// A model whose file is damaged can have its configuration mended; the reload says what comes of it.
func TestAConfigurationCanBeSavedBesideADamagedFile(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	if err := os.WriteFile(filepath.Join(r.repo, "ready", "1", "model.onnx"), []byte("bad file"), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `backend: "onnxruntime"
max_batch_size: 2
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
`
	check := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: text})
	if len(check.Faults) != 1 || check.Faults[0].Severity != api.SeverityWarning {
		t.Errorf("faults = %+v, want the file's as a warning", check.Faults)
	}
	res := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: text})
	if res.Outcome != api.SaveFailed || res.Reason == "" {
		t.Errorf("saving = %+v, want saved and the reload's failure", res)
	}
}
