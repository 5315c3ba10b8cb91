package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The check of a configuration in the GUI completes it as a load does, with the settings of the backend.
func TestTheCheckOfAConfigurationTakesTheBatchSizeOfItsBackend_A030(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("..", "models-sample", "identity_fp32", "1", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	models := writeFiles(t, t.TempDir(), map[string]string{"m/1/model.onnx": string(file)})
	for _, tt := range []struct{ name, args, want string }{
		{"none", "--backend-config=python,default-max-batch-size=9", "max_batch_size: 4\n"},
		{"global", "--backend-config=default-max-batch-size=7", "max_batch_size: 7\n"},
		{"of the backend", "--backend-config=onnxruntime,default-max-batch-size=9", "max_batch_size: 9\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := runServer(t, "", "--model-repository="+models, "--ui-port=0", tt.args)
			_, text := ask(t, http.DefaultClient, "POST", "http://"+r.at("ui")+"/api/config/check",
				`{"model": "m", "text": ""}`, "X-Nereid: 1")
			if !strings.Contains(strings.ReplaceAll(text, `\n`, "\n"), tt.want) {
				t.Errorf("%s, want %q", text, tt.want)
			}
		})
	}
}
