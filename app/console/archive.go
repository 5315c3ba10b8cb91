package console

import (
	"archive/zip"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/staging"
)

// getArchive sends a model folder as a zip with one top folder, as an import takes it.
func (c *Console) getArchive(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	_, p, err := c.locate(name)
	if err != nil {
		return err
	}
	if p.folder == "" {
		return fail(api.CodeNotFound, "model %q has no folder in a repository", name)
	}
	list, err := staging.ListFiles(p.folder)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="`+asciiName(name)+`.zip"; filename*=UTF-8''`+pathEscape(name+".zip"))
	z := zip.NewWriter(w)
	for _, f := range list {
		if err := addFile(z, p.folder, name, f); err != nil {
			c.log.Warn("the download of a model broke off", "model", name, "file", f.Path, "err", err)
			panic(http.ErrAbortHandler) // the header is out: only a broken connection says that the zip is not whole
		}
	}
	if err := z.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func addFile(z *zip.Writer, folder, name string, f staging.File) error {
	in, err := os.Open(filepath.Join(folder, filepath.FromSlash(f.Path)))
	if err != nil {
		return err
	}
	defer in.Close()
	h := &zip.FileHeader{Name: path.Join(name, f.Path), Method: zip.Store, Modified: f.Mod}
	switch strings.ToLower(path.Ext(f.Path)) {
	case ".txt", ".pbtxt", ".json", ".py", ".md": // weights hardly shrink
		h.Method = zip.Deflate
	}
	out, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

// asciiName is a file name that every browser takes.
func asciiName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, name)
}

func pathEscape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '.' {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}
