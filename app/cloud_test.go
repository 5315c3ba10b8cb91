package app

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/httpapi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func TestVertexAIEnvironment_H060(t *testing.T) {
	env := map[string]string{
		"AIP_MODE": "PREDICTION", "AIP_HTTP_PORT": "7080", "AIP_PREDICT_ROUTE": "/predict", "AIP_HEALTH_ROUTE": "/health", "AIP_STORAGE_URI": "/models",
	}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	c, err := Load(true, []string{"--data-dir=" + t.TempDir()}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if !c.AllowVertexAI || c.AllowHTTP || c.AllowGRPC || c.VertexAIPort != 7080 || c.VertexAIPredict != "/predict" || c.VertexAIHealth != "/health" ||
		!slices.Equal(c.Repositories, []string{"/models"}) {
		t.Errorf("the environment gives %+v", c.cloudConfig)
	}
	c, err = Load(true, []string{"--data-dir=" + t.TempDir(), "--allow-http=true", "--vertex-ai-port=9000", "--model-repository=/own"}, lookup)
	if err != nil || !c.AllowHTTP || c.VertexAIPort != 9000 || !slices.Equal(c.Repositories, []string{"/own"}) {
		t.Errorf("options do not go before the environment: %v, %+v", err, c)
	}
	env["AIP_HTTP_PORT"] = "x"
	if _, err = Load(true, []string{"--data-dir=" + t.TempDir()}, lookup); err == nil || !strings.Contains(err.Error(), "AIP_HTTP_PORT") {
		t.Errorf("a port that is none: %v", err)
	}
	c, err = Load(false, []string{"--data-dir=" + t.TempDir()}, none)
	if err != nil || c.AllowVertexAI || !c.AllowHTTP {
		t.Errorf("without the environment: %v", err)
	}
}

func TestSageMakerSafePorts_H058(t *testing.T) {
	ports := []string{"--data-dir=" + t.TempDir(), "--allow-sagemaker=1", "--sagemaker-safe-port-range=8000-8010"}
	if _, err := Load(false, ports, none); err != nil {
		t.Errorf("the default ports are inside: %v", err)
	}
	if _, err := Load(false, append(ports, "--grpc-port=8011"), none); err == nil || !strings.Contains(err.Error(), "--grpc-port: 8011 is outside of --sagemaker-safe-port-range=8000-8010") {
		t.Errorf("a port outside: %v", err)
	}
}

// The SageMaker service answers beside the others, under the same guard.
func TestSageMakerService_B083(t *testing.T) {
	r := runServer(t, "secret", "--allow-sagemaker=true", "--sagemaker-port=0")
	base := "http://" + r.sockets["sagemaker"].Addr().String()
	for _, tt := range []struct {
		path, token string
		want        int
	}{{"/ping", "", 401}, {"/ping", "secret", 200}, {"/models", "secret", 200}, {"/v2", "secret", 400}} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			req.Header.Set("Authorization", tt.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s with token %q answers %d, want %d", tt.path, tt.token, resp.StatusCode, tt.want)
		}
	}
}

const identityConfig = `name: "theirs" backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }`

func writeModel(t *testing.T, folder string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.pbtxt"), []byte(identityConfig), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An archive's model is served under SageMaker's name for it, whatever its folder and its configuration call it.
func TestArchives_B083(t *testing.T) {
	root, repository, outside := t.TempDir(), t.TempDir(), t.TempDir()
	writeModel(t, root+"/abc/model")
	writeModel(t, root+"/def/model/sub")
	writeModel(t, root+"/many/model/one")
	writeModel(t, root+"/many/model/two")
	writeModel(t, outside+"/model")
	if err := os.Symlink(outside, root+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root+"/broken/model/m/1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/broken/model/m/config.pbtxt", []byte(`backend: "nosuch"`), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{Repositories: []string{repository}, Backends: builtin.All(), Mode: engine.ModeExplicit, OverrideFolder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := newArchives(e, root, repository)
	for _, tt := range []struct {
		name, url string
		code      status.Code
	}{
		{"h1", root + "/abc/model", 0},
		{"h1", root + "/abc/model", status.AlreadyExists},
		{"h2.tar.gz", root + "/def/model", 0},
		{"h3", root + "/many/model", status.Unsupported},
		{"h3", root + "/nosuch/model", status.InvalidArg},
		{"h3", root + "/../abc/model", status.InvalidArg},
		{"h3", outside, status.InvalidArg},
		{"h3", root + "/link/model", status.InvalidArg},
		{"../h3", root + "/abc/model", status.InvalidArg},
		{"", root + "/abc/model", status.InvalidArg},
		{"h4", root + "/broken/model", status.InvalidArg},
	} {
		err := a.Load(t.Context(), tt.name, tt.url)
		if (err == nil) != (tt.code == 0) || err != nil && status.CodeOf(err) != tt.code {
			t.Errorf("Load(%q, %q) = %v, want code %v", tt.name, tt.url, err, tt.code)
		}
	}
	if got := a.Loaded(); !slices.Equal(got, []httpapi.Archive{{Name: "h1", URL: root + "/abc/model"}, {Name: "h2.tar.gz", URL: root + "/def/model"}}) {
		t.Errorf("loaded: %v", got)
	}
	for _, name := range []string{"h1", "h2.tar.gz"} {
		r := infer.New()
		r.ModelName = name
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1}, Data: []byte{0, 0, 128, 63}})
		if err := e.Infer(t.Context(), r); err != nil {
			t.Errorf("inference on %s: %v", name, err)
		} else if resp, err := r.Next(t.Context()); err != nil || resp.Err != nil {
			t.Errorf("inference on %s: %v, %v", name, resp, err)
		} else {
			resp.Release()
		}
		r.Release()
	}
	for _, want := range []status.Code{0, status.NotFound} {
		if err := a.Unload(t.Context(), "h1"); (err == nil) != (want == 0) || err != nil && status.CodeOf(err) != want {
			t.Errorf("Unload = %v, want code %v", err, want)
		}
	}
	if links, err := os.ReadDir(repository); err != nil || len(links) != 1 {
		t.Errorf("links left: %v, %v", links, err)
	}
	if err := a.Load(t.Context(), "h1", root+"/abc/model"); err != nil {
		t.Errorf("load after the unload: %v", err)
	}
}
