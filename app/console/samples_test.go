package console_test

import (
	"net/http"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

func TestSampleModelsAreImported(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	recorded := map[string]string{"add_sub": "requests/one_row.json", "digits": "requests/grey_28.json"}
	for name, requests := range recorded {
		im := get[api.Import](r, http.StatusCreated, "POST", "/api/imports", api.ImportCreate{Sample: name})
		files := map[string]bool{}
		for _, f := range im.Files {
			files[f.Path] = true
		}
		if im.State != api.ImportStaged || im.Name != name || im.Kind != api.ImportFolder || im.ConfigGenerated ||
			len(im.Code) > 0 || !files["1/model.onnx"] || !files[requests] {
			t.Errorf("%s = %+v", name, im)
		}
	}
	for _, name := range []string{"mlp", "../digits", "digits/1", "."} {
		if code, body := r.Call("POST", "/api/imports", api.ImportCreate{Sample: name}); code != http.StatusNotFound {
			t.Errorf("sample %q = %d %s, want 404", name, code, body)
		}
	}
}
