package console

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/engine/backend/python"
	"nereid/engine/lifecycle"
)

// Frameworks are the packages that backends need and the program does not bring.
type Frameworks interface {
	List() []python.Framework
	Installed(f python.Framework) bool
	// Install fetches and installs one; out hears what the installer says. It may take long, and ends with ctx.
	Install(ctx context.Context, f python.Framework, out io.Writer) error
}

// installs are the installations under way, and how the last of each ended.
type installs struct {
	mu sync.Mutex
	by map[string]*install // by framework; guarded by mu
}

// install is one installation.
type install struct {
	mu     sync.Mutex
	began  time.Time
	over   bool // guarded by mu, as are the next
	err    error
	lines  []string
	part   []byte // of a line that has not ended
	cancel context.CancelFunc
}

// Write takes what the installer says.
func (i *install) Write(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.part = append(i.part, b...)
	for {
		// pip shows progress by returns
		at := bytes.IndexAny(i.part, "\r\n")
		if at < 0 {
			break
		}
		if line := strings.TrimSpace(string(i.part[:at])); line != "" {
			i.lines = append(i.lines, clip(line))
		}
		i.part = i.part[at+1:]
	}
	i.lines = i.lines[max(0, len(i.lines)-shownLines):]
	if len(i.part) > 64<<10 { // no line at all
		i.part = nil
	}
	return len(b), nil
}

func (i *install) end(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over, i.err = true, err
}

func (i *install) show(out *api.Framework) {
	i.mu.Lock()
	defer i.mu.Unlock()
	out.Log = slices.Clone(i.lines)
	switch {
	case !i.over:
		out.State, out.SinceMs = api.FrameworkInstalling, i.began.UnixMilli()
	case i.err != nil && out.State != api.FrameworkInstalled:
		out.State, out.Reason = api.FrameworkFailed, i.err.Error()
	}
}

func (c *Console) getFrameworks(w http.ResponseWriter, _ *http.Request) error {
	out := api.Frameworks{}
	if c.o.Frameworks != nil {
		for _, f := range c.o.Frameworks.List() {
			out.Frameworks = append(out.Frameworks, c.framework(f))
		}
	}
	return reply(w, out)
}

func (c *Console) framework(f python.Framework) api.Framework {
	out := api.Framework{Name: f.Name, Title: f.Title, Package: strings.Fields(f.Requirements)[0], Size: f.Size, State: api.FrameworkMissing}
	if c.o.Frameworks.Installed(f) {
		out.State = api.FrameworkInstalled
	}
	c.installs.mu.Lock()
	i := c.installs.by[f.Name]
	c.installs.mu.Unlock()
	if i != nil {
		i.show(&out)
	}
	for _, m := range c.waiting(f) {
		out.Waiting = append(out.Waiting, m.Name)
	}
	return out
}

// waiting are the models of a framework's backend that nothing serves for.
func (c *Console) waiting(f python.Framework) (out []lifecycle.ModelStatus) {
	for _, m := range c.o.Engine.Models() {
		if m.Config.GetBackend() != f.Name || runningConfig(m) != nil {
			continue
		}
		if m.Err != nil || slices.ContainsFunc(m.Versions, func(v lifecycle.VersionStatus) bool { return v.Reason != "" && v.Reason != "unloaded" }) {
			out = append(out, m)
		}
	}
	return out
}

func (c *Console) oneFramework(r *http.Request) (python.Framework, error) {
	if c.o.Frameworks != nil {
		for _, f := range c.o.Frameworks.List() {
			if f.Name == r.PathValue("name") {
				return f, nil
			}
		}
	}
	return python.Framework{}, fail(api.CodeNotFound, "there is no framework %s that could be installed", quote(r.PathValue("name")))
}

// postInstall begins an installation, and loads the models that waited for it once it is there. It goes on when the page
// is closed.
func (c *Console) postInstall(w http.ResponseWriter, r *http.Request) error {
	f, err := c.oneFramework(r)
	if err != nil {
		return err
	}
	var req api.InstallFramework
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if !req.Consent {
		return fail(api.CodeConsent, "%s takes about %s on the disk and comes from the package index; repeat with consent", f.Title, f.Size)
	}
	if c.o.Frameworks.Installed(f) {
		return fail(api.CodeConflict, "%s is installed already", f.Title)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	i := &install{began: time.Now(), cancel: cancel}
	c.installs.mu.Lock()
	before := c.installs.by[f.Name]
	if before != nil && !before.ended() {
		c.installs.mu.Unlock()
		cancel()
		return fail(api.CodeConflict, "%s is being installed already", f.Title)
	}
	if c.installs.by == nil {
		c.installs.by = map[string]*install{}
	}
	c.installs.by[f.Name] = i
	c.installs.mu.Unlock()
	c.wg.Go(func() { c.installFramework(ctx, f, i) })
	writeJSON(w, http.StatusAccepted, c.framework(f))
	return nil
}

func (i *install) ended() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.over
}

// installFramework installs a framework and tells the readers of the topic how far it is.
func (c *Console) installFramework(ctx context.Context, f python.Framework, i *install) {
	defer i.cancel()
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				c.hub.publish("framework", c.framework(f))
			}
		}
	})
	c.log.Info("installing a framework", "framework", f.Name, "size", f.Size)
	err := c.o.Frameworks.Install(ctx, f, i)
	if ctx.Err() != nil {
		err = fail(api.CodeUnavailable, "the installation was stopped")
	}
	close(done)
	telling.Wait()
	waiting := c.waiting(f)
	i.end(err)
	c.hub.publish("framework", c.framework(f))
	if err != nil {
		c.log.Error("a framework was not installed", "framework", f.Name, "err", err)
		return
	}
	c.log.Info("a framework is installed", "framework", f.Name)
	for _, m := range waiting {
		unlock := c.locks.lock(m.Name)
		if err := c.o.Engine.Reload(ctx, m.Name); err != nil {
			c.log.Warn("a model that waited for a framework does not load", "model", m.Name, "err", err)
		}
		unlock()
	}
	c.ModelsChanged()
	c.hub.publish("framework", c.framework(f))
}

// deleteInstall stops an installation.
func (c *Console) deleteInstall(w http.ResponseWriter, r *http.Request) error {
	f, err := c.oneFramework(r)
	if err != nil {
		return err
	}
	c.installs.mu.Lock()
	i := c.installs.by[f.Name]
	c.installs.mu.Unlock()
	if i == nil || i.ended() {
		return fail(api.CodeConflict, "%s is not being installed", f.Title)
	}
	i.cancel()
	return reply(w, c.framework(f))
}

// tail is the last lines of a file, nothing if there is none.
func tail(path string, lines int) []string {
	const most = 64 << 10
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() // read only
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return nil
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	text := strings.ToValidUTF8(strings.TrimSpace(string(b)), "?")
	if text == "" {
		return nil
	}
	all := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return all[max(0, len(all)-lines):]
}
