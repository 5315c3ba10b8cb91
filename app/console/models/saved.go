package models

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/engine/model"
	"nereid/engine/repo"
)

const (
	maxSavedBytes = 4 << 20 // of one saved request
	maxSaved      = 200     // saved requests of a model that are listed, and that can be made
	savedExt      = ".json"
)

// SavedRequests lists the saved requests of a model.
func (h *Handler) SavedRequests(r *http.Request) (out api.SavedRequests, err error) {
	m, err := h.Catalog.FindWithFolder(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	if err := m.CheckEditable(); err != nil {
		out.WhyNot = err.Error()
	}
	root, err := os.OpenRoot(m.Folder)
	if err != nil {
		return out, err
	}
	defer root.Close()
	out.Items, err = listSaved(root, repo.RequestsFolder)
	return out, err
}

// listSaved lists the saved requests in a folder of a model, at most maxSaved.
func listSaved(root *os.Root, folder string) (list []api.SavedItem, err error) {
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		name, isJSON := strings.CutSuffix(e.Name(), savedExt)
		info, err := e.Info()
		if isJSON && err == nil && info.Mode().IsRegular() && checkSavedName(name) == nil && len(list) < maxSaved {
			list = append(list, api.SavedItem{Name: name, SizeBytes: info.Size()})
		}
	}
	return list, nil
}

// checkSavedName refuses a name that is no plain file name.
func checkSavedName(name string) error {
	const most = 100
	if repo.CheckName(name) != nil || len(name) > most {
		return rest.Errorf(api.CodeInvalid, "%s cannot name a saved request: use at most %d bytes, no path "+
			"separators, no control characters and no leading dot", rest.Quote(name), most)
	}
	return nil
}

// SavedRequest returns a saved request.
func (h *Handler) SavedRequest(r *http.Request) (out api.SavedRequest, err error) {
	name := r.PathValue("request")
	if err := checkSavedName(name); err != nil {
		return out, err
	}
	m, err := h.Catalog.FindWithFolder(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	root, err := os.OpenRoot(m.Folder)
	if err != nil {
		return out, err
	}
	defer root.Close()
	file := path.Join(repo.RequestsFolder, name+savedExt)
	info, err := root.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return out, rest.Errorf(api.CodeNotFound, "model %q has no saved request %s", m.Name, rest.Quote(name))
	}
	if err != nil {
		return out, err
	}
	if info.Size() > maxSavedBytes {
		return out, rest.Errorf(api.CodeTooLarge, "%s has %d bytes; the page takes saved requests of at most %d", file,
			info.Size(), maxSavedBytes)
	}
	text, err := root.ReadFile(file)
	return api.SavedRequest{Name: name, Text: string(text)}, err
}

// SaveRequest writes a saved request into the model's folder. It reloads nothing.
func (h *Handler) SaveRequest(r *http.Request, req *api.SaveRequest) (out api.SavedRequests, err error) {
	name, folder, check := r.PathValue("request"), repo.RequestsFolder, checkSaved
	if req.Golden {
		folder, check = model.GoldenFolder, checkGolden
	}
	if err := errors.Join(checkSavedName(name), check(req.Text)); err != nil {
		return out, err
	}
	defer h.Catalog.Lock(r.PathValue("name"))()
	m, err := h.Catalog.Find(r.PathValue("name"))
	if err == nil {
		err = m.CheckEditable()
	}
	if err != nil {
		return out, err
	}
	root, err := os.OpenRoot(m.Folder)
	if err != nil {
		return out, err
	}
	defer root.Close()
	if err := root.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return out, err
	}
	file := path.Join(folder, name+savedExt)
	if _, err := root.Lstat(file); err == nil && !req.Replace {
		return out, rest.Errorf(api.CodeConflict, "model %q has a saved request %q already; choose another name, or "+
			"replace it", m.Name, name)
	} else if list, _ := listSaved(root, folder); err != nil && len(list) >= maxSaved {
		return out, rest.Errorf(api.CodeTooLarge, "model %q has %d saved requests; remove some from its folder %s",
			m.Name, len(list), folder)
	}
	if err := writeSaved(root, file, req.Text); err != nil {
		return out, err
	}
	out.Items, err = listSaved(root, folder)
	return out, err
}

// checkGolden refuses a text that is no file of golden requests. Loading a version checks its tensors.
func checkGolden(text string) error {
	if len(text) > maxSavedBytes {
		return rest.Errorf(api.CodeTooLarge, "the request has %d bytes; saved requests have at most %d", len(text),
			maxSavedBytes)
	}
	var f struct {
		Data       []map[string]json.RawMessage `json:"data"`
		Validation []map[string]json.RawMessage `json:"validation_data"`
	}
	err := json.Unmarshal([]byte(text), &f)
	if err != nil || len(f.Data) == 0 || len(f.Data) != len(f.Validation) {
		return rest.Errorf(api.CodeInvalid, "the text is no file of golden requests: data and validation_data must be "+
			"lists with as many requests as answers")
	}
	return nil
}

// checkSaved refuses a text that is no request.
func checkSaved(text string) error {
	if len(text) > maxSavedBytes {
		return rest.Errorf(api.CodeTooLarge, "the request has %d bytes; saved requests have at most %d", len(text),
			maxSavedBytes)
	}
	var body struct {
		Inputs []struct {
			Name string `json:"name"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		return rest.Errorf(api.CodeInvalid, "the request is not JSON of the KServe protocol: %v", err)
	}
	if len(body.Inputs) == 0 {
		return rest.Errorf(api.CodeInvalid, "the request has no inputs; save a request that can be sent")
	}
	return nil
}

// writeSaved gives a file in a model folder its content, in one step. No link leads out of the folder.
func writeSaved(root *os.Root, file, text string) error {
	part := path.Join(path.Dir(file), ".nereid-"+folders.NewID())
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(part, file)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return nil
}
