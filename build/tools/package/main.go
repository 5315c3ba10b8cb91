// Command package makes a .deb, an .rpm and a .tar.gz of a built program: with manual pages, completions, licences, a
// bill of materials, and the unit of systemd or the entry of the desktop. The same program, version and
// SOURCE_DATE_EPOCH make the same bytes.
package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	var p pack
	epoch := flag.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"), "the `time` of all files, in seconds since 1970")
	flag.StringVar(&p.name, "name", "nereid", "nereid or nereid-desktop")
	flag.StringVar(&p.program, "program", "", "the `file` of the program")
	flag.StringVar(&p.generator, "generator", "", "the `file` of a program for this machine that writes the manual")
	flag.StringVar(&p.arch, "arch", "amd64", "amd64 or arm64")
	flag.StringVar(&p.version, "version", "", "the version of the build")
	flag.StringVar(&p.nfpm, "nfpm", ".cache/bin/nfpm", "the `file` of nfpm")
	flag.StringVar(&p.out, "out", "build/bin/packages", "the `folder` of the packages")
	flag.Parse()
	seconds, err := strconv.ParseInt(*epoch, 10, 64)
	p.time = time.Unix(seconds, 0).UTC()
	p.generator = cmp.Or(p.generator, p.program)
	p.version = packageVersion(p.version, p.time)
	if err == nil {
		err = p.make()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// pack is one package.
type pack struct {
	name, program, generator, arch, version, nfpm, out string
	time                                               time.Time
}

// packageVersion makes a version that packagers can compare out of "git describe": it begins with a digit, and has no
// dash. Without a tag it begins with the next release and the day.
func packageVersion(described string, day time.Time) string {
	v := strings.TrimPrefix(described, "v")
	if ok, _ := regexp.MatchString(`^\d+\.\d`, v); !ok {
		v = "0.1.0+git" + day.Format("20060102") + "." + v
	}
	return strings.NewReplacer("-", ".", "_", ".").Replace(v)
}

// file is a file of the package.
type file struct {
	path   string // in the system
	source string // on this machine
	mode   os.FileMode
	config bool
}

func (p *pack) make() error {
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "nereid-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	files, err := p.files(stage)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Chmod(f.source, f.mode); err != nil && strings.HasPrefix(f.source, stage) {
			return err
		}
	}
	return errors.Join(p.system(stage, files), p.tarball(files))
}

// files collects the files of the package. Those that are generated are written to stage.
func (p *pack) files(stage string) ([]file, error) {
	doc, man := "/usr/share/doc/"+p.name+"/", filepath.Join(stage, "man")
	files := []file{
		{path: "/usr/bin/" + p.name, source: p.program, mode: 0o755},
		{path: doc + "copyright", source: "LICENSE", mode: 0o644},
		{path: doc + "licenses.txt.gz", source: "app/licenses/licenses.txt.gz", mode: 0o644},
	}
	generated := func(path, text string) error {
		source := filepath.Join(stage, "files", path)
		files = append(files, file{path: path, source: source, mode: 0o644})
		return errors.Join(os.MkdirAll(filepath.Dir(source), 0o755), os.WriteFile(source, []byte(text), 0o644))
	}
	bom, err := billOfMaterials(p)
	if err != nil {
		return nil, err
	}
	errs := []error{generated(doc+"sbom.cdx.json", bom), os.MkdirAll(man, 0o755)}
	_, err = p.generate("__manual", man)
	pages, err2 := filepath.Glob(filepath.Join(man, "*.1"))
	errs = append(errs, err, err2)
	for _, page := range pages {
		if (filepath.Base(page) == "nereid-desktop.1") != (p.name == "nereid-desktop") {
			continue
		}
		packed, err := compress(page)
		errs = append(errs, err, generated("/usr/share/man/man1/"+filepath.Base(page)+".gz", packed))
	}
	for shell, path := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/" + p.name,
		"zsh":  "/usr/share/zsh/vendor-completions/_" + p.name,
		"fish": "/usr/share/fish/vendor_completions.d/" + p.name + ".fish",
	} {
		script, err := p.generate("completion", shell)
		errs = append(errs, err, generated(path, strings.ReplaceAll(script, "nereid", p.name)))
	}
	if p.name == "nereid-desktop" {
		files = append(files,
			file{"/usr/share/applications/nereid-desktop.desktop", "build/package/nereid-desktop.desktop", 0o644,
				false},
			file{"/usr/share/mime/packages/nereid.xml", "build/package/nereid.xml", 0o644, false},
			file{"/usr/share/icons/hicolor/256x256/apps/nereid.png", "app/desktop/icon.png", 0o644, false},
			file{"/usr/share/icons/hicolor/scalable/apps/nereid.svg", "frontend/public/icon.svg", 0o644, false})
	} else {
		files = append(files,
			file{"/usr/lib/systemd/system/nereid.service", "app/service/nereid.service", 0o644, false},
			file{"/usr/lib/systemd/user/nereid-kiosk.service", "build/package/nereid-kiosk.service", 0o644, false},
			file{"/etc/nereid/nereid.yaml", "app/service/nereid.yaml", 0o644, true})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, errors.Join(errs...)
}

