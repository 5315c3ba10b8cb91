package staging

import (
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// BentoML's manifests: that of a model in its store, and that of a bento, which has its models in the folder models.
// https://docs.bentoml.com/en/latest/reference/stores.html
const (
	bentoModelFile = "model.yaml"
	bentoFile      = "bento.yaml"
)

// bentoModel reads the manifest of a model of BentoML. Other files may have its name: it returns nil for them. It also
// returns nil for a SavedModel, whose files are those of the folder without the manifest.
func bentoModel(t *tree, b []byte) (*foreign, error) {
	var m struct {
		Name   string `yaml:"name"`
		Module string `yaml:"module"`
	}
	if err := yaml.Unmarshal(b, &m); err != nil || !strings.HasPrefix(m.Module, "bentoml.") {
		return nil, nil //nolint:nilerr // it is another program's
	}
	f := &foreign{name: m.Name, skip: []string{bentoModelFile, "custom_objects.pkl"}}
	has := func(name string) bool { return slices.Contains(t.files, name) }
	switch {
	case has("saved_model.pb"):
		t.name = m.Name
		t.files = slices.DeleteFunc(t.files, func(n string) bool { return slices.Contains(f.skip, n) })
		return nil, nil
	case has("saved_model.onnx"):
		f.model = "saved_model.onnx"
	case m.Module == "bentoml.torchscript":
		f.model = "saved_model.pt"
	default:
		files := slices.DeleteFunc(slices.Clone(t.files), func(n string) bool { return n == bentoModelFile })
		return nil, invalid("the model of %s has the files %s, which need its Python code; make an ONNX model of them "+
			"with nereid convert, save it again with bentoml.onnx, or write a model.py that loads it",
			m.Module, list(files))
	}
	return f, t.hasModel(f.model, "the model of BentoML", "save it again with bentoml.onnx")
}

// bento refuses a bento without models. Those with models are taken apart by tree.models.
func bento(*tree, []byte) (*foreign, error) {
	return nil, invalid("the bento has its service's Python code and no model files; export the model itself " +
		"(bentoml models export), or write a model.py")
}

// bentoModels are the folders of the models in a bento.
func (t *tree) bentoModels() (folders []string) {
	for _, f := range t.files {
		if strings.HasPrefix(f, "models/") && path.Base(f) == bentoModelFile {
			folders = append(folders, path.Dir(f))
		}
	}
	return folders
}

// xzMemory is how much memory the program xz may use. BentoML's archives need 9 MiB.
const xzMemory = "256MiB"

// xz unpacks a tar archive that the program xz decompresses.
func (u *unpacker) xz(r io.Reader) error {
	program, err := exec.LookPath("xz")
	if err != nil {
		return invalid("%s is compressed by xz, which is not installed here (xz-utils); or pack it as .zip or .tar.gz",
			u.archive)
	}
	var said strings.Builder
	cmd := exec.Command(program, "--decompress", "--stdout", "--memlimit-decompress="+xzMemory)
	cmd.Stdin, cmd.Stderr = r, &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = u.tar(out)
	if err == nil { // behind the end of the archive
		_, err = io.Copy(io.Discard, u.count(io.NopCloser(out)))
	}
	if err != nil {
		_ = cmd.Process.Kill() // it may still write; the error is that of the archive
	}
	if werr := cmd.Wait(); err == nil && werr != nil {
		err = invalid("%s cannot be unpacked: %s", u.archive, strings.TrimSpace(said.String()))
	}
	return err
}
