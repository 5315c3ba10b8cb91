package console_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

// commit commits an import and waits for its end.
func commit(r *rig, im api.Import, req api.ImportCommit) api.Import {
	e := r.Stream("import")
	get[api.Import](r, 202, "POST", "/api/imports/"+im.ID+"/commit", req)
	for {
		if v := next[api.Import](e, "import"); v.ID == im.ID && v.State != api.ImportCommitting {
			return v
		}
	}
}

func TestImportONNXFile(t *testing.T) {
	for _, mode := range []engine.ControlMode{engine.ModeNone, engine.ModePoll, engine.ModeExplicit} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, mode)
			im := r.Upload("my net.onnx", map[string]string{"my%20net.onnx": "good"})
			if im.State != api.ImportStaged || im.Kind != api.ImportONNX || im.Name != "my_net" ||
				!im.ConfigGenerated || len(im.Faults) != 0 ||
				!strings.Contains(im.Config, "max_batch_size: 4") || strings.Contains(im.Config, "my_net") ||
				len(im.Inputs) != 1 ||
				im.Inputs[0].DimNames[0] != "batch" || im.MaxBatchSize != 4 || im.Backend != "onnxruntime" ||
				im.Exists {
				t.Fatalf("staged = %+v", im)
			}
			im = get[api.Import](r, 200, "PUT", "/api/imports/"+im.ID+"/config",
				api.ImportConfig{Name: "net2", Config: strings.Replace(im.Config, "4", "16", 1)})
			if im.Name != "net2" || im.MaxBatchSize != 16 || im.ConfigGenerated || len(im.Faults) != 0 {
				t.Fatalf("changed = %+v", im)
			}
			if im = commit(r, im, api.ImportCommit{}); im.State != api.ImportLoaded || im.LoadMs <= 0 {
				t.Fatalf("committed = %+v", im)
			}
			d := get[api.ModelDetail](r, 200, "GET", "/api/models/net2", nil)
			if d.State != api.StateReady || d.MaxBatchSize != 16 || d.Revision == 0 ||
				d.Files[0].Path != "1/model.onnx" {
				t.Errorf("model = %+v", d)
			}
			staged, _ := filepath.Glob(filepath.Join(r.Data, "imports/*"))
			hidden, _ := filepath.Glob(filepath.Join(r.Repo, ".*"))
			if len(staged)+len(hidden) != 0 {
				t.Errorf("left over: %v %v", staged, hidden)
			}
			if code, _ := r.Call("PUT", "/api/imports/"+im.ID+"/files/x", strings.NewReader("")); code != 409 {
				t.Errorf("a file for an import that is done = %d, want 409", code)
			}
		})
	}
}

