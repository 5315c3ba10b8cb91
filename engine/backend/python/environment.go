package python

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"nereid/engine/backend"
	"nereid/engine/status"
	"nereid/engine/system/glob"
	"nereid/engine/worker/process"
)

// environment is a Python interpreter with the packages that a model needs.
type environment struct {
	python string   // the interpreter's path
	vars   []string // for the environment of its process
	stamp  string   // changes when the contents of the environment change
}

// environments finds and builds environments. The first of these that exists is a model's environment:
//
//   - the one that its parameter EXECUTION_ENV_PATH names, as in Triton: a folder, or an archive made by conda-pack or
//     from a venv
//   - one built from requirements.txt in its version's folder or in its own folder
//   - the environment of its backend's framework, if that is installed
//   - one built from the server's requirements
//   - the machine's Python, or the environment with numpy (see NumPy) if that is installed and the machine's has none
type environments struct {
	folder       string
	interpreter  string // of the machine
	requirements string // a file, for models without a separate environment; "": none
	log          *slog.Logger
	env          []string // further variables that installers get; see process.Environ
	uses         uses
}

// modelFolderVariable stands for the model's folder in EXECUTION_ENV_PATH.
const modelFolderVariable = "$$TRITON_MODEL_DIRECTORY"

// of returns the environment of a model. platform is the python-based backend, "" for a model's own code. Errors:
// NotFound for a path that does not exist, InvalidArg for a damaged archive, Internal when an environment cannot be
// built. The text ends with the last lines of the installer's output.
func (e *environments) of(ctx context.Context, s backend.Spec, platform string, log *slog.Logger) (environment, error) {
	use := EnvironmentUse{Kind: FromMachine, State: EnvironmentReady}
	env, err := e.choose(ctx, s, platform, log, &use)
	if use.Python = env.python; err != nil {
		use.State, use.Err = EnvironmentFailed, err
	}
	e.uses.note(s.ModelName, use)
	return env, err
}

// choose finds or builds the environment of a model. It writes its choice to use.
func (e *environments) choose(ctx context.Context, s backend.Spec, platform string, log *slog.Logger,
	use *EnvironmentUse) (environment, error) {
	if p := s.Config.GetParameters()["EXECUTION_ENV_PATH"].GetStringValue(); p != "" {
		return e.given(ctx, s, filepath.Clean(strings.ReplaceAll(p, modelFolderVariable, s.ModelFolder)), log, use)
	}
	for _, folder := range []string{s.VersionFolder, s.ModelFolder} {
		file := filepath.Join(folder, "requirements.txt")
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return e.built(ctx, s.ModelName, file, log, use)
		}
	}
	parent := filepath.Dir(e.folder)
	if f, ok := FindFramework(platform); ok && f.Installed(parent) {
		use.Kind, use.Folder = FromFramework, f.Environment(parent)
		return inFolder(ctx, s.ModelName, use.Folder, use.Folder)
	}
	if e.requirements != "" {
		return e.built(ctx, s.ModelName, e.requirements, log, use)
	}
	path, err := e.machine(s.ModelName)
	if f, ok := FindFramework(NumPy); err == nil && ok && f.Installed(parent) && !e.hasNumPy(ctx, path) {
		use.Kind, use.Folder = FromFramework, f.Environment(parent)
		return inFolder(ctx, s.ModelName, use.Folder, use.Folder)
	}
	return environment{python: path}, err
}

// machine returns the absolute path of the machine's Python. model is for the error.
func (e *environments) machine(model string) (string, error) {
	path, err := exec.LookPath(e.interpreter)
	if err != nil {
		return "", status.Errorf(status.NotFound,
			"there is no Python to run model '%s' with: %s is not found; install python3 with numpy, or name one "+
				"by --backend-config=python,python=<path>", model, e.interpreter)
	}
	if path, err = filepath.Abs(path); err != nil { // environments are built in another working directory
		return "", status.Errorf(status.Internal, "the Python of model '%s' cannot be found: %w", model, err)
	}
	return path, nil
}

