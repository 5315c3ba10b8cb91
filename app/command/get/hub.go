package get

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nereid/app/console/imports/staging"
	"nereid/app/download"
	"nereid/app/durable"
)

// defaultHub is where hf: sources are, unless HF_ENDPOINT says otherwise.
const defaultHub = "https://huggingface.co"

// maxIndex is the most that a hub or a registry may say about a model, in bytes.
const maxIndex = 16 << 20

var (
	hubName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	hubRevision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$`)
)

// hubSource is hf:owner/name[/file][@revision].
type hubSource struct{ model, file, revision string }

func parseHub(source string) (h hubSource, err error) {
	rest, revision, given := strings.Cut(strings.TrimPrefix(source, "hf:"), "@")
	parts := strings.SplitN(rest, "/", 3)
	bad := fmt.Errorf("%q is no model of a hub; want hf:OWNER/NAME, hf:OWNER/NAME/FILE, or either with @REVISION",
		source)
	if len(parts) < 2 || !hubName.MatchString(parts[0]) || !hubName.MatchString(parts[1]) ||
		given && (!hubRevision.MatchString(revision) || strings.Contains(revision, "..")) {
		return h, bad
	}
	h = hubSource{model: parts[0] + "/" + parts[1], revision: cmp.Or(revision, "main")}
	if len(parts) == 3 {
		if h.file, err = staging.CleanPath(parts[2]); err != nil || h.file != parts[2] {
			return h, bad
		}
	}
	return h, nil
}

// hubModel is what the hub says about one revision of a model: GET /api/models/OWNER/NAME/revision/REVISION?blobs=true.
// https://huggingface.co/docs/hub/api
type hubModel struct {
	Commit   string    `json:"sha"`
	Files    []hubFile `json:"siblings"`
	CardData struct {
		License any `json:"license"`
	} `json:"cardData"`
}

type hubFile struct {
	Name string `json:"rfilename"`
	Size int64  `json:"size"`
	LFS  struct {
		SHA256 string `json:"sha256"`
	} `json:"lfs"`
}

func (m *hubModel) find(name string) (hubFile, bool) {
	i := slices.IndexFunc(m.Files, func(f hubFile) bool { return f.Name == name })
	if i < 0 {
		return hubFile{}, false
	}
	return m.Files[i], true
}

// hub fetches the files of one model.
type hub struct {
	*getter
	hubSource
	endpoint string
	header   http.Header
	client   *http.Client
	info     hubModel
	room     int64
}

// companions are files that models are used with. They are small, and beside the model file or at the top.
var companions = []string{"config.pbtxt", "config.json", "preprocessor_config.json", "tokenizer.json",
	"tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt", "labels.txt",
	"LICENSE", "LICENSE.txt", "LICENSE.md"}

const maxCompanion = 32 << 20

func (o *getter) fromHub(ctx context.Context) ([]staged, error) {
	source, err := parseHub(o.source)
	if err != nil {
		return nil, err
	}
	h := &hub{getter: o, hubSource: source, endpoint: defaultHub, header: http.Header{}, client: download.NewClient(),
		room: o.maxBytes()}
	if v, ok := o.env.Lookup("HF_ENDPOINT"); ok && v != "" {
		h.endpoint = strings.TrimRight(v, "/")
	}
	token, err := o.hubToken()
	if err != nil {
		return nil, err
	}
	if token != "" {
		h.header.Set("Authorization", "Bearer "+token)
	}
	if err := h.describe(ctx); err != nil {
		return nil, err
	}
	model, err := h.choose()
	if err != nil {
		return nil, err
	}
	return h.stage(ctx, model)
}

// hubToken finds the user's token where Hugging Face's tools have it; "" if there is none.
func (o *getter) hubToken() (string, error) {
	env := func(name string) string { v, _ := o.env.Lookup(name); return v }
	if o.tokenFile != "" {
		b, err := os.ReadFile(o.tokenFile)
		return strings.TrimSpace(string(b)), err
	}
	if token := strings.TrimSpace(env("HF_TOKEN")); token != "" {
		return token, nil
	}
	home, cache := env("HF_HOME"), env("XDG_CACHE_HOME")
	if cache == "" && env("HOME") != "" {
		cache = filepath.Join(env("HOME"), ".cache")
	}
	if home == "" && cache != "" {
		home = filepath.Join(cache, "huggingface")
	}
	file := env("HF_TOKEN_PATH")
	if file == "" && home != "" {
		file = filepath.Join(home, "token")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", nil //nolint:nilerr // most users have none
	}
	return strings.TrimSpace(string(b)), nil
}

// describe asks the hub which files the model has.
func (h *hub) describe(ctx context.Context) error {
	file := filepath.Join(h.work.models(), "about.json")
	at := h.endpoint + "/api/models/" + h.model + "/revision/" + url.PathEscape(h.revision) + "?blobs=true"
	if err := h.download(ctx, at, file, maxIndex); err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &h.info); err != nil {
		return fmt.Errorf("%s does not answer as a hub: %w", h.endpoint, err)
	}
	if h.info.Commit == "" || !hubRevision.MatchString(h.info.Commit) {
		return fmt.Errorf("%s does not name the commit of %s", h.endpoint, h.model)
	}
	for _, f := range h.info.Files {
		if clean, err := staging.CleanPath(f.Name); err != nil || clean != "" && clean != f.Name {
			return fmt.Errorf("%s has a file %q, which is no file name: %w", h.model, f.Name, err)
		}
	}
	return nil
}

// download fetches a URL of the hub and says what its errors mean.
func (h *hub) download(ctx context.Context, at, file string, most int64) error {
	d := h.getter.download(at, h.client, most)
	d.Header = h.header
	err := d.To(ctx, file)
	status, ok := errors.AsType[*download.StatusError](err)
	if !ok {
		return err
	}
	what := status.Header.Get("X-Error-Code")
	switch {
	case status.Code == http.StatusUnauthorized && h.header.Get("Authorization") == "":
		return fmt.Errorf("%s has no public model %s (%w). If it is private or gated, give a token that may read it "+
			"(HF_TOKEN, or --token-file)", h.endpoint, h.model, err)
	case status.Code == http.StatusUnauthorized:
		return fmt.Errorf("the token is not valid for %s, or %s does not exist: %w", h.endpoint, h.model, err)
	case status.Code == http.StatusForbidden:
		return fmt.Errorf("%s is gated, and the token may not read it: agree to its terms at %s/%s with the token's "+
			"account (%w)", h.model, h.endpoint, h.model, err)
	case what == "RevisionNotFound":
		return fmt.Errorf("%s has no revision %s: %w", h.model, h.revision, err)
	case status.Code == http.StatusNotFound:
		return fmt.Errorf("%s has no model %s, or not the file: %w", h.endpoint, h.model, err)
	}
	return err
}

// choose finds the model's file: the one that the user names, or the only ONNX file, or the one called model.onnx.
func (h *hub) choose() (hubFile, error) {
	var names, weights []string
	for _, f := range h.info.Files {
		switch ext := path.Ext(f.Name); {
		case ext == ".onnx":
			names = append(names, f.Name)
		case slices.Contains([]string{".safetensors", ".bin", ".h5", ".msgpack"}, ext):
			weights = append(weights, f.Name)
		}
	}
	if h.file != "" {
		if f, ok := h.info.find(h.file); ok {
			return f, nil
		}
		return hubFile{}, fmt.Errorf("%s has no file %s; its ONNX files are: %s", h.model, h.file, some(names))
	}
	if len(names) == 1 {
		f, _ := h.info.find(names[0])
		return f, nil
	}
	for _, usual := range []string{"model.onnx", "onnx/model.onnx"} {
		if f, ok := h.info.find(usual); ok {
			return f, nil
		}
	}
	switch {
	case len(names) > 0:
		return hubFile{}, fmt.Errorf("%s has several models; choose one with hf:%s/FILE: %s", h.model, h.model,
			some(names))
	case len(weights) > 0:
		return hubFile{}, fmt.Errorf("%s has only weights (%s) and no graph, so it cannot be served as it is; export "+
			"it: optimum-cli export onnx --model %s FOLDER, or look for an ONNX version on the hub", h.model,
			some(weights), h.model)
	}
	return hubFile{}, fmt.Errorf("%s has no ONNX file; name another one with hf:%s/FILE", h.model, h.model)
}

func some(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	const most = 12
	if len(names) > most {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// stage fetches the model's file, the files that it names and its companions, and makes a model folder of them.
func (h *hub) stage(ctx context.Context, model hubFile) ([]staged, error) {
	file, sum, err := h.fetchFile(ctx, model, h.sha256)
	if err != nil {
		return nil, err
	}
	beside, err := externals(file)
	if err != nil {
		return nil, err
	}
	folder := path.Dir(model.Name)
	for _, name := range beside {
		f, ok := h.info.find(path.Join(folder, name))
		if !ok {
			return nil, fmt.Errorf("%s keeps weights in %s, which %s does not have", model.Name, name, h.model)
		}
		if _, _, err := h.fetchFile(ctx, f, ""); err != nil {
			return nil, err
		}
	}
	license, _ := h.info.CardData.License.(string)
	p := provenance{Model: h.modelName(model.Name), Source: h.source, From: h.endpoint + "/" + h.model,
		File: model.Name, Revision: h.info.Commit, License: license, SHA256: sum, Bytes: model.Size}
	all, err := h.arrange(filepath.Join(h.work.models(), "0"), file, beside, p)
	if err != nil {
		return nil, err
	}
	for _, name := range companions {
		f, ok := h.info.find(path.Join(folder, name))
		if !ok {
			f, ok = h.info.find(name)
		}
		if !ok || f.Size > maxCompanion {
			continue
		}
		at, _, err := h.fetchFile(ctx, f, "")
		if err != nil {
			return nil, err
		}
		if err := durable.Copy(at, filepath.Join(all[0].dir, name)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// modelName names a model whose file is called model.onnx after its repository.
func (h *hub) modelName(file string) string {
	stem := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if variant, ok := strings.CutPrefix(stem, "model"); ok {
		stem = path.Base(h.model) + variant
	}
	return staging.ModelName(stem)
}

// fetchFile fetches one file and checks its digest, which the hub knows of large files.
func (h *hub) fetchFile(ctx context.Context, f hubFile, want string) (file, sum string, err error) {
	file = filepath.Join(h.work.downloads(), filepath.FromSlash(f.Name))
	at := h.endpoint + "/" + h.model + "/resolve/" + h.info.Commit + "/" + (&url.URL{Path: f.Name}).EscapedPath()
	if err := h.download(ctx, at, file, h.room); err != nil {
		return "", "", err
	}
	sum, size, err := download.Digest(file, f.LFS.SHA256, "the hub")
	if err == nil && want != "" && !strings.EqualFold(want, sum) {
		_, _, err = download.Digest(file, want, "--sha256")
	}
	if err == nil && f.Size > 0 && f.Size != size {
		err = fmt.Errorf("%s has %d bytes, not %d as the hub says", f.Name, size, f.Size)
	}
	h.room -= size
	return file, sum, err
}
