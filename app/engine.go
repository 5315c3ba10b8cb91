package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/alerts"
	"nereid/app/backends"
	"nereid/app/console/catalog"
	"nereid/app/console/configs"
	"nereid/app/console/machine"
	"nereid/app/console/models"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/agent"
	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/cache/redis"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/trace"
	"nereid/store"
)

// openListeners binds the ports.
func (s *server) openListeners() (err error) {
	if s.fronts.listeners, err = s.c.Listen.Open(); err != nil {
		return err
	}
	if l, ui := s.fronts.listeners["ui"], s.c.Listen.UI; l != nil && ui.Port != 0 &&
		l.Addr().(*net.TCPAddr).Port != ui.Port {
		s.log.Warn(fmt.Sprintf("port %d is in use, so the GUI takes a free one: %s", ui.Port, l.Addr()))
	}
	return nil
}

// openBackends binds the ports, so that a port in use is reported before anything slow happens, and makes the backends.
func (s *server) openBackends(context.Context) (err error) {
	if err := s.openListeners(); err != nil {
		return err
	}
	s.recorder = history.New(nil, s.store)
	s.fronts.memory = tensor.NewBudget(requestMemory(s.c.RequestMemory))
	s.backends, err = backends.Open(s.c, s.data.Path, s.fronts.memory, s.log)
	return err
}

// openEngine makes the engine, with what it keeps in the data folder, and the tracer.
func (s *server) openEngine(ctx context.Context) (err error) {
	o := s.c.Engine
	o.OverrideFolder = s.data.Join("overrides")
	if err := emptyFolder(o.OverrideFolder); err != nil {
		return fmt.Errorf("cannot prepare the data folder: %w", err)
	}
	if s.c.Listen.SageMaker.On && o.Mode == engine.ModeExplicit {
		s.repos.archives = s.data.Join("archives")
		if err := emptyFolder(s.repos.archives); err != nil {
			return fmt.Errorf("cannot prepare the folder of archives: %w", err)
		}
		o.Repositories = append(slices.Clone(o.Repositories), s.repos.archives)
		o.Preferred = s.repos.archives
	}
	if err := s.openCache(); err != nil {
		return err
	}
	if !o.SharedMemory.Disabled {
		o.SharedMemory.CUDA = s.backends.Regions
	}
	o.Remotes, o.Backends, o.Machine = s.repos.remotes, s.backends.All, s.backends.Machine
	o.Libraries = s.backends.Libraries
	o.Agents = agent.All()
	for _, a := range s.backends.Agents {
		o.Agents = append(o.Agents, a)
	}
	o.Cache, o.Log, o.Events = s.cache, s.log, s.events()
	o.RequestMemory = s.fronts.memory
	if s.engine, err = engine.New(o); err != nil {
		return err
	}
	s.recorder.SetSource(s.engine)
	monitor := &machine.Monitor{Engine: s.engine, GPUs: s.backends.Machine}
	s.meter = &history.Meter{Read: monitor.Readings, Keep: s.store.AddGauges, Log: s.log}
	if err := s.openAlerts(ctx); err != nil {
		return err
	}
	pins, err := models.Pins(ctx, s.store)
	if err != nil {
		return err
	}
	for name, pinned := range pins {
		s.engine.Pin(name, &pinned)
	}
	return s.openTrace()
}

// openAlerts makes what watches the history, if there is one.
func (s *server) openAlerts(ctx context.Context) (err error) {
	if !s.c.History.On {
		return nil
	}
	if s.webhook, err = alerts.NewWebhook(ctx, s.store, s.log); err != nil {
		return err
	}
	s.alerts, err = alerts.New(ctx, alerts.Options{Store: s.store, Recorder: s.recorder, Readings: s.meter.Last,
		Refused: s.fronts.refusals.Total, Log: s.log, Notify: func(a alerts.Alert) {
			s.webhook.Notify(a)
			if s.shell != nil && a.EndUS == 0 {
				s.shell.notify(strings.TrimSuffix("Nereid: "+a.Model, ": "), a.Text())
			}
		}})
	return err
}

func emptyFolder(path string) error { return errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)) }

// openTrace makes the tracer. As in Triton, settings that trace nothing do not keep the server from starting.
func (s *server) openTrace() (err error) {
	o := s.c.Trace
	o.Log = s.log
	if s.trace, err = trace.New(o); err != nil {
		return fmt.Errorf("--trace-config: %w", err)
	}
	if why := s.trace.Fault(); why != "" {
		s.warn("nothing is traced: " + why + "; say --trace-config=triton,file=<path>")
	}
	return nil
}