// given returns the environment at a path: a folder, or an archive that is unpacked once.
func (e *environments) given(ctx context.Context, s backend.Spec, path string, log *slog.Logger,
	use *EnvironmentUse) (environment, error) {
	use.Kind, use.Source = FromFolder, path
	info, err := os.Stat(path)
	if err != nil {
		return environment{}, status.Errorf(status.NotFound, "EXECUTION_ENV_PATH of model '%s': %w", s.ModelName, err)
	}
	if info.IsDir() {
		return inFolder(ctx, s.ModelName, path, fmt.Sprint(info.ModTime().UnixNano()))
	}
	stamp := fmt.Sprint(path, "\x00", info.Size(), "\x00", info.ModTime().UnixNano())
	folder := filepath.Join(e.folder, "archive-"+hash(stamp))
	use.Kind, use.Folder = FromArchive, folder
	err = once(ctx, folder, func() error {
		e.building(s.ModelName, use)
		log.Info("unpacking the environment of a model", "archive", path, "folder", folder)
		return e.unpack(ctx, path, folder)
	})
	if err != nil {
		return environment{}, status.Errorf(cmp.Or(status.CodeOf(err), status.Internal),
			"EXECUTION_ENV_PATH of model '%s': %w", s.ModelName, err)
	}
	return inFolder(ctx, s.ModelName, folder, stamp)
}

