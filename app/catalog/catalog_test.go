package catalog_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/catalog"
	"nereid/docs/examples/catalog/platform"
)

const weights = "0123456789abcdef"

// A version that is published is served on both nodes, one of which has its file from the other. A new version
// replaces it, and a model that is not published any more is in the trash.
func TestA023PublishedModelsAreServedOnAllNodes(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.peers = true
	large := strings.Repeat(weights, 1<<15)
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": large})
	a, b := r.start("a", t.TempDir(), nil), r.start("b", t.TempDir(), nil)
	write(t, a.own, map[string]string{"mine/config.pbtxt": identity, "mine/1/x": "x"})
	for _, name := range []string{"a", "b"} {
		r.wait(name, "version 1", versions("m", 1))
	}
	if want := int64(len(large) + len(identity)); r.sent() != want {
		t.Errorf("the platform has sent %d bytes, want %d: each file once", r.sent(), want)
	}
	r.publish(map[string]string{"m/2/data": "two"})
	if err := os.RemoveAll(filepath.Join(r.models, "m/1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		r.wait(name, "version 2", versions("m", 2))
	}
	if err := os.RemoveAll(filepath.Join(r.models, "m")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*machine{a, b} {
		name := map[*machine]string{a: "a", b: "b"}[m]
		r.wait(name, "no model and no file", func(r catalog.Report) bool { return len(r.Models)+len(r.Files) == 0 })
		trash, _ := filepath.Glob(filepath.Join(m.dir, "trash/*/model/2/data"))
		if m.serves("m") || exists(m.dir, "catalog/models/m") || len(trash) != 1 {
			t.Errorf("%s still has the model, or not in the trash: %v", name, trash)
		}
	}
	if !exists(a.own, "mine/1/x") {
		t.Error("the operator's model is gone")
	}
}

// A pull that is cut in the middle is continued: no byte is sent twice.
func TestCutPullsAreResumed_A023_B29(t *testing.T) {
	r := newRig(t, platform.Options{Cut: 1000})
	large := strings.Repeat(weights, 1<<12)
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": large})
	r.start("a", t.TempDir(), nil)
	r.wait("a", "version 1", versions("m", 1))
	if want := int64(len(large) + len(identity)); r.sent() != want {
		t.Errorf("the platform has sent %d bytes, want %d", r.sent(), want)
	}
}

// With the platform gone, a node serves on, also after a restart.
func TestNodesServeWithoutThePlatform_A023_B29(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": weights})
	dir := t.TempDir()
	a := r.start("a", dir, nil)
	r.wait("a", "version 1", versions("m", 1))
	h := r.handler
	r.setPlatform(nil)
	a.stop()
	if a = r.start("a", dir, nil); !a.serves("m") {
		t.Error("the model is not served without the platform")
	}
	// Back again, it finds the node as it was.
	r.setPlatform(h)
	r.publish(map[string]string{"m/2/data": "two"})
	r.wait("a", "version 2", versions("m", 2))
}

// fixed is a platform with one answer, and one file under all digests.
func fixed(t *testing.T, d catalog.Desired, served string) http.Handler {
	t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/nodes/{node}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("GET /v1/nodes/{node}/desired", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	mux.HandleFunc("GET /v1/files/{sha256}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte(served))
	})
	return mux
}

// What the catalog publishes does not harm a node: each model is refused with the reason, and the others are served.
func TestModelsOfACatalogAreRefusedWithTheReason_A023_B28(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.publish(map[string]string{"good/config.pbtxt": identity, "good/1/data": weights,
		"code/config.pbtxt": `backend: "python"`, "code/1/model.py": "import os",
		"taken/config.pbtxt": identity, "taken/1/data": "theirs",
		"broken/config.pbtxt": `backend: "nosuch"`, "broken/1/data": "x"})
	dir := t.TempDir()
	write(t, dir, map[string]string{"models/taken/config.pbtxt": identity, "models/taken/1/data": "mine"})
	a := r.start("a", dir, nil)
	r.wait("a", "the good model", versions("good", 1))
	r.wait("a", "code", state("code", "REFUSED", "1/model.py (a Python program"))
	r.wait("a", "code", state("code", "REFUSED", "--catalog-allow-code"))
	r.wait("a", "the name", state("taken", "REFUSED", "which is not from the catalog"))
	r.wait("a", "the fault", state("broken", "FAILED", "nosuch"))
	if b, err := os.ReadFile(filepath.Join(dir, "models/taken/1/data")); err != nil || string(b) != "mine" {
		t.Errorf("the operator's model has %q, %v", b, err)
	}
	for _, name := range []string{"code", "taken", "broken"} {
		if exists(a.node.Repository(), name) {
			t.Errorf("%s is in the repository", name)
		}
	}
}

// A file with another digest is not kept, and the heartbeat names it. Paths do not leave the folder.
func TestFilesOfACatalogAreCheckedByTheirDigests_A023_B28(t *testing.T) {
	r := newRig(t, platform.Options{})
	sum := strings.Repeat("ab", 32)
	own := []string{r.url.String() + "/v1/files/" + sum}
	r.setPlatform(fixed(t, catalog.Desired{Models: []catalog.Model{
		{Name: "wrong", Config: identity, Files: []catalog.File{{Path: "1/data", Size: 7, SHA256: sum, URLs: own}}},
		{Name: "long", Config: identity, Files: []catalog.File{{Path: "1/data", Size: 3, SHA256: sum, URLs: own}}},
		{Name: "out", Config: identity, Files: []catalog.File{{Path: "../x", Size: 7, SHA256: sum, URLs: own}}},
		{Name: "none", Config: identity, Files: []catalog.File{{Path: "1/data", Size: 7, SHA256: sum}}},
		{Name: "huge", Config: identity, Files: []catalog.File{{Path: "1/a", Size: 1<<63 - 1, SHA256: sum, URLs: own},
			{Path: "1/b", Size: 1<<63 - 1, SHA256: strings.Repeat("cd", 32), URLs: own}}},
	}}, "another"))
	a := r.start("a", t.TempDir(), nil)
	r.wait("a", "the digest", state("wrong", "FAILED", "not "+sum+" of the catalog; nothing was kept"))
	r.wait("a", "the size", state("long", "FAILED", "which are more than 3"))
	r.wait("a", "the path", state("out", "REFUSED", `"../x"`))
	r.wait("a", "the sum", state("huge", "REFUSED", "more bytes than a disk has"))
	r.wait("a", "the source", state("none", "WAITING", "no source"))
	if files, _ := filepath.Glob(filepath.Join(a.dir, "catalog/files", sum)); len(files) > 0 {
		t.Errorf("%v is kept", files)
	}
}

// A version that does not load leaves the one in service, on the disk too.
func TestAVersionOfACatalogThatDoesNotLoadLeavesTheOldOne_A023_B28(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": weights})
	dir := t.TempDir()
	a := r.start("a", dir, nil)
	r.wait("a", "version 1", versions("m", 1))
	r.publish(map[string]string{"m/config.pbtxt": `backend: "nosuch"`})
	report := r.wait("a", "the fault", state("m", "FAILED", "nosuch"))
	if v := report.Models[0].Versions; len(v) != 1 || v[0].State != "READY" || !a.serves("m") {
		t.Errorf("the old version is not served: %+v", v)
	}
	a.stop()
	if a = r.start("a", dir, nil); !a.serves("m") {
		t.Error("the old version is not served after a restart")
	}
}

// A model that has ended the server twice while it was loaded is not loaded a third time.
func TestModelsThatEndTheServerAreTakenBack_A023_B28(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": weights})
	dir := t.TempDir()
	r.start("a", dir, nil).stop()
	a := r.start("a", dir, nil)
	r.wait("a", "version 1", versions("m", 1))
	a.stop()
	folder, file := filepath.Join(dir, "catalog/models/m"), filepath.Join(dir, "catalog/state.json")
	digest, err := os.ReadFile(filepath.Join(folder, ".nereid-catalog"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // as a process leaves it that ends in the load
		b, err := os.ReadFile(file)
		var kept map[string]any
		if err != nil || json.Unmarshal(b, &kept) != nil {
			t.Fatal(err)
		}
		kept["trying"] = map[string]any{"model": "m", "digest": strings.TrimSpace(string(digest))}
		kept["crashed"] = map[string]any{"m": map[string]any{"digest": strings.TrimSpace(string(digest)), "times": i}}
		if b, err = json.Marshal(kept); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		a = r.start("a", dir, nil)
		if i == 0 {
			r.wait("a", "version 1 after one crash", func(c catalog.Report) bool {
				return versions("m", 1)(c) && exists(folder)
			})
		} else {
			r.wait("a", "a refusal", state("m", "REFUSED", "exited 2 times"))
		}
		a.stop()
	}
}

// A node gives its files only to those who know the catalog's token, and nobody learns it from what is asked.
func TestPeersNeedTheToken_A023_H18(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": weights})
	a := r.start("a", t.TempDir(), nil)
	report := r.wait("a", "version 1", versions("m", 1))
	for _, given := range []string{"", "Bearer " + token, "Bearer " + strings.Repeat("0", 64)} {
		for _, path := range append(report.Files, "../state.json", "state.json") {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodGet, "/v1/files/"+path, nil)
			req.Header.Set("Authorization", given)
			a.node.Handler().ServeHTTP(w, req)
			if w.Code == http.StatusOK || w.Code == http.StatusPartialContent {
				t.Errorf("%q gets %s: %d", given, path, w.Code)
			}
		}
	}
}

// A model of the operator's is never touched: if it comes after one of the catalog, it is served in its place.
func TestTheOperatorsModelIsServedInPlaceOfTheCatalogs_A023_B28(t *testing.T) {
	r := newRig(t, platform.Options{})
	r.publish(map[string]string{"m/config.pbtxt": identity, "m/1/data": weights})
	dir := t.TempDir()
	a := r.start("a", dir, nil)
	r.wait("a", "version 1", versions("m", 1))
	made := filepath.Join(dir, "made")
	write(t, made, map[string]string{"config.pbtxt": identity, "3/data": "mine"})
	if err := os.Rename(made, filepath.Join(a.own, "m")); err != nil {
		t.Fatal(err)
	}
	r.wait("a", "the name", state("m", "REFUSED", "which is not from the catalog"))
	st, _ := a.Model("m")
	if st.Repository != a.own || !a.serves("m") || exists(a.node.Repository(), "m") {
		t.Errorf("served from %q: %v", st.Repository, a.serves("m"))
	}
	trash, _ := filepath.Glob(filepath.Join(dir, "trash/*/model/1/data"))
	if len(trash) != 1 {
		t.Errorf("the catalog's model is not in the trash: %v", trash)
	}
	// A refusal for the name alone ends with the reason, however long it was.
	if err := os.Rename(filepath.Join(a.own, "m"), made); err != nil {
		t.Fatal(err)
	}
	r.wait("a", "version 1 again", versions("m", 1))
}

// A pull that takes long does not delay other models.
func TestAStuckPullDelaysNoOtherModel_A023_B29(t *testing.T) {
	r := newRig(t, platform.Options{})
	stuck, asked := make(chan struct{}), make(chan struct{}, 100)
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-stuck
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(stuck) })
	sum := sha256.Sum256([]byte(weights))
	data := hex.EncodeToString(sum[:])
	r.setPlatform(fixed(t, catalog.Desired{Models: []catalog.Model{
		{Name: "a", Config: identity, Files: []catalog.File{{Path: "1/data", Size: 7, SHA256: strings.Repeat("ab", 32),
			URLs: []string{slow.URL}}}},
		{Name: "b", Config: identity, Files: []catalog.File{{Path: "1/data", Size: int64(len(weights)), SHA256: data,
			URLs: []string{r.url.String() + "/v1/files/" + data}}}},
	}}, weights))
	r.start("a", t.TempDir(), nil)
	<-asked
	r.wait("a", "the other model", versions("b", 1))
	r.wait("a", "the stuck pull", state("a", "PULLING", ""))
}