func (s *server) openCache() error {
	switch o := s.c.ResponseCache; {
	case o.Size > 0:
		local, err := cache.New(o.Size)
		if err != nil {
			return err
		}
		s.cache = local
	case o.Redis != nil:
		shared, err := redis.New(o.Redis, s.log)
		if err != nil {
			return err
		}
		s.cache = shared
	case o.Library != "":
		if o.Directory == "" {
			return status.Errorf(status.InvalidArg, "the cache '%s' needs --cache-directory, the folder with its "+
				"library; the caches local and redis are built in", o.Library)
		}
		library, err := s.backends.OpenCache(o, s.log)
		if err != nil {
			return err
		}
		s.cache = library
	}
	return nil
}

// events writes what happens to models into the log, with Triton's lines, and into the history, and notifies the page.
func (s *server) events() engine.EventListener {
	l := engine.LogEvents(s.log)
	logFailed, logUnloaded, logEvicted, logScanFailed := l.Failed, l.Unloaded, l.Evicted, l.ScanFailed
	l.Loaded = func(model string, version int64, took time.Duration, reload bool) {
		kind := history.Load
		if reload {
			kind = history.Reload
		}
		detail := history.Took(took)
		s.describeLoad(model, version, &detail)
		s.recorder.Event(history.Event{Kind: kind, Model: model, Version: version, Detail: detail})
	}
	l.Resized = func(model string, version int64) {
		var detail history.Detail
		s.describeLoad(model, version, &detail)
		s.recorder.Event(history.Event{Kind: history.Reload, Model: model, Version: version, Text: "changed in place",
			Detail: detail})
	}
	l.Failed = func(model string, version int64, err error, kept bool) {
		kind := history.LoadFailed
		if kept {
			kind = history.ReloadFailed
		}
		s.recorder.Event(history.Event{Kind: kind, Model: model, Version: version, Text: status.Reason(err)})
		logFailed(model, version, err, kept)
		if s.shell != nil {
			reason, _, _ := strings.Cut(status.Reason(err), "\n")
			s.shell.notify("Nereid: "+model, "load failed: "+reason)
		}
	}
	l.Unloaded = func(model string, version int64) {
		logUnloaded(model, version)
		s.recorder.Event(history.Event{Kind: history.Unload, Model: model, Version: version})
	}
	l.Evicted = func(model string, version int64) {
		logEvicted(model, version)
		s.recorder.Event(history.Event{
			Kind: history.Evict, Model: model, Version: version, Text: "left memory; its next request loads it",
		})
	}
	l.Process = func(model string, version int64, p backend.ProcessEvent) {
		s.recorder.Event(processEvent(model, version, p))
	}
	l.VersionsChosen = func(model string, before, after []int64) {
		s.keepRevision(configs.VersionsRevision(model, before, after))
	}
	l.Overridden = func(model, before, config string) {
		s.keepRevision(configs.OverrideRevision(model, before, config))
	}
	l.ScanFailed = func(err error) {
		logScanFailed(err)
		s.recorder.Event(history.Event{Kind: history.RepositoryError, Text: err.Error()})
	}
	l.Changed = func() {
		if s.shell != nil {
			s.shell.changed()
		}
		if c := s.console.Load(); c != nil {
			c.ModelsChanged()
		}
	}
	return l
}

// describeLoad adds what a version was loaded from just now: the digests of configuration and files, and the revision
// of the configuration's file if that is the newest one.
func (s *server) describeLoad(model string, version int64, d *history.Detail) {
	st, ok := s.engine.Model(model)
	if !ok || st.Config == nil {
		return
	}
	d.Config = configs.Digest(st.Config)
	if !catalog.Remote(st.Repository) {
		d.Files = configs.FilesDigest(filepath.Join(st.Folder, strconv.FormatInt(version, 10)))
	}
	rev, err := s.store.FileRevision(context.Background(), model)
	if err == nil && !st.Overridden && rev.After != nil && *rev.After == st.ConfigText {
		d.Revision = rev.ID
	}
}

// processEvent is the row of the history about a process of a model.
func processEvent(model string, version int64, p backend.ProcessEvent) history.Event {
	e := history.Event{Kind: history.ProcessRestarted, Model: model, Version: version,
		Text: "the process of " + p.Instance + " runs again"}
	if p.Err != nil {
		e.Kind, e.Text = history.ProcessEnded, "the process of "+p.Instance+" ended: "+status.Reason(p.Err)
		if !p.Again {
			e.Text += "; it is not started again"
		}
	}
	return e
}

// keepRevision stores a change of a model that the engine has made. The change cannot be undone here, so an error is
// only logged.
func (s *server) keepRevision(r store.Revision) {
	if _, err := s.store.AddRevision(context.Background(), r); err != nil {
		s.log.Warn("a change of a model is not recorded", "model", r.Model, "err", err)
	}
}
