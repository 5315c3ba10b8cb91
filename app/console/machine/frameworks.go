package machine

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/rest"
	"nereid/app/console/stream"
	"nereid/app/console/tasks"
	"nereid/engine"
	"nereid/engine/backend/python"
	"nereid/engine/lifecycle"
)

// Installer installs the packages that backends need and that the program does not contain.
type Installer interface {
	List() []python.Framework
	Installed(f python.Framework) bool
	// Install fetches and installs a framework until ctx is done. It writes the installer's output to out.
	Install(ctx context.Context, f python.Framework, out io.Writer) error
}

// Frameworks serves the routes about frameworks and installs them.
type Frameworks struct {
	Installer Installer // nil: there are no frameworks
	Catalog   *catalog.Catalog
	Engine    *engine.Engine
	Streams   *stream.Hub
	Tasks     *tasks.Group
	Log       *slog.Logger

	mu       sync.Mutex          // guards what follows, and the fields of installs
	installs map[string]*install // the last one of each framework
}

// install is an installation that runs or has ended.
type install struct {
	mu      *sync.Mutex // that of Frameworks
	began   time.Time
	ended   bool
	err     error
	lines   []string
	partial []byte // a line that has not ended
	cancel  context.CancelFunc
}

// Write takes the installer's output.
func (i *install) Write(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.partial = append(i.partial, b...)
	for {
		at := bytes.IndexAny(i.partial, "\r\n") // pip shows progress with carriage returns
		if at < 0 {
			break
		}
		if line := strings.TrimSpace(string(i.partial[:at])); line != "" {
			i.lines = append(i.lines, rest.Clip(line))
		}
		i.partial = i.partial[at+1:]
	}
	i.lines = i.lines[max(0, len(i.lines)-shownLines):]
	if len(i.partial) > 64<<10 { // not a line
		i.partial = nil
	}
	return len(b), nil
}

func (h *Frameworks) list() []python.Framework {
	if h.Installer == nil {
		return nil
	}
	return h.Installer.List()
}

// List lists the frameworks.
func (h *Frameworks) List(*http.Request) (out api.Frameworks, err error) {
	for _, f := range h.list() {
		out.Frameworks = append(out.Frameworks, h.view(f))
	}
	return out, nil
}

// view returns a framework as the console's interface shows it.
func (h *Frameworks) view(f python.Framework) api.Framework {
	out := api.Framework{Name: f.Name, Title: f.Title, Package: strings.Fields(f.Requirements)[0], Size: f.Size,
		State: api.FrameworkMissing}
	if h.Installer.Installed(f) {
		out.State = api.FrameworkInstalled
	}
	out.Waiting = h.waiting(f)
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.installs[f.Name]; i != nil {
		out.Log = slices.Clone(i.lines)
		switch {
		case !i.ended:
			out.State, out.SinceMs = api.FrameworkInstalling, i.began.UnixMilli()
		case i.err != nil && out.State != api.FrameworkInstalled:
			out.State, out.Reason = api.FrameworkFailed, i.err.Error()
		}
	}
	return out
}

// waiting returns the models of a framework's backend that could not be loaded.
func (h *Frameworks) waiting(f python.Framework) (names []string) {
	for _, m := range h.Engine.Models() {
		if m.Config.GetBackend() != f.Name || catalog.Running(m) != nil {
			continue
		}
		if m.Err != nil && f.MayCure(m.Err.Error()) ||
			slices.ContainsFunc(m.Versions, func(v lifecycle.VersionStatus) bool {
				return v.Reason != "" && v.Reason != "unloaded" && f.MayCure(v.Reason)
			}) {
			names = append(names, m.Name)
		}
	}
	return names
}

// find returns the framework that a path names.
func (h *Frameworks) find(r *http.Request) (python.Framework, error) {
	for _, f := range h.list() {
		if f.Name == r.PathValue("name") {
			return f, nil
		}
	}
	return python.Framework{}, rest.Errorf(api.CodeNotFound, "there is no framework %s that could be installed",
		rest.Quote(r.PathValue("name")))
}

// Install starts an installation. It goes on when the page is closed.
func (h *Frameworks) Install(r *http.Request, req *api.InstallFramework) (out api.Framework, err error) {
	f, err := h.find(r)
	if err != nil {
		return out, err
	}
	if !req.Consent {
		return out, rest.Errorf(api.CodeConsent,
			"%s needs room on the disk (about %s) and comes from the package index; repeat with consent",
			f.Title, f.Size)
	}
	if h.Installer.Installed(f) {
		return out, rest.Errorf(api.CodeConflict, "%s is installed already", f.Title)
	}
	if err := h.start(f); err != nil {
		return out, err
	}
	return h.view(f), nil
}

// start starts an installation unless one of the same framework runs.
func (h *Frameworks) start(f python.Framework) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.installs[f.Name]; before != nil && !before.ended {
		return rest.Errorf(api.CodeConflict, "%s is being installed already", f.Title)
	}
	if h.installs == nil {
		h.installs = map[string]*install{}
	}
	i := &install{mu: &h.mu, began: time.Now()}
	i.cancel = h.Tasks.Start(func(ctx context.Context) { h.run(ctx, f, i) })
	h.installs[f.Name] = i
	return nil
}

// run installs a framework, publishes its progress, and then loads the models that need it.
func (h *Frameworks) run(ctx context.Context, f python.Framework, i *install) {
	publish := func() { h.Streams.Publish("framework", h.view(f)) }
	done := make(chan struct{})
	var progress sync.WaitGroup
	progress.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				publish()
			}
		}
	})
	h.Log.Info("installing a framework", "framework", f.Name, "size", f.Size)
	err := h.Installer.Install(ctx, f, i)
	if ctx.Err() != nil {
		err = rest.Errorf(api.CodeUnavailable, "the installation was stopped")
	}
	close(done)
	progress.Wait()
	waiting := h.waiting(f)
	h.mu.Lock()
	i.ended, i.err = true, err
	h.mu.Unlock()
	publish()
	if err != nil {
		h.Log.Error("a framework was not installed", "framework", f.Name, "err", err)
		return
	}
	h.Log.Info("a framework is installed", "framework", f.Name)
	for _, name := range waiting {
		unlock := h.Catalog.Lock(name)
		if err := h.Engine.Reload(ctx, name); err != nil {
			h.Log.Warn("a model that waited for a framework does not load", "model", name, "err", err)
		}
		unlock()
	}
	h.Catalog.Changed()
	publish()
}

// Stop stops an installation.
func (h *Frameworks) Stop(r *http.Request) (out api.Framework, err error) {
	f, err := h.find(r)
	if err != nil {
		return out, err
	}
	h.mu.Lock()
	i := h.installs[f.Name]
	runs := i != nil && !i.ended
	h.mu.Unlock()
	if !runs {
		return out, rest.Errorf(api.CodeConflict, "%s is not being installed", f.Title)
	}
	i.cancel()
	return h.view(f), nil
}
