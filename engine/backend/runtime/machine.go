package runtime

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"time"

	"nereid/engine/worker/process"
)

// machine finds a package of the machine's Python. It runs the interpreter again only when the interpreter or a folder
// on its path has changed. The zero value is ready to use; it is safe for concurrent use.
type machine struct {
	mu   sync.Mutex
	last pythonAnswer // guarded by mu
}

// pythonAnswer is what the interpreter printed.
type pythonAnswer struct {
	interpreter string
	changed     time.Time        // modification time of the interpreter's file
	Looks       map[string]int64 // folders on its path, with their modification times in Unix ns; 0: not there
	Folder      string           // of the package; "": it is not there
}

// askPython prints a pythonAnswer for a package, without importing it. It ignores the current folder. It reads the
// folders' times before it searches them, so that a later change is noticed.
const askPython = `import importlib.util, json, os, sys
sys.path = [p for p in sys.path if p]
looks = {p: os.stat(p).st_mtime_ns if os.path.exists(p) else 0 for p in sys.path}
spec = importlib.util.find_spec(sys.argv[1])
print(json.dumps({"Looks": looks, "Folder": (spec and spec.submodule_search_locations or [""])[0]}))`

// folder returns the folder of a package. "": there is no such package, or no Python; then the framework is missing.
func (m *machine) folder(ctx context.Context, interpreter, pkg string) string {
	path, err := exec.LookPath(interpreter)
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	if last.interpreter == path && last.changed.Equal(info.ModTime()) && last.holds() {
		return last.Folder
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, path, "-c", askPython, pkg)
	cmd.Env = process.Environ(os.Environ(), nil)
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	now := pythonAnswer{interpreter: path, changed: info.ModTime()}
	if err := json.Unmarshal(out, &now); err != nil {
		return "" // the program is not Python
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = now
	return now.Folder
}

// holds reports whether the folders have not changed.
func (a *pythonAnswer) holds() bool {
	for path, then := range a.Looks {
		now := int64(0)
		if info, err := os.Stat(path); err == nil {
			now = info.ModTime().UnixNano()
		}
		if now != then {
			return false
		}
	}
	return true
}
