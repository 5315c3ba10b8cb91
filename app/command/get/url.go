package get

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"nereid/app/console/imports/staging"
	"nereid/app/download"
	"nereid/engine/backend/onnxruntime/onnxfile"
)

func (o *getter) fromURL(ctx context.Context) ([]staged, error) {
	u, err := url.Parse(o.source)
	if err != nil {
		return nil, errors.New("the source is no URL")
	}
	name := path.Base(u.Path)
	if name == "/" || name == "." || strings.HasPrefix(name, ".") {
		return nil, fmt.Errorf("the URL of %s names no file", u.Host)
	}
	client := download.NewClient()
	d := o.download(o.source, client, o.maxBytes())
	d.Shown = download.Plain(u)
	file := filepath.Join(o.work.downloads(), name)
	if err := d.To(ctx, file); err != nil {
		return nil, err
	}
	sum, size, err := download.Digest(file, o.sha256, "--sha256")
	if err != nil {
		return nil, err
	}
	beside, err := externals(file)
	if err != nil {
		return nil, err
	}
	room := o.maxBytes() - size
	for _, data := range beside {
		at := *u
		at.Path, at.RawPath = path.Join(path.Dir(u.Path), data), ""
		d := o.download(at.String(), client, room)
		d.Shown = download.Plain(&at)
		if err := d.To(ctx, filepath.Join(filepath.Dir(file), filepath.FromSlash(data))); err != nil {
			return nil, fmt.Errorf("%s keeps weights in %s: %w", name, data, err)
		}
		room -= d.Have
	}
	return o.arrange(filepath.Join(o.work.models(), "0"), file, beside, provenance{Source: d.Shown, From: d.Shown,
		SHA256: sum, Bytes: size})
}

// download returns a download of a URL without a password.
func (o *getter) download(at string, client *http.Client, most int64) *download.Download {
	return &download.Download{URL: at, Shown: at, Most: most, More: "; --max-size allows more", Client: client,
		Progress: o.meter.at}
}

// externals returns the files with weights that an ONNX file names, by their paths beside it. Other files, and those
// that are no ONNX files, have none: the server says what is wrong with them.
func externals(file string) ([]string, error) {
	if !strings.EqualFold(filepath.Ext(file), ".onnx") {
		return nil, nil
	}
	found, err := onnxfile.Locations(file)
	if errors.Is(err, onnxfile.ErrMalformed) {
		return nil, nil
	}
	for _, name := range found {
		clean, cerr := staging.CleanPath(name)
		if cerr != nil || clean != name || strings.EqualFold(name, filepath.Base(file)) {
			return nil, fmt.Errorf("%s keeps weights in %q, which is no file beside it; the model is not taken",
				filepath.Base(file), name)
		}
	}
	return found, err
}
