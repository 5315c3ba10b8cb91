package get

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	"nereid/app/command"
	"nereid/app/console/api"
	"nereid/app/console/downloads"
)

// Console fetches models for the GUI, as the command does. It takes models that run code: they are not loaded from
// where it puts them, and the import of the GUI asks.
type Console struct {
	Python  string // the interpreter whose pip is used
	DataDir string // the server's
}

var _ downloads.Fetcher = (*Console)(nil)

// Gallery implements downloads.Fetcher.
func (c *Console) Gallery() ([]api.GalleryModel, error) {
	all, err := gallery()
	out := make([]api.GalleryModel, 0, len(all))
	for i := range all {
		e := &all[i]
		out = append(out, api.GalleryModel{Name: e.Name, For: e.For, License: e.License, Bytes: e.Bytes,
			Source: e.Source, Tried: e.Tried})
	}
	return out, err
}

// Fetch implements downloads.Fetcher.
func (c *Console) Fetch(ctx context.Context, folder, source string,
	progress func(file string, have, whole int64)) ([]api.DownloadedModel, error) {
	var notes bytes.Buffer
	o := getter{repository: folder, source: source, python: c.Python, dataDir: c.DataDir, gui: true,
		maxMiB: defaultMaxMiB, allowCode: true,
		env:   &command.Env{Lookup: os.LookupEnv, Stdout: &bytes.Buffer{}, Stderr: &notes},
		meter: &meter{tell: progress}}
	if err := o.get(ctx); err != nil {
		return nil, err
	}
	found, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []api.DownloadedModel
	for _, f := range found {
		if !strings.HasPrefix(f.Name(), ".") {
			out = append(out, api.DownloadedModel{Name: f.Name(), Path: filepath.Join(folder, f.Name())})
		}
	}
	for line := range strings.Lines(notes.String()) {
		for i := range out {
			if note, ok := strings.CutPrefix(strings.TrimSpace(line), out[i].Name+": "); ok {
				out[i].Notes = append(out[i].Notes, note)
			}
		}
	}
	return out, nil
}
