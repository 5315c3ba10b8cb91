package python

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"nereid/engine/status"
	"nereid/engine/worker/process"
)

// Framework is a Python package that the models of a backend need. InstallFramework installs it into a separate
// environment; a user may also install it into the machine's Python.
type Framework struct {
	Name         string // of the backend
	Title        string
	Module       string // the Python package
	Requirements string // the text of a requirements.txt
	Size         string // on disk, about, as text
	CPU          CPUBuild
	Pythons      []string // the versions of Python that its package has builds for; nil: all
	// Base is a framework that is installed too, and whose packages this one uses; nil: none. uv installs those
	// packages a second time, because it only sees what an environment has itself.
	Base *Framework
}

// CPUBuild is a smaller build of a framework's package, without CUDA, in an index of its own. The zero value: there is
// none for this machine.
type CPUBuild struct {
	Page        string // of the index, which lists the files of the package
	File        string // what the page contains if the index has the build
	Requirement string // replaces the first line of Framework.Requirements
	Index       string // for --extra-index-url
}

// NumPy is the name of the framework for models of the Python backend whose interpreter has no numpy.
const NumPy = "python"

// oneFlowRequirements has what OneFlow's only build links, also for the CPU: libraries of CUDA 11.
const oneFlowRequirements = "oneflow==0.9.0\nnumpy<2\nnvidia-cudnn-cu11==8.6.0.163\nnvidia-cublas-cu11==11.11.3.6\n"

// Frameworks returns all frameworks, sorted by name. On a machine without an NVIDIA GPU, PyTorch has a CPUBuild.
func Frameworks() []Framework {
	torch := Framework{Name: "pytorch", Title: "PyTorch", Module: "torch", Requirements: "torch==2.15.0\nnumpy\n",
		Size: "5.5 GB with its CUDA libraries"}
	if runtime.GOOS == "linux" && !hasNVIDIA() { // elsewhere the package index has no CUDA either
		torch.Size = "1 GB without CUDA, from download.pytorch.org; 5.5 GB if that cannot be reached"
		torch.CPU = CPUBuild{
			Page: "https://download.pytorch.org/whl/cpu/torch/", File: "torch-2.15.0%2Bcpu",
			Requirement: "torch==2.15.0+cpu", Index: "https://download.pytorch.org/whl/cpu",
		}
	}
	return []Framework{
		{Name: "fil", Title: "Treelite", Module: "treelite", Requirements: "treelite==4.8.1\nnumpy\n", Size: "250 MB"},
		{Name: "oneflow", Title: "OneFlow", Module: "oneflow", Requirements: oneFlowRequirements, Size: "4.5 GB",
			Pythons: []string{"3.10", "3.9", "3.8"}},
		{Name: "openvino", Title: "OpenVINO", Module: "openvino", Requirements: "openvino==2026.4.1\nnumpy\n",
			Size: "280 MB"},
		{Name: NumPy, Title: "NumPy", Module: "numpy", Requirements: "numpy>=1.22\n", Size: "100 MB"},
		torch,
		{Name: "tensorflow", Title: "TensorFlow", Module: "tensorflow",
			Requirements: "tensorflow-cpu==2.21.0\nnumpy\n", Size: "1.6 GB"},
	}
}

