package modelconfig_test

import (
	"testing"
	"testing/fstest"

	"nereid/engine/modelconfig"
)

// A backend that is not the server's is no fault if its library is in the model's folder or in a version's.
func TestD076ALibraryInTheModelIsABackend(t *testing.T) {
	for path, faults := range map[string]bool{
		"libtriton_mine.so": false, "2/libtriton_mine.so": false, "2/other.so": true,
	} {
		cfg := parse(t, `name: "m" backend: "mine" input { name: "a" data_type: TYPE_FP32 dims: 1 } `+
			`output { name: "b" data_type: TYPE_FP32 dims: 1 }`)
		got := modelconfig.Validate(cfg, modelconfig.ValidateOptions{
			Folder: "m", Backends: []string{"python"}, Files: fstest.MapFS{path: {}},
		})
		if (len(got) > 0) != faults {
			t.Errorf("a model with %s has the faults %v", path, got)
		}
	}
}

// A library that runtime names must be there, also if the backend directory has a model.py for the backend.
func TestTheLibraryThatRuntimeNamesMustBeThere_D001(t *testing.T) {
	for runtime, faults := range map[string]bool{
		"": false, "model.py": false, "libtriton_mine.so": false, "libtriton_there.so": false,
		"libtriton_absent.so": true,
	} {
		cfg := parse(t, `name: "m" backend: "mine" input { name: "a" data_type: TYPE_FP32 dims: 1 } `+
			`output { name: "b" data_type: TYPE_FP32 dims: 1 }`)
		cfg.Runtime = runtime
		got := modelconfig.Validate(cfg, modelconfig.ValidateOptions{
			Folder: "m", Backends: []string{"python", "mine"}, Files: fstest.MapFS{"libtriton_there.so": {}},
		})
		if (len(got) > 0) != faults {
			t.Errorf("a model with the runtime %q has the faults %v", runtime, got)
		}
	}
}
