package engine_test

import (
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers says who may import whom: a package imports only packages of lower layers, and within its layer only those
// listed in sideways. Change it on purpose, never to get a build green.
var layers = map[string]int{
	"engine/status":          0,
	"engine/tensor":          0,
	"engine/inferencepb":     0,
	"app/modelmesh/mmesh":    0, // generated
	"engine/restrict":        0,
	"engine/system/socket":   0,
	"engine/clock":           0,
	"engine/system/affinity": 0,
	"engine/system/cgroup":   0,
	"engine/system/proc":     0,
	"engine/system/replace":  0,
	"engine/system/glob":     0,

	"engine/compare":     1,
	"engine/client":      1, // for other programs; nothing of the server imports it
	"engine/gpumem":      1,
	"engine/infer":       1,
	"engine/modelconfig": 1,

	"app/perf": 2, // over the client: it measures any server
	"app/tune": 2, // decides what to measure; measures nothing

	"engine/classification": 2,

	"engine/agent":             2,
	"engine/backend":           2,
	"engine/backend/batchio":   2,
	"engine/sched":             2,
	"engine/cache":             2,
	"engine/cache/redis":       2,
	"engine/device":            2,
	"engine/shm":               2,
	"engine/stats":             2,
	"engine/refusals":          2,
	"engine/requests":          3,
	"engine/repo":              2,
	"engine/worker":            2,
	"engine/worker/arena":      2,
	"engine/worker/frames":     2,
	"engine/worker/process":    2,
	"engine/worker/workertest": 2,

	"engine/metrics/custom":      2,
	"engine/backend/python/pyrt": 2,

	"engine/repo/cloud":                   3,
	"engine/instance":                     3,
	"engine/shadow":                       3,
	"engine/device/nvml":                  3,
	"engine/device/cuda":                  3,
	"engine/backend/python":               3,
	"engine/ensemble":                     3,
	"engine/metrics":                      3,
	"engine/trace":                        3,
	"engine/backend/builtin":              3,
	"engine/backend/onnxruntime":          3,
	"engine/backend/onnxruntime/capi":     3,
	"engine/backend/onnxruntime/onnxfile": 3,
	"engine/backend/onnxruntime/profile":  3,
	"engine/backend/isolation":            3,
	"engine/backend/runtime":              3,
	"engine/backend/runtime/tfapi":        3,
	"engine/backend/runtime/ovapi":        3,
	"engine/backend/runtime/savedmodel":   3,
	"engine/backend/triton":               3,
	"engine/backend/triton/capi":          3,
	"engine/backend/backendtest":          3,

	"engine/httpapi/tensorjson": 3,
	"engine/httpapi/compat":     4,

	"engine/model":      4,
	"engine/residency":  4,
	"engine/lifecycle":  5,
	"engine":            6,
	"engine/httpapi":    7,
	"engine/grpcapi":    7,
	"engine/grpcapi/h2": 1,

	"store":    -1, // knows nothing of the others, and only app may know it
	"frontend": -1,

	"models-sample": -1, // files only

	"app/access":                  8,
	"app/alerts":                  8,
	"app/capture":                 8,
	"app/certs":                   8,
	"app/certs/certstest":         8,
	"app/command":                 8,
	"app/console/api":             8,
	"app/console/api/tsgen/tsgen": 8,
	"app/datadir":                 8,
	"app/download":                8,
	"app/durable":                 7,
	"app/history":                 8,
	"app/inspect":                 8,
	"app/licenses":                8,
	"app/listen":                  8,
	"app/logging":                 8,
	"app/requestlog":              8,
	"app/whatif":                  8,
	"app/sagemaker":               8,
	"app/service":                 8,

	"app/console/alerts":          9,
	"app/console/catalog":         9,
	"app/console/code":            9,
	"app/console/configs":         9,
	"app/console/conversions":     9,
	"app/console/downloads":       9,
	"app/console/folders":         9,
	"app/console/history":         9,
	"app/console/imports":         9,
	"app/console/imports/staging": 9,
	"app/console/inference":       9,
	"app/console/inspection":      9,
	"app/console/kiosk":           9,
	"app/console/machine":         9,
	"app/console/models":          9,
	"app/console/requests":        9,
	"app/console/rest":            9,
	"app/console/settings":        9,
	"app/console/stream":          9,
	"app/console/tasks":           9,
	"app/console/tuning":          9,
	"app/control":                 9,
	"app/desktop":                 9,
	"app/desktop/tray":            8,
	"app/options":                 9,
	"app/monitoring":              8,
	"app/newversion":              8,
	"app/support":                 9,

	"app/backends":  10,
	"app/catalog":   10,
	"app/console":   10,
	"app/modelmesh": 10,

	"app/command/admin":    11,
	"app/command/convert":  11,
	"app/command/get":      11,
	"app/command/perf":     11,
	"app/command/terminal": 11,
	"app/command/tune":     11,

	"app":         12, // wiring only
	"app/library": 13, // the server inside another program
}

var sideways = map[string][]string{
	"engine/system/cgroup":  {"engine/system/proc"},
	"engine/tensor":         {"engine/status"},
	"engine/cache/redis":    {"engine/cache"},
	"engine/residency":      {"engine/model"},
	"engine/worker":         {"engine/worker/arena", "engine/worker/frames", "engine/worker/process"},
	"engine/worker/frames":  {"engine/worker/arena"},
	"engine/worker/process": {"engine/worker/arena"},
	"engine/backend/onnxruntime": {
		"engine/backend/isolation", "engine/backend/onnxruntime/capi", "engine/backend/onnxruntime/onnxfile",
		"engine/backend/onnxruntime/profile",
	},
	"engine/backend/python": {"engine/backend/isolation"},
	"engine/backend/triton": {"engine/backend/isolation", "engine/backend/triton/capi"},
	"engine/backend/runtime": {
		"engine/backend/isolation", "engine/backend/runtime/tfapi", "engine/backend/runtime/ovapi",
		"engine/backend/runtime/savedmodel",
	},
	"app/alerts":             {"app/history"},
	"app/control":            {"app/support"},
	"app/monitoring":         {"app/alerts"},
	"app/newversion":         {"app/download"},
	"app/console/alerts":     {"app/console/catalog", "app/console/rest"},
	"app/console/folders":    {"app/console/rest"},
	"app/console/catalog":    {"app/console/folders", "app/console/rest"},
	"app/console/stream":     {"app/console/rest"},
	"app/console/inference":  {"app/console/rest"},
	"app/console/kiosk":      {"app/console/catalog", "app/console/rest"},
	"app/console/inspection": {"app/console/catalog", "app/console/rest"},
	"app/console/settings":   {"app/console/rest"},
	"app/console/requests": {
		"app/console/catalog", "app/console/inference", "app/console/rest", "app/console/stream",
	},
	"app/console/history": {"app/console/rest", "app/console/stream"},
	"app/console/code":    {"app/console/folders", "app/console/rest"},
	"app/console/configs": {"app/console/catalog", "app/console/code", "app/console/rest"},
	"app/console/machine": {
		"app/console/catalog", "app/console/folders", "app/console/rest", "app/console/stream", "app/console/tasks",
	},
	"app/console/models": {
		"app/console/catalog", "app/console/configs", "app/console/folders", "app/console/rest", "app/console/stream",
	},
	"app/console/conversions": {
		"app/console/catalog", "app/console/imports/staging", "app/console/inspection", "app/console/rest",
		"app/console/tasks",
	},
	"app/console/downloads":       {"app/console/rest", "app/console/tasks"},
	"app/console/imports/staging": {"app/console/folders", "app/console/rest"},
	"app/console/imports": {
		"app/console/catalog", "app/console/code", "app/console/configs", "app/console/folders",
		"app/console/imports/staging", "app/console/models", "app/console/rest", "app/console/stream",
		"app/console/tasks",
	},
	"app/console/tuning": {
		"app/console/catalog", "app/console/configs", "app/console/inference", "app/console/rest",
		"app/console/tasks",
	},
}

func TestImportsFollowLayers(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, top := range []string{"engine", "store", "app", "frontend"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !d.IsDir() {
				return nil
			}
			if n := d.Name(); n == "testdata" || n == "node_modules" || n == "dist" {
				return filepath.SkipDir
			}
			if checkPackage(t, root, path) {
				seen++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 10 {
		t.Errorf("found only %d packages: the walk is broken", seen)
	}
}

// A newcomer finds a package in the table of ARCHITECTURE.md. Packages below another one may be missing there.
func TestArchitectureListsPackages(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range layers {
		listed := regexp.MustCompile("`[^`\n]*\\b" + path.Base(name) + "\\b[^`\n]*`")
		if strings.Count(name, "/") == 1 && !listed.Match(text) {
			t.Errorf("the table of packages in ARCHITECTURE.md lacks %s", name)
		}
	}
}

func checkPackage(t *testing.T, root, path string) bool {
	ctx := build.Default
	ctx.CgoEnabled = true
	pkg, err := ctx.ImportDir(path, 0)
	if err != nil {
		return false // no Go files
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.ToSlash(rel)
	if pkg.Name == "main" {
		return true // tools beside the code they serve
	}
	layer, ok := layers[name]
	if !ok {
		t.Errorf("package %s has no layer; put it into the table", name)
		return true
	}
	for _, imp := range pkg.Imports {
		dep, ours := strings.CutPrefix(imp, "nereid/")
		if !ours {
			continue
		}
		depLayer, ok := layers[dep]
		switch {
		case !ok:
			t.Errorf("%s imports %s, which has no layer", name, dep)
		case slices.Contains(sideways[name], dep):
		case layer >= 8 && depLayer == -1:
		case depLayer == -1 || depLayer >= layer:
			t.Errorf("%s (layer %d) imports %s (layer %d)", name, layer, dep, depLayer)
		}
	}
	return true
}
