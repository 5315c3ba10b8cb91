package models

import (
	"archive/zip"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
)

// Archive sends a model folder as a zip with one top folder, which an import accepts.
func (h *Handler) Archive(w http.ResponseWriter, r *http.Request) error {
	m, err := h.Catalog.FindWithFolder(r.PathValue("name"))
	if err != nil {
		return err
	}
	list, err := folders.List(m.Folder)
	if err != nil {
		return err
	}
	name := filepath.Base(m.Folder)
	root, within, err := openInside(m)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range list { // before the reply begins: later there is no way to say why
		if _, err := root.Stat(filepath.Join(within, filepath.FromSlash(f.Path))); err != nil {
			return rest.Errorf(api.CodeForbidden, "%s cannot be downloaded: %v; a link that leaves the repository is "+
				"not followed", f.Path, err)
		}
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": name + ".zip"}))
	z := zip.NewWriter(w)
	for _, f := range list {
		if err := addFile(z, root, within, name, f); err != nil {
			h.Log.Warn("the download of a model broke off", "model", m.Name, "file", f.Path, "err", err)
			panic(http.ErrAbortHandler) // the header is sent: only a broken connection shows that the zip is incomplete
		}
	}
	if err := z.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// openInside opens the repository of a model, and returns the path of the model's folder in it. No link leads out of
// it. The copy of a remote model is opened itself.
func openInside(m catalog.Model) (root *os.Root, within string, err error) {
	if m.Copied || m.Repository == "" {
		root, err = os.OpenRoot(m.Folder)
		return root, ".", err
	}
	if within, err = filepath.Rel(m.Repository, m.Folder); err != nil {
		return nil, "", err
	}
	root, err = os.OpenRoot(m.Repository)
	return root, within, err
}

func addFile(z *zip.Writer, root *os.Root, within, top string, f api.File) error {
	in, err := root.Open(filepath.Join(within, filepath.FromSlash(f.Path)))
	if err != nil {
		return err
	}
	defer in.Close()
	h := &zip.FileHeader{Name: path.Join(top, f.Path), Method: zip.Store, Modified: time.UnixMilli(f.ModMs)}
	switch strings.ToLower(path.Ext(f.Path)) {
	case ".txt", ".pbtxt", ".json", ".py", ".md": // weights hardly compress
		h.Method = zip.Deflate
	}
	out, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}