// hasNVIDIA reports whether the machine has a device of NVIDIA's driver, or of Windows' below WSL.
func hasNVIDIA() bool {
	return slices.ContainsFunc([]string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"}, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// MayCure reports whether a model of the backend that failed for this reason may load after the installation. Most
// models of the Python backend fail for other reasons than numpy.
func (f Framework) MayCure(reason string) bool {
	return f.Name != NumPy || strings.Contains(reason, f.Title+" is not installed")
}

// withoutCUDA returns the requirements of the CPU build.
func (f Framework) withoutCUDA() string {
	_, rest, _ := strings.Cut(f.Requirements, "\n")
	return "--extra-index-url " + f.CPU.Index + "\n" + f.CPU.Requirement + "\n" + rest
}

// chosen returns the requirements to install: those of the CPU build if its index can be reached and has it.
func (f Framework) chosen(ctx context.Context, out io.Writer) string {
	if f.CPU.Page == "" {
		return f.Requirements
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := f.CPU.listed(ctx); err != nil {
		fmt.Fprintf(out, "the build without CUDA cannot be had, so the larger one is installed: %v\n", err)
		return f.Requirements
	}
	return f.withoutCUDA()
}

// listed returns nil if the index lists the build.
func (b CPUBuild) listed(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Page, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	page, err := io.ReadAll(io.LimitReader(a.Body, 16<<20))
	if err != nil {
		return err
	}
	if a.StatusCode != http.StatusOK || !bytes.Contains(page, []byte(b.File)) {
		return fmt.Errorf("%s answers %s and does not list %s", b.Page, a.Status, b.File)
	}
	return nil
}

// FindFramework returns the framework of the backend with this name; false if it needs none.
func FindFramework(name string) (Framework, bool) {
	all := Frameworks()
	i := slices.IndexFunc(all, func(f Framework) bool { return f.Name == name })
	if i < 0 {
		return Framework{}, false
	}
	return all[i], true
}

// Environment returns the folder of the framework's environment, which may not exist yet. folder is the server's
// Options.Folder.
func (f Framework) Environment(folder string) string {
	return filepath.Join(folder, "environments", "framework-"+f.Name)
}

// Installed reports whether InstallFramework has installed this version of the framework.
func (f Framework) Installed(folder string) bool {
	if f.Base != nil && !f.Base.Installed(folder) {
		return false
	}
	path := f.Environment(folder)
	if _, err := os.Stat(filepath.Join(path, ".complete")); err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(path, "requirements.txt"))
	return err == nil && (string(text) == f.Requirements || f.CPU.Index != "" && string(text) == f.withoutCUDA())
}

// InstallFramework installs a framework, unless this version is installed, by the Python that interpreter names, or by
// one of the versions that the framework needs. folder is the Options.Folder of the servers that will use it. The
// installer's output goes to out and to a file beside the environment. Errors: NotFound if there is no such
// interpreter, Internal when the installation fails, with the last lines of the output.
func InstallFramework(ctx context.Context, folder, interpreter string, f Framework, out io.Writer) error {
	python, err := f.interpreter(ctx, interpreter)
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	base := ""
	if f.Base != nil {
		if err := InstallFramework(ctx, folder, interpreter, *f.Base, out); err != nil {
			return err
		}
		base = f.Base.Environment(folder)
		python = filepath.Join(base, "bin", "python") // the packages are those of its version
	}
	path := f.Environment(folder)
	if !f.Installed(folder) { // it is another version, or not finished
		if err := os.Remove(filepath.Join(path, ".complete")); err != nil && !os.IsNotExist(err) {
			return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
		}
	}
	err = once(ctx, path, func() error {
		file, err := os.CreateTemp(filepath.Dir(path), "requirements-*.txt")
		if err != nil {
			return err
		}
		defer os.Remove(file.Name()) // the environment has a copy
		text := f.chosen(ctx, out)
		_, err = file.WriteString(text)
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		return build(ctx, python, file.Name(), []byte(text), path, base, nil, out)
	})
	if err != nil {
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	return nil
}

// missing adds the way to install a framework to the error of a model that does not find it. Models on the machine's
// Python may also lack numpy, which all frameworks bring.
func (m *model) missing(err error) error {
	lacks := func(module string) bool {
		return strings.Contains(err.Error(), fmt.Sprintf("No module named '%s'", module))
	}
	numpy := m.env.stamp == "" && lacks("numpy")
	f, ok := FindFramework(m.platform)
	if !ok {
		f, ok = FindFramework(NumPy)
		ok = ok && numpy
	}
	if !ok || !numpy && !lacks(f.Module) {
		return err
	}
	return status.Errorf(status.CodeOf(err),
		"%s is not installed, which model '%s' needs: run 'nereid install %s' (%s), or install %s where %s finds "+
			"it: %w",
		f.Title, m.spec.ModelName, f.Name, f.Size, strings.Fields(f.Requirements)[0], m.env.python, err)
}

// hasNumPy reports whether an interpreter finds numpy. What cannot be run has it: its error comes when it is used.
func (e *environments) hasNumPy(ctx context.Context, python string) bool {
	cmd := inGroup(exec.CommandContext(ctx, python, "-c",
		"import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('numpy') is None else 0)"))
	cmd.Dir = filepath.Dir(python) // a numpy.py in the working directory does not count
	cmd.Env = process.Environ(os.Environ(), e.env)
	err := cmd.Run()
	return err == nil || cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 3
}
