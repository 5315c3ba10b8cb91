package machine

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/engine/backend"
	"nereid/engine/backend/python"
)

// Runtime shows how models run: their instances, processes and Python environments.
type Runtime struct {
	Catalog *catalog.Catalog
	// Environment returns the environment of a Python model; nil: there are none.
	Environment func(model string) (python.EnvironmentUse, bool)
}

// Model returns the instances of a model's versions and its environment.
func (h *Runtime) Model(r *http.Request) (out api.ModelRuntime, err error) {
	m, err := h.Catalog.Find(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	for _, v := range m.Status.Versions {
		if v.Model == nil {
			continue
		}
		processes := map[string]backend.Process{}
		for _, p := range v.Model.Processes() {
			processes[p.Instance] = p
		}
		for _, p := range v.Model.Placements() {
			i := api.Instance{Version: strconv.FormatInt(v.Version, 10), Name: p.Name, Kind: p.Kind.String(),
				GPU:        p.Device,
				HostPolicy: p.HostPolicy, Affinity: p.Affinity.String(), Passive: p.Passive}
			if own, ok := processes[p.Name]; ok {
				i.Process = apiWorker(own)
			}
			out.Instances = append(out.Instances, i)
		}
	}
	if h.Environment != nil {
		if e, ok := h.Environment(m.Name); ok {
			out.Environment = apiEnvironment(e)
		}
	}
	return out, nil
}

func apiWorker(p backend.Process) *api.Worker {
	w := &api.Worker{PID: p.PID, MemoryBytes: p.MemoryBytes, Ends: p.Ends, Quarantined: p.Quarantined,
		Output: p.Output, Before: p.Before}
	if !p.Since.IsZero() {
		w.SinceMs = p.Since.UnixMilli()
	}
	if p.Err != nil {
		w.Error = p.Err.Error()
	}
	return w
}

func apiEnvironment(e python.EnvironmentUse) *api.Environment {
	out := &api.Environment{Kind: string(e.Kind), State: string(e.State), SinceMs: e.Since.UnixMilli(),
		Python: e.Python,
		Source: e.Source, Folder: e.Folder, LogPath: e.LogPath(), Log: tail(e.LogPath(), shownLines)}
	if lock := strings.TrimSpace(e.Lock()); lock != "" {
		out.Lock = strings.Split(lock, "\n")
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	return out
}

// shownLines is how many lines of an installer's log the page gets.
const shownLines = 200

// tail returns the last lines of a file, nothing if it cannot be read.
func tail(path string, lines int) []string {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
	if err != nil {
		return nil
	}
	text := strings.ToValidUTF8(strings.TrimSpace(string(b)), "?")
	all := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return all[max(0, len(all)-lines):]
}
