package modelconfig

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"nereid/engine/inferencepb"
)

// MaxBatchSizeLimit is the largest max_batch_size, in rows.
const MaxBatchSizeLimit = 1 << 24

// Limits that keep a typing error from exhausting the machine.
const (
	maxInstances      = 4096    // of one instance group
	manyInstances     = 8       // of a group, for each core; more gets a warning
	maxElements       = 1 << 40 // of a tensor whose variable dimensions are 1
	maxPriorityLevels = 1 << 16
)

// ValidateOptions is what a configuration is checked against. The zero value checks it alone.
type ValidateOptions struct {
	Positions *Positions // of the file that cfg was read from
	Folder    string     // name of the model's folder, which the model's name must equal
	Signature *Signature // of the model file
	Files     fs.FS      // the model's folder, which must contain the label, warmup and initial state files
	Backends  []string   // the backends that are available; nil accepts every name
	// Library reports whether the backend directory has the library that a configuration names. nil: there is none.
	Library func(*inferencepb.ModelConfig) bool
	// Refused explains why a backend is not among Backends, and what to do. It returns "" if it does not know the
	// backend. nil: it knows none.
	Refused func(backend string) string
	GPUs    []int32 // IDs of the GPUs that models may use
	Cores   int     // that models may use; 0: not known
	// MinCapability is the minimum CUDA compute capability of GPUs, for the fault about a GPU that is not in GPUs.
	MinCapability float64
}

// Validate returns all faults of a configuration, in the order of the file. The configuration may be normalized or not,
// and is not changed. What Triton tells its clients has Triton's text, and the fix explains it in plain words. What it
// only logs has a text of ours.
func Validate(cfg *inferencepb.ModelConfig, o ValidateOptions) Faults {
	c := &checker{report: &report{at: o.Positions}, cfg: cfg, o: o}
	c.names()
	c.batching()
	c.versions()
	c.tensors()
	c.batchIO()
	c.scheduling()
	c.instances()
	c.optimization()
	c.unusedFields()
	c.warmup()
	c.extras()
	if o.Signature != nil && cfg.GetEnsembleScheduling() == nil {
		signatureChecker{c, o.Signature}.check()
	}
	c.faults.sort()
	return c.faults
}

// checker checks the fields of a configuration, group by group. ensembleChecker checks the steps of an ensemble, and
// signatureChecker compares with the model file.
type checker struct {
	*report
	cfg *inferencepb.ModelConfig
	o   ValidateOptions
}

// isTensorRT reports whether the model is one of TensorRT. A platform says so only if there is no backend.
func (c *checker) isTensorRT() bool {
	return c.cfg.Backend == BackendTensorRT || c.cfg.Backend == "" && c.cfg.Platform == "tensorrt_plan"
}

// report collects faults.
type report struct {
	at     *Positions // places of the fields in the file
	faults Faults
}

// err adds a fault at a path; fix may be empty.
func (r *report) err(path, fix, format string, args ...any) {
	r.add(SeverityError, path, fix, format, args...)
}

// warn adds a warning about a setting that has no effect or another one than it seems to have.
func (r *report) warn(path, fix, format string, args ...any) {
	r.add(SeverityWarning, path, fix, format, args...)
}

func (r *report) add(s Severity, path, fix, format string, args ...any) {
	if len(r.faults) >= maxFaults {
		return
	}
	at := r.at.At(path)
	r.faults = append(r.faults, Fault{File: r.at.File(), Line: at.Line, Col: at.Col, Path: path,
		Message: fmt.Sprintf(format, args...), Fix: fix, Severity: s})
}

// names checks name, platform, backend and the files that are named for the model.
func (c *checker) names() {
	cfg := c.cfg
	switch {
	case cfg.Name == "":
		c.err("name", "add a line such as name: \"my_model\"", "the model configuration has no name")
	case c.o.Folder != "" && cfg.Name != c.o.Folder:
		c.err("name", fmt.Sprintf("write name: %q, or leave the name out", c.o.Folder),
			"unexpected directory name '%s' for model '%s', directory name must equal model name", c.o.Folder, cfg.Name)
	case badFileName(cfg.Name):
		c.err("name", "use letters, digits, '_', '-' and '.'", "%q is not a name for a model", cfg.Name)
	}
	c.backend()
	c.runtime()
	if f := cfg.DefaultModelFilename; f != "" && badPath(f) {
		c.err("default_model_filename", "name a file inside the version folder",
			"default_model_filename %q leads out of the version folder", f)
	}
	for _, k := range sortedMapKeys(cfg.CcModelFilenames) {
		path := keyed("cc_model_filenames", k)
		if f := cfg.CcModelFilenames[k]; f == "" || badPath(f) {
			c.err(path, "name a file inside the version folder",
				"cc_model_filenames has %q for compute capability %s", f, k)
		}
		var major, minor int
		n, err := fmt.Sscanf(k, "%d.%d", &major, &minor)
		if n != 2 || err != nil || fmt.Sprintf("%d.%d", major, minor) != k {
			c.err(path, "write it like \"8.0\"", "cc_model_filenames has the key %q, which is no compute capability", k)
		}
	}
}

