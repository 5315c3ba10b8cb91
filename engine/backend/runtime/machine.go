package runtime

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"time"
)

// machine knows where the machine's Python has a package, and asks it again only when the answer may be another: when
// the interpreter or a folder that it looks into has changed. The zero value has not asked yet.
type machine struct {
	mu   sync.Mutex
	last pythonAnswer // guarded by mu
}

// pythonAnswer is what the interpreter printed.
type pythonAnswer struct {
	interpreter string
	changed     time.Time        // the interpreter's file
	Looks       map[string]int64 // folders that it looks into, and when they changed, in ns since 1970; 0: not there
	Folder      string           // of the package; "": it is not there
}

// askPython prints a pythonAnswer for a package, without importing it. The current folder does not count, and the
// folders' times are read before they are looked into.
const askPython = `import importlib.util, json, os, sys
sys.path = [p for p in sys.path if p]
looks = {p: os.stat(p).st_mtime_ns if os.path.exists(p) else 0 for p in sys.path}
spec = importlib.util.find_spec(sys.argv[1])
print(json.dumps({"Looks": looks, "Folder": (spec and spec.submodule_search_locations or [""])[0]}))`

// folder returns the folder of a package, "" where there is none or no Python: that is no error here, the framework is
// missing then. Safe for concurrent use.
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
	out, err := exec.CommandContext(ctx, path, "-c", askPython, pkg).Output()
	if err != nil {
		return ""
	}
	now := pythonAnswer{interpreter: path, changed: info.ModTime()}
	if err := json.Unmarshal(out, &now); err != nil {
		return "" // a program that is no Python
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
