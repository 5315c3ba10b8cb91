package python

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// EnvironmentKind says where a model's environment comes from.
type EnvironmentKind string

// The kinds.
const (
	FromMachine      EnvironmentKind = "machine"      // the machine's Python
	FromFolder       EnvironmentKind = "folder"       // EXECUTION_ENV_PATH names a folder
	FromArchive      EnvironmentKind = "archive"      // EXECUTION_ENV_PATH names an archive
	FromRequirements EnvironmentKind = "requirements" // of the model, or of the server
	FromFramework    EnvironmentKind = "framework"    // see InstallFramework
)

// EnvironmentState says whether an environment can be used.
type EnvironmentState string

// The states.
const (
	EnvironmentBuilding EnvironmentState = "building"
	EnvironmentReady    EnvironmentState = "ready"
	EnvironmentFailed   EnvironmentState = "failed"
)

// EnvironmentUse is the environment that a model has, or is about to have.
type EnvironmentUse struct {
	Kind   EnvironmentKind
	State  EnvironmentState
	Python string // the interpreter's path; "" until it is known
	Source string // the requirements file, folder or archive that it comes from; "": the machine's Python
	Folder string // where the server has built or unpacked it; "": it is used where it is
	Err    error  // if State is EnvironmentFailed
	Since  time.Time
}

// LogPath returns the path of the installer's output; "": nothing was installed.
func (u EnvironmentUse) LogPath() string {
	if u.Folder == "" || u.Kind != FromRequirements && u.Kind != FromFramework {
		return ""
	}
	return u.Folder + ".log"
}

// Lock returns the installed packages with their versions, as pip freeze lists them; "": nothing was installed.
func (u EnvironmentUse) Lock() string {
	if u.Folder == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(u.Folder, "requirements.lock"))
	if err != nil {
		return "" // the environment is not finished, or from an archive
	}
	return string(b)
}

// uses is the environments by model. Safe for concurrent use.
type uses struct {
	mu sync.Mutex
	by map[string]EnvironmentUse // guarded by mu
}

func (u *uses) note(model string, e EnvironmentUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = map[string]EnvironmentUse{}
	}
	e.Since = time.Now()
	u.by[model] = e
}

// EnvironmentOf returns the environment that the last load of a model chose; false if the model was never loaded. Safe
// for concurrent use.
func (b *Backend) EnvironmentOf(model string) (EnvironmentUse, bool) {
	b.envs.uses.mu.Lock()
	defer b.envs.uses.mu.Unlock()
	e, ok := b.envs.uses.by[model]
	return e, ok
}