func TestImportThatFailsChangesNothing(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	im := r.Upload("", map[string]string{"broken/1/model.onnx": "bad now, but readable",
		"broken/config.pbtxt": "max_batch_size: 2\n"})
	if im.Kind != api.ImportFolder || im.ConfigGenerated || im.MaxBatchSize != 2 {
		t.Fatalf("staged = %+v", im)
	}
	if im = commit(r, im, api.ImportCommit{}); im.State != api.ImportFailed || !strings.Contains(im.Reason, "broken") {
		t.Fatalf("committed = %+v", im)
	}
	if names, _ := filepath.Glob(filepath.Join(r.Repo, "*")); len(names) != 1 {
		t.Errorf("the repository has %v, want only what was there", names)
	}
	// In the place of a model that serves.
	im = get[api.Import](r, 200, "PUT", "/api/imports/"+im.ID+"/config", api.ImportConfig{Name: "ready"})
	if !im.Exists || im.State != api.ImportStaged {
		t.Fatalf("renamed = %+v", im)
	}
	if code, body := r.Call("POST", "/api/imports/"+im.ID+"/commit", api.ImportCommit{}); code != 409 {
		t.Errorf("commit over a model = %d %s, want 409", code, body)
	}
	if im = commit(r, im, api.ImportCommit{Replace: true}); im.State != api.ImportFailed {
		t.Fatalf("committed = %+v", im)
	}
	text, err := os.ReadFile(filepath.Join(r.Repo, "ready/1/model.onnx"))
	if err != nil || string(text) != "good" {
		t.Errorf("the model that was there: %q, %v", text, err)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if d.State != api.StateReady || d.ConfigExists || d.MaxBatchSize != 4 || d.Reason != "" {
		t.Errorf("the model that was there serves: %+v", d)
	}
	// The corrected model is imported, and the old one is in the trash.
	if code, body := r.Call("PUT", "/api/imports/"+im.ID+"/files/broken/1/model.onnx",
		strings.NewReader("good and new")); code != 204 {
		t.Fatalf("PUT = %d %s", code, body)
	}
	get[api.Import](r, 200, "POST", "/api/imports/"+im.ID+"/analyze", nil)
	if im = commit(r, im, api.ImportCommit{Replace: true}); im.State != api.ImportLoaded {
		t.Fatalf("committed = %+v", im)
	}
	if text, err := os.ReadFile(filepath.Join(r.Repo, "ready/1/model.onnx")); err != nil ||
		string(text) != "good and new" {
		t.Errorf("the new model: %q, %v", text, err)
	}
	if list := get[api.Trash](r, 200, "GET", "/api/trash", nil); len(list.Items) != 1 ||
		list.Items[0].From != filepath.Join(r.Repo, "ready") {
		t.Errorf("trash = %+v", list)
	}
}

// What can run code on this machine is shown, asked for once, and not loaded before: also when the server polls.
func TestImportAsksBeforeCode_B13(t *testing.T) {
	for _, file := range []string{"model.pt", "model.pt2", "weights.pkl", "scaler.joblib", "model.py", "lib.so"} {
		t.Run("B13 "+file, func(t *testing.T) {
			r := newRig(t, engine.ModePoll)
			im := r.Upload("", map[string]string{"m/1/model.onnx": "good", "m/1/" + file: "x"})
			if len(im.Code) != 1 || im.Code[0].Path != "1/"+file || im.Code[0].Why == "" {
				t.Fatalf("staged = %+v", im)
			}
			if code, body := r.Call("POST", "/api/imports/"+im.ID+"/commit", api.ImportCommit{}); code != 412 ||
				!strings.Contains(string(body), "runs as code on this machine") {
				t.Errorf("commit without consent = %d %s, want 412", code, body)
			}
			if code, _ := r.Call("GET", "/api/models/m", nil); code != 404 {
				t.Errorf("the model without consent = %d, want 404: nothing of it is in the repository", code)
			}
			if left, _ := filepath.Glob(filepath.Join(r.Repo, "m*")); len(left) != 0 {
				t.Errorf("in the repository without consent: %v", left)
			}
			if im = commit(r, im, api.ImportCommit{ConsentCode: true}); im.State != api.ImportLoaded {
				t.Errorf("commit with consent = %+v", im)
			}
		})
	}
}

// Nothing is fetched from addresses: there is no such thing as an import from one.
func TestImportFetchesNothing_B12(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	var asked atomic.Int32
	there := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer there.Close()
	for _, address := range []string{"http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", there.URL +
		"/m.onnx", "s3://bucket/m", "//" + there.Listener.Addr().String() + "/m.onnx"} {
		t.Run("B12 "+address, func(t *testing.T) {
			for _, body := range []string{`{"url":` + strconv.Quote(address) + `}`, `{"path":` +
				strconv.Quote(address) + `}`} {
				if code, text := r.Call("POST", "/api/imports", strings.NewReader(body)); code != 400 && code != 403 {
					t.Errorf("%s = %d %s, want a refusal", body, code, text)
				}
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if staged, _ := filepath.Glob(filepath.Join(r.Data, "imports/*")); len(staged) != 0 {
		t.Errorf("left over: %v", staged)
	}
}

// What an import, a removal and a return change is in the model's revisions.
func TestImportsAndRemovalsAreRevisions(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	const config = "backend: \"onnxruntime\"\nmax_batch_size: 4\n"
	im := r.Upload("", map[string]string{"m/config.pbtxt": config, "m/1/model.onnx": "good"})
	if im = commit(r, im, api.ImportCommit{}); im.State != api.ImportLoaded {
		t.Fatalf("committed = %+v", im)
	}
	im = r.Upload("", map[string]string{"m/config.pbtxt": config, "m/2/model.onnx": "good"})
	if im = commit(r, im, api.ImportCommit{Replace: true}); im.State != api.ImportLoaded {
		t.Fatalf("committed = %+v", im)
	}
	item := get[api.Trashed](r, 200, "DELETE", "/api/models/m", nil)
	get[api.Trashed](r, 200, "POST", "/api/trash/"+item.ID+"/restore", nil)
	list := get[api.Revisions](r, 200, "GET", "/api/models/m/revisions", nil).Revisions
	var sources []string
	for _, rev := range list {
		sources = append(sources, rev.Source)
	}
	if want := []string{"restore", "delete", "versions", "import", "import"}; !slices.Equal(sources, want) {
		t.Fatalf("revisions %v, want %v", sources, want)
	}
	full := func(at int) api.RevisionFull {
		return get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/m/revisions/%d", list[at].ID),
			nil)
	}
	if v := full(2); v.Before != "1\n" || v.After != "2\n" {
		t.Errorf("versions %q to %q, want 1 to 2", v.Before, v.After)
	}
	if d := full(1); d.Before != config || d.After != "" || d.Removed != 2 {
		t.Errorf("removal %+v", d)
	}
	if b := full(0); b.After != config || b.Restores != list[1].ID {
		t.Errorf("return %+v, want it to restore %d", b, list[1].ID)
	}
}

func TestImportAsksBeforeCode(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	im := r.Upload("", map[string]string{"m/1/model.onnx": "good", "m/1/op.so": "x"})
	if len(im.Code) != 1 || im.Code[0].Path != "1/op.so" {
		t.Fatalf("staged = %+v", im)
	}
	if code, body := r.Call("POST", "/api/imports/"+im.ID+"/commit", api.ImportCommit{}); code != 412 {
		t.Errorf("commit without consent = %d %s, want 412", code, body)
	}
	if im = commit(r, im, api.ImportCommit{ConsentCode: true}); im.State != api.ImportLoaded {
		t.Errorf("commit with consent = %+v", im)
	}
}

func TestImportPathAndArchive(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	code, body := r.Call("GET", "/api/models/ready/archive", nil)
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil || code != 200 || len(z.File) != 1 || z.File[0].Name != "ready/1/model.onnx" {
		t.Fatalf("archive = %d, %v, %v", code, err, z)
	}
	f, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "good" {
		t.Errorf("in the archive: %q, %v", text, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "ready.zip")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	im := get[api.Import](r, 201, "POST", "/api/imports", api.ImportCreate{Path: file})
	if im.Origin != api.ImportPath || im.Kind != api.ImportZip || im.Name != "ready" || !im.Exists {
		t.Errorf("staged = %+v", im)
	}
	get[struct{}](r, 204, "DELETE", "/api/imports/"+im.ID, nil)
	if code, _ := r.Call("GET", "/api/imports/"+im.ID, nil); code != 404 {
		t.Errorf("a removed import = %d, want 404", code)
	}
	for _, tt := range []struct {
		name, path string
		want       int
	}{
		{"not there", filepath.Join(dir, "nope.onnx"), 400},
		{"relative", "ready.zip", 400},
		{"no model", "/etc/hostname", 400},
		{"a folder without a model", dir, 400},
		{"the kernel's tree", "/proc/self/model.onnx", 403},
		{"the trash", filepath.Join(r.Data, "trash", "x"), 403},
	} {
		if code, body := r.Call("POST", "/api/imports", api.ImportCreate{Path: tt.path}); code != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, code, body, tt.want)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(r.Data, "imports/*")); len(names) != 0 {
		t.Errorf("staged folders left over: %v", names)
	}
	events := r.Stream("import")
	get[api.Import](r, 201, "POST", "/api/imports", api.ImportCreate{Path: filepath.Join(r.Repo, "ready")})
	if v := next[api.Import](events, "import"); v.Origin != api.ImportPath || v.Kind != api.ImportFolder ||
		v.Name != "ready" {
		t.Errorf("the stream has the import of a folder as %+v", v)
	}
}

func TestImportRefuses_B3(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	im := get[api.Import](r, 201, "POST", "/api/imports", api.ImportCreate{})
	base := "/api/imports/" + im.ID
	if code, _ := r.Call("POST", base+"/analyze", nil); code != 400 {
		t.Errorf("analyse of nothing = %d, want 400", code)
	}
	if code, _ := r.Call("POST", base+"/commit", nil); code != 409 {
		t.Errorf("commit of nothing = %d, want 409", code)
	}
	for _, path := range []string{"..%2f..%2fevil", "%2fetc%2fevil", "a%5c..%5cb", "a%00b", "C:%2fx"} {
		if code, body := r.Call("PUT", base+"/files/"+path, strings.NewReader("x")); code != 400 && code != 405 {
			t.Errorf("PUT of %s = %d %s, want 400", path, code, body)
		}
	}
	if code, _ := r.Call("POST", "/api/imports", api.ImportCreate{TotalBytes: 1 << 60}); code != 413 {
		t.Errorf("an upload larger than the disk = %d, want 413", code)
	}
	if code, body := r.Call("PUT", base+"/files/m.onnx", strings.NewReader("good")); code != 204 {
		t.Fatalf("PUT = %d %s", code, body)
	}
	im = get[api.Import](r, 200, "POST", base+"/analyze", nil)
	for _, name := range []string{"..", "a/b", ".hidden", "a\x00b", strings.Repeat("x", 300)} {
		if code, body := r.Call("PUT", base+"/config", api.ImportConfig{Name: name}); code != 400 {
			t.Errorf("name %q = %d %s, want 400", name, code, body)
		}
	}
	if code, _ := r.Call("PUT", base+"/config", api.ImportConfig{Repository: "/etc"}); code != 400 {
		t.Errorf("another folder as repository = %d, want 400", code)
	}
	im = get[api.Import](r, 200, "PUT", base+"/config",
		api.ImportConfig{Config: "max_batch_size: -3\nnonsense"})
	if len(im.Faults) == 0 || !slices.ContainsFunc(im.Faults, func(f api.Fault) bool { return f.Line == 2 }) {
		t.Errorf("faults = %+v", im.Faults)
	}
	if code, body := r.Call("POST", base+"/commit", nil); code != 409 || !strings.Contains(string(body), "faults") {
		t.Errorf("commit with faults = %d %s, want 409", code, body)
	}
	if code, _ := r.Call("GET", "/api/imports/nope", nil); code != 404 {
		t.Errorf("an unknown import = %d, want 404", code)
	}
}

func TestImportForAMissingBackend(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	im := r.Upload("", map[string]string{"plan/1/model.plan": "plan", "plan/1/helper.py": "print()"})
	if len(im.Faults) != 1 || !strings.HasPrefix(im.Faults[0].Message,
		"backend 'tensorrt' runs engines that TensorRT has built") || im.Faults[0].Field != "backend" ||
		len(im.Code) != 1 {
		t.Fatalf("staged = %+v", im)
	}
	if code, body := r.Call("POST", "/api/imports/"+im.ID+"/commit",
		api.ImportCommit{ConsentCode: true}); code != 409 ||
		!strings.Contains(string(body), "serve the ONNX model that the engine was built from") {
		t.Errorf("commit = %d %s, want 409", code, body)
	}
}

// What is wrong with a dropped file is said without the folder that it is staged in.
func TestErrorsDoNotNameTheStagingFolder(t *testing.T) {
	im := newRig(t, engine.ModeExplicit).Upload("", map[string]string{"net.onnx": "bad file"})
	if len(im.Faults) == 0 {
		t.Fatal("a broken file has no fault")
	}
	for _, f := range im.Faults {
		if strings.Contains(f.Message, "imports") || f.Severity == api.SeverityError &&
			!strings.Contains(f.Message, "1/model.onnx") {
			t.Errorf("fault %q, want the file as 1/model.onnx", f.Message)
		}
	}
}

func TestAFileCalledModelGetsAFreeName(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	if im := r.Upload("", map[string]string{"model.onnx": "good"}); im.Name != "model" || im.Exists {
		t.Errorf("the first is called %q, exists %v; want model, new", im.Name, im.Exists)
	}
	if err := os.MkdirAll(filepath.Join(r.Repo, "model", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if im := r.Upload("", map[string]string{"model.onnx": "good"}); im.Name != "model_2" || im.Exists {
		t.Errorf("the second is called %q, exists %v; want model_2, new", im.Name, im.Exists)
	}
	if im := r.Upload("", map[string]string{"ready.onnx": "good"}); im.Name != "ready" || !im.Exists {
		t.Errorf("a file named as a model is called %q, exists %v; want ready, existing", im.Name, im.Exists)
	}
}

// The user agrees to the list that was shown: another file that would run since then is another question.
func TestConsentIsForTheListThatWasShown_B13(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	im := r.Upload("", map[string]string{"m/1/model.onnx": "good", "m/1/op.so": "x"})
	late := filepath.Join(r.Data, "imports", im.ID, "model", "1", "late.bin")
	if err := os.WriteFile(late, []byte("#!/bin/sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := "/api/imports/" + im.ID + "/commit"
	if code, body := r.Call("POST", path, api.ImportCommit{ConsentCode: true}); code != 412 ||
		!strings.Contains(string(body), "1/late.bin (a script)") {
		t.Fatalf("commit with another file = %d %s, want 412", code, body)
	}
	if im = get[api.Import](r, 200, "GET", "/api/imports/"+im.ID, nil); len(im.Code) != 2 {
		t.Errorf("the question is now %+v", im.Code)
	}
	if im = commit(r, im, api.ImportCommit{ConsentCode: true}); im.State != api.ImportLoaded {
		t.Errorf("commit after the second question = %+v", im)
	}
}

// If the model that an import replaced cannot be put back, it is kept all the same: beside its place, from where the
// next start takes it.
func TestB23ReplacedModelIsKeptIfItCannotBePutBack(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	im := r.Upload("", map[string]string{"broken/1/model.onnx": "bad and gone"})
	im = get[api.Import](r, 200, "PUT", "/api/imports/"+im.ID+"/config", api.ImportConfig{Name: "ready"})
	if im = commit(r, im, api.ImportCommit{Replace: true}); im.State != api.ImportFailed {
		t.Fatalf("committed = %+v", im)
	}
	kept, _ := filepath.Glob(filepath.Join(r.Repo, ".nereid-*/1/model.onnx"))
	if len(kept) != 1 {
		t.Fatalf("the model that was there is gone: %v", kept)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || string(text) != "good" {
		t.Errorf("the model that was there: %q, %v", text, err)
	}
}

// The server refuses a configuration with another name than that of the folder, also those of --model-config-name.
func TestARenamedImportHasItsNameInAllConfigurations(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	im := r.Upload("", map[string]string{"mlp/1/model.onnx": "good", "mlp/config.pbtxt": "name: \"mlp\" # theirs\n",
		"mlp/configs/small.pbtxt": "name: \"mlp\"\nmax_batch_size: 1\n"})
	if im.Name != "mlp" {
		t.Fatalf("staged = %+v", im)
	}
	im = get[api.Import](r, 200, "PUT", "/api/imports/"+im.ID+"/config", api.ImportConfig{Name: "renamed"})
	if im = commit(r, im, api.ImportCommit{}); im.State != api.ImportLoaded {
		t.Fatalf("committed = %+v", im)
	}
	for path, want := range map[string]string{"config.pbtxt": "name: \"renamed\" # theirs\n",
		"configs/small.pbtxt": "name: \"renamed\"\nmax_batch_size: 1\n"} {
		b, err := os.ReadFile(filepath.Join(r.Repo, "renamed", path))
		if err != nil || string(b) != want {
			t.Errorf("%s is %q, %v; want %q", path, b, err, want)
		}
	}
}