// inFolder returns the environment in a folder.
func inFolder(ctx context.Context, model, folder, stamp string) (environment, error) {
	for _, name := range []string{"python3", "python"} {
		path := filepath.Join(folder, "bin", name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		env := environment{python: path, stamp: stamp, vars: []string{
			"PATH=" + filepath.Join(folder, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
			"PYTHONNOUSERSITE=1",
		}}
		if _, err := os.Stat(filepath.Join(folder, "pyvenv.cfg")); err == nil {
			env.vars = append(env.vars, "VIRTUAL_ENV="+folder)
		} else { // conda's environments have their own libraries
			env.vars = append(env.vars, "CONDA_PREFIX="+folder,
				"LD_LIBRARY_PATH="+strings.Trim(filepath.Join(folder, "lib")+":"+os.Getenv("LD_LIBRARY_PATH"), ":"))
			var err error
			if env.vars, err = activate(ctx, folder, env.vars); err != nil {
				return environment{}, status.Errorf(status.CodeOf(err),
					"the environment %s of model '%s' cannot be activated: %w", folder, model, err)
			}
		}
		return env, nil
	}
	return environment{}, status.Errorf(status.NotFound, "the environment %s of model '%s' has no bin/python3; "+
		"name a folder or an archive that conda-pack or venv made", folder, model)
}

// unpack unpacks an archive and adapts its scripts to the new folder.
func (e *environments) unpack(ctx context.Context, archive, folder string) error {
	if err := unpackArchive(ctx, archive, folder); err != nil {
		return err
	}
	script := filepath.Join(folder, "bin", "conda-unpack")
	if _, err := os.Stat(script); err != nil {
		return nil // conda-pack did not make it
	}
	python := filepath.Join(folder, "bin", "python3")
	cmd := inGroup(exec.CommandContext(ctx, python, script))
	cmd.Env = process.Environ(os.Environ(), e.env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return status.Errorf(status.Internal, "conda-unpack: %w\n%s", err, lastLines(out))
	}
	return nil
}

// built returns the environment for a requirements file. The first model that needs the environment builds it.
func (e *environments) built(ctx context.Context, model, file string, log *slog.Logger,
	use *EnvironmentUse) (environment, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return environment{}, status.Errorf(status.NotFound, "the requirements of model '%s' cannot be read: %w", model,
			err)
	}
	use.Kind, use.Source = FromRequirements, file
	python, err := e.machine(model)
	if err != nil {
		return environment{}, err
	}
	real, err := filepath.EvalSymlinks(python)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	if err != nil {
		return environment{}, status.Errorf(status.Internal, "cannot find the Python of model '%s': %w", model, err)
	}
	stamp := hash(fmt.Sprint(python, "\x00", real, "\x00", info.ModTime().UnixNano(), "\x00", string(text)))
	folder := filepath.Join(e.folder, "requirements-"+stamp)
	use.Folder = folder
	err = once(ctx, folder, func() error {
		e.building(model, use)
		began := time.Now()
		log.Info("building the environment of a model", "requirements", file, "folder", folder, "log", folder+".log")
		err := build(ctx, python, file, text, folder, "", e.env, io.Discard)
		if err == nil {
			log.Info("the environment of a model is built", "folder", folder, "took", time.Since(began))
		}
		return err
	})
	if err != nil {
		return environment{}, status.Errorf(status.Internal,
			"the environment of model '%s' cannot be built from %s: %w", model, file, err)
	}
	return inFolder(ctx, model, folder, stamp)
}

// building notes that a model waits for its environment.
func (e *environments) building(model string, use *EnvironmentUse) {
	now := *use
	now.State = EnvironmentBuilding
	e.uses.note(model, now)
}

// build makes a venv and installs the requirements and numpy in it, by uv if that is installed, else by pip. The
// installer's output goes to <folder>.log and to out. The installed versions go to requirements.lock in the folder.
// env are further variables that the installer gets.
//
// The environment also sees the packages of the environment in the folder base, unless that is "".
func build(ctx context.Context, python, file string, text []byte, folder, base string, env []string,
	out io.Writer) error {
	log, err := os.Create(folder + ".log")
	if err != nil {
		return err
	}
	defer log.Close() // nothing depends on what is in it
	inside := filepath.Join(folder, "bin", "python")
	steps := [][]string{
		{python, "-m", "venv", folder},
		{inside, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r", file, "numpy"},
		{inside, "-m", "pip", "freeze", "--disable-pip-version-check"},
	}
	if uv, err := exec.LookPath("uv"); err == nil {
		steps = [][]string{
			{uv, "venv", "--python", python, folder},
			{uv, "pip", "install", "--python", inside, "-r", file, "numpy"},
			{uv, "pip", "freeze", "--python", inside},
		}
	}
	var lock []byte
	for i, step := range steps {
		cmd := inGroup(exec.CommandContext(ctx, step[0], step[1:]...))
		cmd.Dir = filepath.Dir(file) // relative paths in the file begin there
		cmd.Env = append(process.InstallerEnviron(env), "PYTHONNOUSERSITE=1")
		fmt.Fprintln(log, "$", strings.Join(step, " "))
		if i == len(steps)-1 {
			if lock, err = cmd.Output(); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(step, " "), err)
			}
			break
		}
		cmd.Stdout = io.MultiWriter(log, out)
		cmd.Stderr = cmd.Stdout
		if err := cmd.Run(); err != nil {
			said, _ := os.ReadFile(log.Name()) // without it, the error has no output
			return fmt.Errorf("%s: %w; the end of %s:\n%s", strings.Join(step, " "), err, log.Name(), lastLines(said))
		}
		if i == 0 && base != "" {
			if err := seePackages(folder, base); err != nil {
				return err
			}
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, "requirements.txt"), text, 0o600),
		os.WriteFile(filepath.Join(folder, "requirements.lock"), lock, 0o600))
}

// seePackages makes the packages of one environment visible in another.
func seePackages(folder, base string) error {
	from := glob.In(base, "lib/python*/site-packages")
	if len(from) != 1 {
		return fmt.Errorf("%s has no packages", base)
	}
	_, version, _ := strings.Cut(strings.TrimPrefix(from[0], base), string(os.PathSeparator))
	return os.WriteFile(filepath.Join(folder, version, "base.pth"), []byte(from[0]+"\n"), 0o600)
}

// lastLines returns the last lines of a program's output.
func lastLines(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:16]
}
