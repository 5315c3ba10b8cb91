package imports

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/configs"
	"nereid/app/console/models"
	"nereid/app/console/stream"
	"nereid/app/console/tasks"
	"nereid/store"
)

// newHandler makes a Handler without an engine.
func newHandler(t *testing.T) *Handler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	memory, err := store.OpenMemory(t.Context(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := memory.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	h, err := New(Options{
		DataDir: t.TempDir(), Catalog: catalog.New(catalog.Options{Repositories: []string{t.TempDir()}}),
		Writer:  &configs.Writer{Store: memory, Log: log},
		Checker: &configs.Checker{}, Streams: stream.NewHub(), Tasks: tasks.NewGroup(),
		Trash: &models.Trash{Dir: filepath.Join(t.TempDir(), "trash")}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// request is a request whose path names an import, and a file m.onnx.
func request(t *testing.T, id string, body io.Reader) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/", body)
	r.SetPathValue("id", id)
	r.SetPathValue("path", "m.onnx")
	return r
}

// age makes an import look as if nobody had used it for two lifetimes.
func age(t *testing.T, h *Handler, id string) {
	t.Helper()
	s, err := h.get(id)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = s.touched.Add(-2 * importLifetime)
}

func TestOldImportsAreRemoved(t *testing.T) {
	h := newHandler(t)
	im, err := h.Create(request(t, "", nil), &api.ImportCreate{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.PutFile(request(t, im.ID, strings.NewReader("good"))); err != nil {
		t.Fatal(err)
	}
	h.Expire()
	if _, err := h.get(im.ID); err != nil {
		t.Fatalf("a young import is removed: %v", err)
	}
	age(t, h, im.ID)
	h.Expire()
	if names, _ := filepath.Glob(filepath.Join(h.DataDir, "imports/*")); len(names) != 0 {
		t.Errorf("an old import is still there: %v", names)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A file may take longer to arrive than an import lives without a call.
func TestImportsInUseDoNotExpire(t *testing.T) {
	h := newHandler(t)
	im, err := h.Create(request(t, "", nil), &api.ImportCreate{})
	if err != nil {
		t.Fatal(err)
	}
	slow := readerFunc(func(p []byte) (int, error) {
		age(t, h, im.ID)
		h.Expire()
		return copy(p, "good"), io.EOF
	})
	if err := h.PutFile(request(t, im.ID, slow)); err != nil {
		t.Fatalf("a file that took two hours to arrive: %v", err)
	}
	if got, err := h.Analyze(request(t, im.ID, nil)); err != nil || len(got.Files) == 0 {
		t.Errorf("the import has no files: %+v, %v", got, err)
	}
	age(t, h, im.ID)
	h.Expire()
	if _, err := h.get(im.ID); err == nil {
		t.Error("an import that nobody writes to any more stays forever")
	}
}

// Imports that are done give way to new ones; those that are open do not.
func TestImportsThatAreDoneDoNotCountAsOpen(t *testing.T) {
	h := newHandler(t)
	ids := make([]string, maxImports)
	for i := range ids {
		s, err := h.add(api.ImportUpload, "m")
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = s.view.ID
	}
	if _, err := h.add(api.ImportUpload, "m"); err == nil {
		t.Error("more imports than the limit are open")
	}
	age(t, h, ids[7])
	for _, i := range []int{3, 7} {
		h.staged[ids[i]].view.State = api.ImportLoaded
	}
	if _, err := h.add(api.ImportUpload, "m"); err != nil {
		t.Errorf("with imports that are done: %v", err)
	}
	if h.staged[ids[7]] != nil || h.staged[ids[3]] == nil || len(h.staged) != maxImports {
		t.Errorf("%d imports are kept; the first that was done must go", len(h.staged))
	}
}

// The models of a repository become imports of their own. Ensembles come last: their steps must be loaded first.
func TestSeveralModelsAreImportsOfTheirOwn(t *testing.T) {
	h := newHandler(t)
	im, err := h.Create(request(t, "", nil), &api.ImportCreate{Source: "store.zip"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"store/all/config.pbtxt": `platform: "ensemble" ensemble_scheduling { step [ { model_name: "b" } ] }`,
		"store/all/1/.keep":      "", "store/b/1/model.onnx": "b", "store/c/1/model.onnx": "c",
	} {
		r := request(t, im.ID, strings.NewReader(text))
		r.SetPathValue("path", name)
		if err := h.PutFile(r); err != nil {
			t.Fatal(err)
		}
	}
	im, err = h.Analyze(request(t, im.ID, nil))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{im.Name}
	for _, id := range im.More {
		one, err := h.Get(request(t, id, nil))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, one.Name)
		if one.State != api.ImportStaged || len(one.Files) == 0 || one.Source != "store.zip" || len(one.More) != 0 {
			t.Errorf("%s: %+v", one.Name, one)
		}
	}
	if want := []string{"b", "c", "all"}; !slices.Equal(names, want) {
		t.Errorf("imports of %v, want %v", names, want)
	}
	if _, err := h.Analyze(request(t, im.ID, nil)); err == nil {
		t.Error("a divided import is divided again")
	}
}

func TestARenamedImportKeepsItsNameWhenItIsAnalysedAgain(t *testing.T) {
	h := newHandler(t)
	im, err := h.Create(request(t, "", nil), &api.ImportCreate{Source: "mlp"})
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		r := request(t, im.ID, strings.NewReader(text))
		r.SetPathValue("path", name)
		if err := h.PutFile(r); err != nil {
			t.Fatal(err)
		}
		if im, err = h.Analyze(request(t, im.ID, nil)); err != nil {
			t.Fatal(err)
		}
	}
	put("mlp/config.pbtxt", "name: \"mlp\" # theirs\n")
	if im, err = h.Configure(request(t, im.ID, nil), &api.ImportConfig{Name: "renamed"}); err != nil {
		t.Fatal(err)
	}
	const want = "name: \"renamed\" # theirs\n"
	if im.Name != "renamed" || im.Config != want {
		t.Errorf("renamed: %q with %q", im.Name, im.Config)
	}
	put("mlp/1/model.onnx", "graph")
	if im.Name != "renamed" || im.Config != want {
		t.Errorf("analysed again: %q with %q, want %q", im.Name, im.Config, want)
	}
}

// If there is no place for all models, none is left behind.
func TestModelsThatDoNotFitAreNotImported(t *testing.T) {
	h := newHandler(t)
	im, err := h.Create(request(t, "", nil), &api.ImportCreate{Source: "store"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxImports + 1 {
		r := request(t, im.ID, strings.NewReader("m"))
		r.SetPathValue("path", fmt.Sprintf("m%d/1/model.onnx", i))
		if err := h.PutFile(r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Analyze(request(t, im.ID, nil)); err == nil || !strings.Contains(err.Error(), "imports are open") {
		t.Errorf("Analyze: %v", err)
	}
	if len(h.staged) != 1 {
		t.Errorf("%d imports are left", len(h.staged))
	}
}