// backend checks platform and backend.
func (c *checker) backend() {
	cfg := c.cfg
	ensemble := cfg.GetEnsembleScheduling() != nil
	switch {
	case cfg.Platform == PlatformEnsemble && cfg.Backend != "":
		c.err("backend", "remove the backend",
			"ensemble %s has backend %q; an ensemble has none", cfg.Name, cfg.Backend)
	case cfg.Platform == PlatformEnsemble && !ensemble:
		c.err("platform", "add ensemble_scheduling { step [ … ] }",
			"platform is \"ensemble\" but ensemble_scheduling is missing")
	case cfg.Platform == PlatformEnsemble:
	case ensemble:
		c.err("platform", "write platform: \"ensemble\" and no backend",
			"ensemble_scheduling is set, but platform is %q", cfg.Platform)
	case cfg.Backend == "" && cfg.Platform == "":
		c.err("backend", "add a line such as backend: \"onnxruntime\"", "neither backend nor platform is given")
	case cfg.Backend != "" && cfg.Platform != "" && len(platformsOf(cfg.Backend)) == 0:
		c.warn("platform", "leave the platform out",
			"platform %q does nothing beside backend %q", cfg.Platform, cfg.Backend)
	case cfg.Platform != "" && !KnownPlatform(cfg.Platform):
		c.err("platform", didYouMean(cfg.Platform, platformNames(), "write a backend and leave the platform out"),
			"unexpected platform type '%s' for %s", cfg.Platform, cfg.Name)
	case cfg.Backend != "" && cfg.Platform != "" && !slices.Contains(platformsOf(cfg.Backend), cfg.Platform):
		c.err("platform", "leave the platform out",
			"unexpected 'platform' and 'backend' pair, got:%s, %s", cfg.Platform, cfg.Backend)
	case cfg.Backend != "" && c.o.Backends != nil && !slices.Contains(c.o.Backends, cfg.Backend) &&
		!hasLibrary(cfg, c.o.Files):
		c.unavailable(cfg.Backend)
	}
}

// hasLibrary reports whether a model's folder, or that of a version, has the library of the model's backend.
func hasLibrary(cfg *inferencepb.ModelConfig, folder fs.FS) bool {
	file := cmp.Or(cfg.Runtime, "libtriton_"+cfg.Backend+".so")
	if folder == nil || badPath(file) {
		return false
	}
	if _, err := fs.Stat(folder, file); err == nil {
		return true
	}
	entries, _ := fs.ReadDir(folder, ".") // a folder that cannot be read is another fault
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, err := fs.Stat(folder, path.Join(e.Name(), file))
		return err == nil
	})
}

// unavailable adds the fault about a backend that this server does not have.
func (c *checker) unavailable(backend string) {
	if c.o.Refused != nil {
		if why := c.o.Refused(backend); why != "" {
			c.err("backend", "", "backend '%s' %s", backend, why)
			return
		}
	}
	c.err("backend", didYouMean(backend, c.o.Backends, "use one of "+strings.Join(c.o.Backends, ", ")),
		"unable to find backend library for backend '%s', try specifying runtime on the model configuration.", backend)
}

// didYouMean proposes the candidate that was most likely meant, or else what otherwise says.
func didYouMean(got string, candidates []string, otherwise string) string {
	if s := Suggest(got, candidates); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return otherwise
}

