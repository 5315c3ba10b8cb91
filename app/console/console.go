package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	alerting "nereid/app/alerts"
	"nereid/app/capture"
	"nereid/app/console/alerts"
	"nereid/app/console/catalog"
	"nereid/app/console/configs"
	"nereid/app/console/conversions"
	"nereid/app/console/downloads"
	"nereid/app/console/history"
	"nereid/app/console/imports"
	"nereid/app/console/imports/staging"
	"nereid/app/console/inference"
	"nereid/app/console/inspection"
	"nereid/app/console/kiosk"
	"nereid/app/console/machine"
	"nereid/app/console/models"
	"nereid/app/console/requests"
	"nereid/app/console/settings"
	"nereid/app/console/stream"
	"nereid/app/console/tasks"
	"nereid/app/console/tuning"
	record "nereid/app/history"
	"nereid/app/logging"
	"nereid/app/requestlog"
	"nereid/engine"
	"nereid/engine/backend/python"
	"nereid/engine/refusals"
	"nereid/engine/system/affinity"
	"nereid/engine/system/socket"
	"nereid/engine/tensor"
	"nereid/store"
)

// Commands make processes of this program with these arguments.
type Commands struct {
	Inspect func(ctx context.Context, args ...string) *exec.Cmd // nereid inspect; nil: models cannot be inspected
	Convert func(ctx context.Context, args ...string) *exec.Cmd // nereid convert; nil: models cannot be converted
}

// Options of a Console. Fields without a comment are needed.
type Options struct {
	Engine   *engine.Engine
	Store    *store.Store
	Recorder *record.Recorder
	// Page has index.html at its root. Without that the console says how to build the page.
	Page fs.FS
	Log  *slog.Logger // nil: none
	// LogControl has the lines and the levels of the log that the page shows; nil: it shows none.
	LogControl *logging.Control
	// Memory counts the JSON bodies of requests and replies; nil: they are not counted.
	Memory *tensor.Budget
	// Refusals are those of the inference services; nil: they are not shown.
	Refusals *refusals.Log
	// Alerts and Webhook are nil if there is no history.
	Alerts  *alerting.Watch
	Webhook *alerting.Webhook
	// Requests has the recorded requests; nil: they are not recorded.
	Requests *requestlog.Keeper
	// Capture keeps contents of requests; nil: it cannot.
	Capture *capture.Recorder

	Repositories []string // absolute paths, or addresses; the first takes imports that name none
	Namespaces   bool     // models are known by their repository and name; see repo.Key
	ConfigName   string   // of --model-config-name
	DataDir      string   // absolute path, for staged imports and the trash

	// Check has the backends, the GPUs and how configurations are completed. Its Log is set by New.
	Check        *configs.Checker
	HostPolicies map[string]affinity.Policy // those of --host-policy, by name
	Server       machine.Description
	Inference    inference.Server
	Kiosk        *Kiosk // nil: there is no public page

	// AllowedHosts are the host names, in addition to the loopback ones, by which the console may be called.
	AllowedHosts []string
	Entry        Entry            // nil: everybody who reaches the console may use it
	Access       settings.Access  // without Tokens: no access settings
	Window       *settings.Window // nil: there is no native window

	Commands   Commands
	Fetcher    downloads.Fetcher // nil: models cannot be fetched
	Tuner      tuning.Tuner      // nil: models cannot be tuned
	Frameworks machine.Installer // nil: there are no frameworks
	// Environment returns the environment of a Python model; nil: there are none.
	Environment  func(model string) (python.EnvironmentUse, bool)
	ImportLimits staging.Limits
}

// Kiosk describes the public page.
type Kiosk struct {
	Models  []string      // the models that visitors may try; empty: all that are ready
	Address func() string // the page's URL for other devices; "": they cannot reach it
}

