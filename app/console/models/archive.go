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
	"nereid/app/console/folders"
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
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": name + ".zip"}))
	z := zip.NewWriter(w)
	for _, f := range list {
		if err := addFile(z, m.Folder, name, f); err != nil {
			h.Log.Warn("the download of a model broke off", "model", m.Name, "file", f.Path, "err", err)
			panic(http.ErrAbortHandler) // the header is sent: only a broken connection shows that the zip is incomplete
		}
	}
	if err := z.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func addFile(z *zip.Writer, folder, top string, f api.File) error {
	in, err := os.Open(filepath.Join(folder, filepath.FromSlash(f.Path)))
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
