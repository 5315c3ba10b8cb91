package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/options"
	"nereid/engine"
)

func TestSageMakerService_B083_G015(t *testing.T) {
	r := runServer(t, "secret", "--allow-sagemaker=true", "--sagemaker-port=0")
	base := "http://" + r.fronts.listeners["sagemaker"].Addr().String()
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

// The archives take the names of models: the folder that has their links is the preferred repository.
func TestAnArchivesLinkTakesTheNameOfAModel_B083(t *testing.T) {
	r := runServer(t, "", "--allow-sagemaker=true", "--sagemaker-port=0")
	good, ok := r.engine.Model("good")
	if !ok {
		t.Fatal("there is no model")
	}
	link := filepath.Join(r.repos.archives, "good")
	if err := os.Symlink(good.Folder, link); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.LoadModel(t.Context(), "good", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.engine.Model("good"); got.Folder != link {
		t.Errorf("loaded from %s, want %s", got.Folder, link)
	}
}

// A server that is told to stop while its models load has not failed: the default model may be one of those that did
// not come to it.
func TestAStopDuringTheStartIsNoError_B084(t *testing.T) {
	env := map[string]string{"AIP_PREDICT_ROUTE": "/predict", "AIP_HEALTH_ROUTE": "/health"}
	c, err := options.Load(false, []string{"--model-repository=" + modelRepository(t), "--data-dir=" + t.TempDir(),
		"--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0", "--allow-vertex-ai=true",
		"--vertex-ai-port=0", "--vertex-ai-default-model=other"},
		func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &logLines{seen: func(text string) {
		if strings.Contains(text, "loading: good") {
			stop()
		}
	}}
	if err := Serve(ctx, c, log); err != nil || ctx.Err() == nil {
		t.Errorf("Serve = %v, stopped %v; want an orderly stop\n%s", err, ctx.Err() != nil, log.text.String())
	}
}

func TestAnOnlyModelMayServeSeveralVersions_B084_DV118(t *testing.T) {
	r := runServer(t, "")
	good, _ := r.engine.Model("good")
	if err := os.CopyFS(filepath.Join(good.Folder, "2"), os.DirFS(filepath.Join(good.Folder, "1"))); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(good.Folder, "config.pbtxt")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(text, "\nversion_policy { all {} }\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.LoadModel(t.Context(), "good", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.engine.RepositoryIndex(true)); n != 2 || r.fronts.vertexAIModel() != "good" {
		t.Errorf("with %d versions in service the only model is %q", n, r.fronts.vertexAIModel())
	}
	if err := os.CopyFS(filepath.Join(good.Folder, "../twin"), os.DirFS(good.Folder)); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.LoadModel(t.Context(), "twin", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	if got := r.fronts.vertexAIModel(); got != "" {
		t.Errorf("two models, and predictions go to %q", got)
	}
}
