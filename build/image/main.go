// Command image writes a container image as an OCI image layout, without a daemon. The image has two layers: a Debian,
// and the program out of the archive that command package makes. The same input makes the same bytes.
//
// It is a module of its own, so that the library is not among those of the product.
// Format: https://github.com/opencontainers/image-spec.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func main() {
	var s source
	epoch := flag.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"), "the `time` of the image, in seconds since 1970")
	flag.StringVar(&s.base, "base", "", "the `file` with the Debian, a tar archive")
	flag.StringVar(&s.program, "program", "", "the `file` nereid-*.tar.gz with the program")
	flag.StringVar(&s.arch, "arch", "amd64", "amd64 or arm64")
	flag.StringVar(&s.version, "version", "dev", "the version, which is also the tag")
	out := flag.String("out", "", "the `folder` of the layout; an image of another architecture in it stays")
	flag.Parse()
	seconds, err := strconv.ParseInt(*epoch, 10, 64)
	s.time = time.Unix(seconds, 0).UTC()
	if err == nil {
		err = write(*out, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// source is what an image is made of.
type source struct {
	base, program, arch, version string
	time                         time.Time
}

// write puts the image into the layout, in place of one of the same architecture.
func write(folder string, s source) error {
	img, err := s.image()
	if err != nil {
		return err
	}
	path, err := layout.FromPath(folder)
	if errors.Is(err, os.ErrNotExist) {
		path, err = layout.Write(folder, empty.Index)
	}
	if err != nil {
		return err
	}
	platform := v1.Platform{OS: "linux", Architecture: s.arch}
	if err := path.ReplaceImage(img, match.Platforms(platform), layout.WithPlatform(platform),
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": s.version})); err != nil {
		return err
	}
	index, err := path.ImageIndex()
	if err != nil {
		return err
	}
	return validate.Index(index)
}

func (s source) image() (v1.Image, error) {
	base, err := tarball.LayerFromFile(s.base, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression))
	if err != nil {
		return nil, err
	}
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	program, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: s.step("Debian, with Python and NumPy")},
		mutate.Addendum{Layer: program, History: s.step("Nereid " + s.version)})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = "linux", s.arch, v1.Time{Time: s.time}
	config.Config = s.config()
	return mutate.ConfigFile(img, config)
}

func (s source) step(what string) v1.History {
	return v1.History{Created: v1.Time{Time: s.time}, CreatedBy: "build/image", Comment: what}
}

// config is how a container starts. Paths and ports are those of Triton's image. There is no entry point, so that the
// command after the name of the image is the program and its options, as there.
func (s source) config() v1.Config {
	return v1.Config{
		User:       "1000:1000", // by number, so that Kubernetes can see that it is not root
		WorkingDir: "/opt/tritonserver",
		Env: []string{
			"PATH=/opt/tritonserver/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=/var/lib/nereid", "NEREID_DATA_DIR=/var/lib/nereid", "LANG=C.UTF-8",
		},
		Cmd:          []string{"tritonserver", "--model-repository=/models"},
		ExposedPorts: map[string]struct{}{"8000/tcp": {}, "8001/tcp": {}, "8002/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Nereid",
			"org.opencontainers.image.version":  s.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.created":  s.time.Format(time.RFC3339),
		},
	}
}

// files is the layer of the program, a tar archive. Of the source it takes the program and its documents.
func (s source) files() ([]byte, error) {
	file, err := os.Open(s.program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.program, err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, folder := range []string{"opt/", "opt/tritonserver/", "opt/tritonserver/bin/", "usr/share/doc/nereid/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755, ModTime: s.time}); err != nil {
			return nil, err
		}
	}
	found := false
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", s.program, err)
		}
		_, inside, _ := strings.Cut(head.Name, "/")
		switch {
		case head.Typeflag == tar.TypeDir:
			continue
		case inside == "bin/nereid":
			head.Name, found = "opt/tritonserver/bin/tritonserver", true
		case strings.HasPrefix(inside, "share/doc/"):
			head.Name = "usr/" + inside
		default:
			continue
		}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, r); err != nil {
			return nil, fmt.Errorf("%s: %w", s.program, err)
		}
	}
	if !found {
		return nil, fmt.Errorf("%s has no bin/nereid; name the archive that make package writes", s.program)
	}
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: "opt/tritonserver/bin/nereid", Linkname: "tritonserver",
		Mode: 0o777, ModTime: s.time}
	err = errors.Join(w.WriteHeader(&link), w.Close())
	return b.Bytes(), err
}
