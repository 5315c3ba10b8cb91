package modelconfig

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nereid/engine/inferencepb"
)

// Names of backends, as the backend field has them.
const (
	BackendONNXRuntime = "onnxruntime"
	BackendPython      = "python"
	BackendPyTorch     = "pytorch"
	BackendTensorFlow  = "tensorflow"
	BackendTensorRT    = "tensorrt"
	BackendOpenVINO    = "openvino"
)

// PlatformEnsemble is the platform of an ensemble, which has no backend.
const PlatformEnsemble = "ensemble"

// artifact is a platform with its backend and the usual name of its model file.
type artifact struct {
	platform, backend, file string
	isDir, mayBeDir         bool // file is always, or may be, a folder
}

// artifacts are in the order in which Triton looks for their files in a version folder.
var artifacts = []artifact{
	{"tensorflow_savedmodel", BackendTensorFlow, "model.savedmodel", true, true},
	{"tensorflow_graphdef", BackendTensorFlow, "model.graphdef", false, false},
	{"tensorrt_plan", BackendTensorRT, "model.plan", false, false},
	{"onnxruntime_onnx", BackendONNXRuntime, "model.onnx", false, true},
	{"", BackendOpenVINO, "model.xml", false, false},
	{"pytorch_libtorch", BackendPyTorch, "model.pt", false, false},
	{"torch_aoti", BackendPyTorch, "model.pt2", false, false},
	{"libtorch", BackendPyTorch, "model.pt", false, false},
	{"", BackendPython, "model.py", false, false},
	{"caffe2_netdef", BackendCaffe2, "model.netdef", false, false},
}

// fits reports whether a is the artifact of a configuration's backend and of its platform, if both have one.
func (a *artifact) fits(cfg *inferencepb.ModelConfig) bool {
	return a.backend == cfg.GetBackend() &&
		(cfg.GetPlatform() == "" || a.platform == "" || a.platform == cfg.GetPlatform())
}

// CompleteBackend fills in what the configuration leaves open of name, platform, backend and default_model_filename.
// The name is the folder's. The others follow from each other and from the files of a version folder (nil: there is
// none). If neither names the backend and the folder is called name.backend, the model gets that backend.
// CompleteBackend returns a fault if the backend is unknown.
func CompleteBackend(cfg *inferencepb.ModelConfig, folder string, version []fs.DirEntry) Faults {
	if cfg.Name == "" {
		cfg.Name = folder
	}
	if cfg.Platform == PlatformEnsemble || cfg.GetEnsembleScheduling() != nil {
		if cfg.Platform == "" && cfg.Backend == "" {
			cfg.Platform = PlatformEnsemble
		}
		return nil
	}
	for _, a := range artifacts {
		if cfg.Platform != "" && a.platform == cfg.Platform && cfg.Backend == "" {
			cfg.Backend = a.backend
		}
	}
	if cfg.Backend == "" && cfg.Platform == "" {
		if a, ok := detect(cfg, "", version); ok {
			cfg.Backend, cfg.Platform = a.backend, a.platform
		}
	} else if cfg.Platform == "" && (cfg.Backend == BackendTensorFlow || cfg.Backend == BackendPyTorch) {
		if a, ok := detect(cfg, cfg.Backend, version); ok { // these have more than one platform
			cfg.Platform = a.platform
		}
	}
	if cfg.Backend == "" && cfg.Platform == "" && cfg.DefaultModelFilename == "" {
		_, backend, _ := strings.Cut(folder, ".")
		if backend == "" {
			return Faults{{Path: "backend",
				Message: fmt.Sprintf("Invalid model name: Could not determine backend for model '%s' with no "+
					"backend in model configuration. Expected model name of the form 'model.<backend_name>'.", folder),
				Fix: "add a line such as backend: \"onnxruntime\", " +
					"or put a model.onnx or model.py into a version folder"}}
		}
		cfg.Backend, cfg.DefaultModelFilename = backend, "model."+backend
	}
	completeArtifact(cfg)
	return nil
}

// completeArtifact fills in platform and default_model_filename from the backend's usual artifact.
func completeArtifact(cfg *inferencepb.ModelConfig) {
	i := slices.IndexFunc(artifacts, func(a artifact) bool { return a.fits(cfg) })
	if i < 0 {
		return
	}
	a := artifacts[i]
	if cfg.Platform == "" && a.backend != BackendTensorFlow {
		cfg.Platform = a.platform
	}
	if cfg.DefaultModelFilename == "" && (a.platform == "" || cfg.Platform == a.platform) {
		cfg.DefaultModelFilename = a.file
	}
}

// detect finds the artifact that default_model_filename names, or else the first one in the version folder. backend
// restricts the search unless it is empty.
func detect(cfg *inferencepb.ModelConfig, backend string, version []fs.DirEntry) (artifact, bool) {
	for _, a := range artifacts {
		if backend != "" && a.backend != backend {
			continue
		}
		if cfg.DefaultModelFilename != "" {
			if a.file == cfg.DefaultModelFilename {
				return a, true
			}
			continue
		}
		for _, e := range version {
			if e.Name() == a.file && (e.IsDir() == a.isDir || e.IsDir() && a.mayBeDir) {
				return a, true
			}
		}
	}
	return artifact{}, false
}

// platformNames lists Triton's platforms.
func platformNames() []string { return append(platformsOf(""), PlatformEnsemble) }

// platformsOf lists the platforms of a backend, or of all backends if it is empty.
func platformsOf(backend string) (names []string) {
	for _, a := range artifacts {
		if a.platform != "" && (backend == "" || a.backend == backend) {
			names = append(names, a.platform)
		}
	}
	return names
}

// KnownPlatform reports whether name is one of Triton's platforms.
func KnownPlatform(name string) bool { return slices.Contains(platformNames(), name) }