// generate runs a command of the program and returns its output.
func (p *pack) generate(args ...string) (string, error) {
	exe, err := filepath.Abs(p.generator)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = "nereid"
	cmd.Env = []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(p.time.Unix(), 10), "HOME=/nonexistent"}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

func compress(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression) // without a name and a time
	if err != nil {
		return "", err
	}
	_, err = z.Write(text)
	err = errors.Join(err, z.Close())
	return b.String(), err
}

// system makes the .deb and the .rpm.
func (p *pack) system(stage string, files []file) error {
	config := filepath.Join(stage, "nfpm.yaml")
	if err := os.WriteFile(config, []byte(p.nfpmConfig(files)), 0o644); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		arch := p.arch
		if kind == "rpm" {
			arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
		}
		target := filepath.Join(p.out, fmt.Sprintf("%s_%s_%s.%s", p.name, p.version, arch, kind))
		cmd := exec.Command(p.nfpm, "package", "--config", config, "--packager", kind, "--target", target)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(p.time.Unix(), 10))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nfpm: %w: %s", err, out)
		}
		fmt.Println(target)
	}
	return nil
}

// nfpmConfig is the configuration of nfpm, whose form is https://nfpm.goreleaser.com/configuration.
func (p *pack) nfpmConfig(files []file) string {
	var b strings.Builder
	description := "Inference server with Triton's protocols, for one machine"
	deb, rpm := `["libc6 (>= 2.34)", libstdc++6, passwd]`, `[glibc, libstdc++, shadow-utils]`
	if p.name == "nereid-desktop" {
		description += ", with a window"
		deb = `["libc6 (>= 2.34)", libstdc++6, "libgtk-3-0 | libgtk-3-0t64", libwebkit2gtk-4.1-0]`
		rpm = `[glibc, libstdc++, gtk3, webkit2gtk4.1]`
	}
	fmt.Fprintf(&b, `name: %s
arch: %s
platform: linux
version: %q
version_schema: none
release: "1"
section: net
priority: optional
maintainer: Nereid <nereid@localhost>
description: %s
license: Apache-2.0
mtime: %s
rpm: {buildhost: nereid}
overrides:
  deb: {depends: %s, recommends: [python3, python3-numpy]}
  rpm: {depends: %s, recommends: [python3, python3-numpy]}
`, p.name, p.arch, p.version, description, p.time.Format(time.RFC3339), deb, rpm)
	if p.name == "nereid" {
		b.WriteString("scripts:\n  postinstall: build/package/postinst\n  preremove: build/package/prerm\n" +
			"  postremove: build/package/postrm\n")
	}
	b.WriteString("contents:\n")
	for _, f := range files {
		kind := `""`
		if f.config {
			kind = "config|noreplace"
		}
		fmt.Fprintf(&b,
			"  - {src: %q, dst: %q, type: %s, file_info: {mode: 0%o, owner: root, group: root, mtime: %s}}\n",
			f.source, f.path, kind, f.mode, p.time.Format(time.RFC3339))
	}
	return b.String()
}

// tarball makes the .tar.gz, with the files of /usr at its top.
func (p *pack) tarball(files []file) (err error) {
	top := fmt.Sprintf("%s-%s-linux-%s", p.name, p.version, p.arch)
	target := filepath.Join(p.out, top+".tar.gz")
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := addToTar(w, f, top+strings.TrimPrefix(f.path, "/usr"), p.time); err != nil {
			return err
		}
	}
	fmt.Println(target)
	return errors.Join(w.Close(), z.Close())
}

func addToTar(w *tar.Writer, f file, name string, at time.Time) error {
	in, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	head := &tar.Header{Name: name, Size: info.Size(), Mode: int64(f.mode), ModTime: at, Uname: "root", Gname: "root"}
	if err := w.WriteHeader(head); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}