// Console is the server of the GUI. Its methods are safe for concurrent use.
type Console struct {
	log     *slog.Logger
	handler http.Handler
	memory  *tensor.Budget
	entry   Entry
	public  http.Handler // nil: there is no public page

	catalog *catalog.Catalog
	streams *stream.Hub
	tasks   *tasks.Group
	watcher *models.Watcher

	models       *models.Handler
	downloads    *downloads.Handler
	conversions  *conversions.Handler
	imports      *imports.Handler
	configs      *configs.Handler
	history      *history.Handler
	alerts       *alerts.Handler
	requests     *requests.Handler
	tuning       *tuning.Handler
	inspection   *inspection.Handler
	server       *machine.Server
	monitor      *machine.Monitor
	runtime      *machine.Runtime
	logs         *machine.Logs
	frameworks   *machine.Frameworks
	access       *settings.Access
	window       *settings.Window
	proxy        *inference.Proxy
	comparer     *inference.Comparer
	kiosk        *kiosk.Handler // nil: there is no public page
	clientErrors *clientErrors
}

// New makes a Console and starts its background work. It removes the imports of an earlier process. The caller closes
// the Console.
func New(o Options) (*Console, error) {
	switch {
	case o.Engine == nil, o.Store == nil, o.Recorder == nil, o.Page == nil, o.Check == nil:
		return nil, errors.New("console: Engine, Store, Recorder, Page and Check are needed")
	case !filepath.IsAbs(o.DataDir):
		return nil, fmt.Errorf("console: the data folder %q is not an absolute path", o.DataDir)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Check.Log = o.Log
	hasWindow := o.Window != nil
	if !hasWindow {
		o.Window = &settings.Window{}
	}
	c := &Console{log: o.Log, memory: o.Memory, entry: o.Entry, streams: stream.NewHub(), tasks: tasks.NewGroup()}
	if err := c.connect(&o); err != nil {
		return nil, err
	}
	page := pageHandler(o.Page, o.Log)
	c.handler = &guard{next: c.mux(c.routes(), page), allowedHosts: o.AllowedHosts, window: hasWindow,
		entry: o.Entry, log: o.Log}
	if o.Kiosk != nil {
		c.public = &guard{next: c.mux(c.kioskRoutes(), page), allowedHosts: o.AllowedHosts, log: o.Log}
	}
	remove := o.Recorder.Listen(c.history.Listener())
	c.tasks.Start(func(ctx context.Context) {
		defer remove()
		c.watch(ctx)
	})
	return c, nil
}

// connect makes the areas.
func (c *Console) connect(o *Options) (err error) {
	c.history = &history.Handler{Store: o.Store, Recorder: o.Recorder, Streams: c.streams,
		Refusals: o.Refusals}
	c.catalog = catalog.New(catalog.Options{Engine: o.Engine, Repositories: o.Repositories, Namespaces: o.Namespaces,
		ConfigName: o.ConfigName, Recent: c.history.Recent, Installing: func(model string) bool {
			if o.Environment == nil {
				return false
			}
			use, ok := o.Environment(model)
			return ok && use.State == python.EnvironmentBuilding
		}})
	c.requests = &requests.Handler{Keeper: o.Requests, Store: o.Store, Streams: c.streams, Capture: o.Capture,
		Catalog: c.catalog, Recorder: o.Recorder}
	o.Check.Catalog = c.catalog
	c.alerts = &alerts.Handler{Watch: o.Alerts, Webhook: o.Webhook, Catalog: c.catalog}
	c.watcher = models.NewWatcher(c.catalog, c.streams)
	writer := &configs.Writer{Catalog: c.catalog, Engine: o.Engine, Store: o.Store, Recorder: o.Recorder, Log: o.Log}
	trash := &models.Trash{Dir: filepath.Join(o.DataDir, "trash")}
	c.models = &models.Handler{Engine: o.Engine, Catalog: c.catalog, Checker: o.Check, Writer: writer,
		Watcher: c.watcher, Trash: trash, Store: o.Store, Recorder: o.Recorder, Log: o.Log}
	if o.Capture != nil {
		c.models.Deleted = o.Capture.Drop
	}
	c.imports, err = imports.New(imports.Options{DataDir: o.DataDir, Limits: o.ImportLimits, Engine: o.Engine,
		Catalog: c.catalog, Checker: o.Check, Writer: writer, Recorder: o.Recorder, Trash: trash, Streams: c.streams,
		Tasks: c.tasks, Log: o.Log})
	if err != nil {
		return err
	}
	writer.Settle(context.Background()) // when the imports are, whose revisions the files alone do not explain
	c.downloads = &downloads.Handler{Fetcher: o.Fetcher, Folder: filepath.Join(o.DataDir, "downloads"), Tasks: c.tasks,
		Log: o.Log}
	c.conversions = &conversions.Handler{Command: o.Commands.Convert, Catalog: c.catalog, Limits: o.ImportLimits,
		Folder: filepath.Join(o.DataDir, "conversions"), Tasks: c.tasks, Log: o.Log}
	for _, folder := range []string{c.downloads.Folder, c.conversions.Folder} { // of an earlier process
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	c.configs = &configs.Handler{Checker: o.Check, Writer: writer, Staged: c.imports.Staged}
	c.tuning = &tuning.Handler{Tuner: o.Tuner, Inference: o.Inference, Catalog: c.catalog, Writer: writer,
		Store: o.Store, Tasks: c.tasks, Recorder: o.Recorder, Log: o.Log, Requests: o.Requests}
	c.inspection = &inspection.Handler{Catalog: c.catalog, Command: o.Commands.Inspect}
	c.server = &machine.Server{Description: o.Server, Engine: o.Engine, Store: o.Store, Backends: o.Check.Backends,
		Repositories: o.Repositories, DataDir: o.DataDir, HasWindow: o.Window.Pick != nil}
	c.monitor = &machine.Monitor{Engine: o.Engine, GPUs: o.Check.Machine, HostPolicies: o.HostPolicies}
	c.logs = &machine.Logs{Control: o.LogControl}
	c.runtime = &machine.Runtime{Catalog: c.catalog, Environment: o.Environment}
	c.frameworks = &machine.Frameworks{Installer: o.Frameworks, Catalog: c.catalog, Engine: o.Engine,
		Streams: c.streams, Tasks: c.tasks, Log: o.Log}
	c.access, c.window = &o.Access, o.Window
	c.proxy, c.comparer = inference.NewProxy(o.Inference), inference.NewComparer(o.Inference, o.Memory)
	c.requests.Comparer = c.comparer
	if o.Kiosk != nil {
		c.kiosk = kiosk.New(kiosk.Options{Catalog: c.catalog, Models: o.Kiosk.Models, Address: o.Kiosk.Address,
			Infer: inference.NewVisitorProxy(o.Inference).Infer, Requests: c.models.SavedRequests,
			Request: c.models.SavedRequest})
	}
	c.clientErrors = &clientErrors{recorder: o.Recorder, log: o.Log}
	return nil
}

// ServeHTTP answers a request of the page.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Server returns an HTTP server of the console. It limits the time of a header. The caller limits how long a body or a
// reply may make no progress; as a whole they have no limit, because an import may be large and events do not end.
func (c *Console) Server() *http.Server { return c.serverOf(c) }

// KioskServer is Server for the public page. There must be one.
func (c *Console) KioskServer() *http.Server { return c.serverOf(c.public) }

func (c *Console) serverOf(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return c.tasks.Context() },
		ConnContext:       socket.NewContext, // for Entry
	}
}

// ModelsChanged notes that the state of some model changed, so that the page is updated at once. Without it, the page
// is updated within a second.
func (c *Console) ModelsChanged() { c.catalog.Changed() }

// Close ends the event streams and the background work, waits for them, and removes the staged imports.
func (c *Console) Close() error {
	c.streams.Close()
	c.tasks.Close()
	return c.imports.Close()
}

// watch publishes changes of the models and the state of the machine, and removes old imports.
func (c *Console) watch(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	machineTick := time.NewTicker(2 * time.Second)
	defer machineTick.Stop()
	ticking := true // false without readers, so that an idle server does not wake up
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-minute.C:
			c.imports.Expire()
		case <-machineTick.C:
			if c.streams.Wanted("machine") {
				c.streams.Publish("machine", c.monitor.Read())
			}
		case <-c.streams.Joined():
			if !ticking {
				second.Reset(time.Second)
				machineTick.Reset(2 * time.Second)
				ticking = true
			}
		case <-second.C:
			c.watcher.Publish()
			if ticking = !c.streams.Empty(); !ticking {
				second.Stop()
				machineTick.Stop()
			}
		case <-c.catalog.Changes():
			c.watcher.Note()
			c.watcher.Publish()
		}
	}
}
