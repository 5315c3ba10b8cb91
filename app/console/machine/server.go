package machine

import (
	"context"
	"io"
	"mime"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/app/newversion"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/system/proc"
	"nereid/store"
)

// Description is what the caller knows about its server. nil functions leave out their part.
type Description struct {
	Version     string // of this program
	NewVersion  func() newversion.Release
	PollEvery   time.Duration
	Addresses   func() api.Addresses
	ONNXRuntime func() api.Runtime
	Warnings    func() []api.Warning
	Support     func(context.Context, io.Writer) error // writes a support bundle
	Metrics     func() []byte                          // Prometheus text
}

// Server serves the state of the server.
type Server struct {
	Description
	Engine       *engine.Engine
	Store        *store.Store
	Backends     []backend.Backend
	Repositories []string
	DataDir      string
	HasWindow    bool
}

// State returns the state of the server.
func (s *Server) State(r *http.Request) (api.Server, error) {
	meta := s.Engine.ServerMetadata()
	out := api.Server{
		Name: meta.GetName(), Version: s.Version, TritonVersion: meta.GetVersion(),
		Live: s.Engine.Live(), Ready: s.Engine.Ready(),
		StartMs: s.Engine.Started().UnixMilli(), NowMs: time.Now().UnixMilli(),
		ModelControlMode: string(s.Engine.Mode()), PollMs: max(0, s.PollEvery.Milliseconds()),
		DataDir: s.DataDir, Desktop: s.HasWindow, Scopes: rest.ScopeOf(r).Names(),
		Process: process(), History: s.history(r.Context()),
	}
	for _, root := range s.Repositories {
		out.Repositories = append(out.Repositories, s.repository(root))
	}
	for _, b := range s.Backends {
		out.Backends = append(out.Backends, api.Backend{Name: b.Name()})
	}
	if s.Addresses != nil {
		out.Addresses = s.Addresses()
	}
	if s.ONNXRuntime != nil {
		out.ONNXRuntime = s.ONNXRuntime()
	}
	if s.NewVersion != nil {
		out.NewVersion = api.NewVersion(s.NewVersion())
	}
	if s.Warnings != nil {
		out.Warnings = s.Warnings()
	}
	for _, text := range s.Store.Warnings() {
		out.Warnings = append(out.Warnings, api.Warning{Severity: api.SeverityWarning, Text: text})
	}
	if h := s.Store.Health(); h.Failing {
		out.Warnings = append(out.Warnings, api.Warning{Severity: api.SeverityError,
			Text: "the history database cannot be written (" + h.LastError +
				"); new history is kept in memory until it can"})
	}
	return out, nil
}

// SupportBundle replies with a zip file for a person who looks into a problem. It has no secrets and no contents.
func (s *Server) SupportBundle(w http.ResponseWriter, r *http.Request) error {
	if s.Support == nil {
		return rest.Errorf(api.CodeUnsupported, "this server writes no support bundles")
	}
	name := "nereid-support-" + time.Now().UTC().Format("20060102-150405") + ".zip"
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	return s.Support(r.Context(), w)
}

func (s *Server) repository(root string) api.Repository {
	r := api.Repository{Path: root}
	if catalog.Remote(root) {
		for _, st := range s.Engine.Models() {
			if st.Repository == root {
				r.Models++
			}
		}
		return r
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			r.Models++
		}
	}
	r.Writable = folders.Writable(root)
	return r
}

func (s *Server) history(ctx context.Context) api.HistoryStatus {
	h := s.Store.Health()
	out := api.HistoryStatus{SizeBytes: h.Bytes, Dropped: int64(h.DroppedSamples)}
	if path := s.Store.Path(); path != "" {
		out.SizeBytes = 0
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(path + suffix); err == nil {
				out.SizeBytes += info.Size()
			}
		}
	}
	if oldest, err := s.Store.Oldest(ctx); err == nil {
		out.OldestMs = oldest / 1000
	}
	return out
}

func process() api.Process {
	own, err := proc.ReadStat(proc.Root, "self")
	p := api.Process{PID: os.Getpid(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		GoVersion: runtime.Version(), RSSBytes: own.Resident, CPUSeconds: proc.OwnCPU()}
	if err != nil { // not known on this system: the memory that Go manages
		s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		metrics.Read(s)
		p.RSSBytes = int64(s[0].Value.Uint64())
	}
	return p
}
