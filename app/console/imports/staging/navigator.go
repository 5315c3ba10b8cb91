package staging

import (
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The manifest of a package (.nav) of Model Navigator, and the log that each package has.
// https://triton-inference-server.github.io/model_navigator/latest/
const (
	navigatorFile = "status.yaml"
	navigatorLog  = "navigator.log"
)

// navigatorFormats are the formats that a backend reads. A model of the first one that is there is taken.
var navigatorFormats = []string{"onnx", "torchscript", "torch-exportedprogram", "tf-savedmodel"}

// navigator reads the manifest of a package of Model Navigator. It has the same model in several formats, each in a
// folder of its own. Other files may have the manifest's name: navigator returns nil for them.
func navigator(t *tree, b []byte) (*foreign, error) {
	var m struct {
		Version string `yaml:"model_navigator_version"`
		Models  map[string]struct {
			Config struct {
				Format string `yaml:"format"`
				Path   string `yaml:"path"`
			} `yaml:"model_config"`
		} `yaml:"models_status"`
	}
	if err := yaml.Unmarshal(b, &m); err != nil || m.Version == "" {
		return nil, nil //nolint:nilerr // it is another program's
	}
	byFormat := map[string][]string{} // the model files that are there
	for _, model := range m.Models {
		file := path.Clean(model.Config.Path)
		if !slices.ContainsFunc(t.files, func(f string) bool { return f == file || strings.HasPrefix(f, file+"/") }) {
			continue // it was not made, or is not kept in packages
		}
		byFormat[model.Config.Format] = append(byFormat[model.Config.Format], file)
	}
	const cure = "optimize the model again with the format onnx"
	for _, format := range navigatorFormats {
		if byFormat[format] == nil {
			continue
		}
		f := &foreign{model: slices.Min(byFormat[format])}
		folder := path.Dir(f.model) + "/"
		for _, name := range t.files { // other formats, samples, and programs that make the model again
			ext := path.Ext(name)
			if !strings.HasPrefix(name, folder) || ext == ".py" || ext == ".sh" || ext == ".log" {
				f.skip = append(f.skip, name)
			}
		}
		return f, t.hasModel(f.model, "the package of Model Navigator", cure)
	}
	return nil, invalid("the package of Model Navigator has the formats %s; %s",
		list(slices.Sorted(maps.Keys(byFormat))), cure)
}