func (c *checker) runtime() {
	switch r := c.cfg.Runtime; {
	case r == "":
	case badPath(r):
		c.err("runtime", "name a file in the backend's folder", "runtime %q leads out of the backend's folder", r)
	case r == "libtriton_"+c.cfg.Backend+".so": // Triton's default
	case r == "model.py" && !slices.Contains(compiled, c.cfg.Backend):
	case !strings.HasSuffix(r, ".so"):
		c.err("runtime", "remove it: this server has its own", "backend '%s' has no runtime '%s'", c.cfg.Backend, r)
	case !slices.Contains(own, c.cfg.Backend) && !slices.Contains(c.o.Backends, c.cfg.Backend): // not available
	case hasLibrary(c.cfg, c.o.Files), c.o.Library != nil && c.o.Library(c.cfg): // used in place of the server's own
	case !slices.Contains(own, c.cfg.Backend):
		c.err("runtime", "put it into the model's folder or into the backend directory, or remove it",
			"unable to find backend library '%s' for model '%s'", r, c.cfg.Name)
	default:
		c.err("runtime", fmt.Sprintf("put it into the model's folder or into the backend directory, or remove it: "+
			"this server has its own backend '%s'", c.cfg.Backend),
			"unable to find backend library '%s' for model '%s'", r, c.cfg.Name)
	}
}

// compiled are the backends that are never written in Python.
var compiled = []string{BackendONNXRuntime, BackendTensorRT, BackendDALI, BackendFIL, "identity", "repeat", "square",
	"add_sub", "sequence", "dyna_sequence", "iterative_sequence"}

// own are the backends for which this server needs no library.
var own = append([]string{BackendPython, BackendPyTorch, BackendTensorFlow, BackendOpenVINO}, compiled...)

// badFileName reports a name that cannot be the name of a folder.
func badFileName(s string) bool {
	return s == "." || s == ".." || len(s) > 255 || strings.ContainsAny(s, "/\\\x00")
}

// badPath reports a relative path that leaves its folder, or an absolute one.
func badPath(s string) bool { return !fs.ValidPath(s) || strings.ContainsAny(s, "\\\x00") }

// batching checks max_batch_size.
func (c *checker) batching() {
	switch n := c.cfg.MaxBatchSize; {
	case n < 0:
		c.err("max_batch_size", "use 0 for a model without batching, or the largest batch it can take",
			"max_batch_size is %d", n)
	case n > MaxBatchSizeLimit:
		c.err("max_batch_size", fmt.Sprintf("use at most %d", MaxBatchSizeLimit),
			"max_batch_size is %d, more than any model can take", n)
	}
}

func (c *checker) versions() {
	const fixLatest = "write version_policy { latest { num_versions: 1 } }"
	switch p := c.cfg.GetVersionPolicy().GetPolicyChoice().(type) {
	case *inferencepb.ModelVersionPolicy_Latest_:
		if p.Latest.GetNumVersions() == 0 {
			c.err("version_policy.latest.num_versions", fixLatest,
				"version_policy serves the latest 0 versions, which is none")
		}
	case *inferencepb.ModelVersionPolicy_Specific_:
		const path = "version_policy.specific.versions"
		versions := p.Specific.GetVersions()
		if len(versions) == 0 {
			c.err(path, "list the versions: specific { versions: [ 1, 3 ] }", "version_policy lists no version")
		}
		for i, v := range versions {
			at := indexed(path, i)
			if v < 1 {
				c.err(at, "version folders are named 1, 2, 3 …", "version_policy lists version %d", v)
			} else if slices.Contains(versions[:i], v) {
				c.warn(at, "remove one", "version_policy lists version %d twice", v)
			}
		}
	case nil:
		if c.cfg.VersionPolicy != nil {
			c.warn("version_policy", fixLatest, "version_policy is empty; the latest version is served")
		}
	}
}

func sortedMapKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// indexed and keyed return the paths of an element of a list and of a map.
func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func keyed(path, key string) string { return fmt.Sprintf("%s[%q]", path, key) }

// file checks that a file of the model's folder exists.
func (c *checker) file(path, what, name string) {
	if badPath(name) || name == "." {
		c.err(path, "name a file inside the model's folder", "%s %q leads out of the model's folder", what, name)
		return
	}
	if c.o.Files == nil {
		return
	}
	info, err := fs.Stat(c.o.Files, name)
	switch {
	case err != nil:
		c.err(path, "put the file there, or correct the name",
			"%s %q cannot be read in the model's folder: %v", what, name, err)
	case info.IsDir():
		c.err(path, "name a file", "%s %q is a folder", what, name)
	}
}