// A model whose name no folder can have is refused, and one that is there twice stays as it was. The others are served.
func TestABadNameDoesNotStopTheOtherModels_A023_B28(t *testing.T) {
	r := newRig(t, platform.Options{})
	sum := sha256.Sum256([]byte(weights))
	data := hex.EncodeToString(sum[:])
	model := func(name, version string) catalog.Model {
		return catalog.Model{Name: name, Config: identity, Files: []catalog.File{{Path: version + "/data",
			Size: int64(len(weights)), SHA256: data, URLs: []string{r.url.String() + "/v1/files/" + data}}}}
	}
	r.setPlatform(fixed(t, catalog.Desired{Models: []catalog.Model{model("a", "1"), model("m", "1")}}, weights))
	dir := t.TempDir()
	node := r.start("a", dir, nil)
	r.wait("a", "a", versions("a", 1))
	r.wait("a", "m", versions("m", 1))
	r.setPlatform(fixed(t, catalog.Desired{Models: []catalog.Model{
		model("../../evil", "1"), model("m", "2"), model("m", "3"), model("", "1"), model("b", "1"), model("a", "2"),
	}}, weights))
	r.wait("a", "the bad name", state("../../evil", "REFUSED", "must be a plain folder name"))
	r.wait("a", "the empty name", state("", "REFUSED", "must not be empty"))
	r.wait("a", "the name that is there twice", state("m", "REFUSED", "has this name more than once"))
	r.wait("a", "the new model", versions("b", 1))
	r.wait("a", "the new version", versions("a", 2))
	if !node.serves("m") || exists(dir, "evil") || exists(filepath.Dir(dir), "evil") {
		t.Error("m is not served any more, or a folder is outside the repository")
	}
	node.stop()
	node = r.start("a", dir, nil) // with the state that was kept
	r.wait("a", "the bad name again", state("../../evil", "REFUSED", "must be a plain folder name"))
	if !node.serves("m") || !node.serves("b") {
		t.Error("models are not served after a restart")
	}
	r.setPlatform(fixed(t, catalog.Desired{Models: []catalog.Model{model("m", "2")}}, weights))
	report := r.wait("a", "one model", versions("m", 2))
	if len(report.Models) != 1 {
		t.Errorf("the report has %+v", report.Models)
	}
}
