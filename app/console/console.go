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
	"path/filepath"
	"sync"
	"time"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/app/console/staging"
	"nereid/app/history"
	"nereid/engine/backend"
	"nereid/engine/backend/python"
	"nereid/engine/device"
	"nereid/engine/system/affinity"
	"nereid/store"
)

// Options say what a Console shows and may touch. Fields without a default are needed.
type Options struct {
	Engine   Engine
	Store    *store.Store
	Recorder *history.Recorder
	// Backends complete and check the configurations of models that are not loaded.
	Backends []backend.Backend
	// Machine has the GPUs that models may use; nil: none.
	Machine *device.Machine
	// HostPolicies are those of --host-policy, by name.
	HostPolicies map[string]affinity.Policy
	// Page has index.html at its root; without it the console says how to build one.
	Page fs.FS

	Repositories []string // absolute paths; the first takes imports that name none
	// Namespaces: models are known by their repository and name; see repo.Key.
	Namespaces bool
	DataDir    string // absolute path; staged imports and the trash lie there

	// DialInference connects to the inference HTTP server. nil: the page cannot try models.
	DialInference func(ctx context.Context) (net.Conn, error)

	// InferenceHeader is added to the requests to it, such as the token that it asks for.
	InferenceHeader http.Header

	// AutoComplete and DefaultMaxBatchSize as the engine has them.
	AutoComplete        bool
	DefaultMaxBatchSize int

	// Version of this program.
	Version   string
	PollEvery time.Duration
	// Addresses, ONNXRuntime and Warnings answer parts of GET /api/server; nil ones are left out.
	Addresses   func() api.Addresses
	ONNXRuntime func() api.Runtime
	Warnings    func() []api.Warning

	// AllowedHosts are host names besides the loopback ones by which the console may be called.
	AllowedHosts []string
	// Window allows the origins of the native window, and Pick opens its file dialog ("" when cancelled).
	Window bool
	Pick   func(ctx context.Context, folder bool) (string, error)

	// Desktop has what can be decided about the window; nil: there is none.
	Desktop Desktop

	// Tokens and Network are the access settings; nil: there are none.
	Tokens  *access.Tokens
	Network Network

	// Tuner searches for models' best configurations; nil: nobody does.
	Tuner Tuner

	// Frameworks can be installed from the page; nil: none. Environment tells what a Python model runs in.
	Frameworks  Frameworks
	Environment func(model string) (python.EnvironmentUse, bool)

	Limits staging.Limits // of imports
	Log    *slog.Logger   // nil: none
}

// Console is the server of the GUI. Its methods are safe for concurrent use.
type Console struct {
	o         Options
	log       *slog.Logger
	handler   http.Handler
	infer     http.Handler
	hub       *hub
	imports   *imports
	trash     *trash
	locks     modelLocks
	fields    func() *api.ConfigFields
	errors    rateLimit // of reported client errors
	texts     runningTexts
	sigs      signatures
	told      toldModels
	load      load
	installs  installs
	loadTests loadTests
	tunings   tunings
	measuring measuring
	window    sync.Mutex // held while Options.Desktop works

	poke   chan struct{}
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes a Console and starts what it does in the background. Imports of an earlier run are removed. The caller
// closes it.
func New(o Options) (*Console, error) {
	switch {
	case o.Engine == nil, o.Store == nil, o.Recorder == nil, o.Page == nil:
		return nil, errors.New("console: Engine, Store, Recorder and Page are needed")
	case !filepath.IsAbs(o.DataDir):
		return nil, fmt.Errorf("console: the data folder %q is not an absolute path", o.DataDir)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{o: o, log: o.Log, poke: make(chan struct{}, 1), fields: sync.OnceValue(configFields)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.hub = newHub()
	c.told.models = map[string]api.Model{}
	var err error
	if c.imports, err = newImports(filepath.Join(o.DataDir, "imports")); err != nil {
		c.cancel()
		return nil, err
	}
	c.trash = &trash{dir: filepath.Join(o.DataDir, "trash")}
	c.infer = c.inferHandler()
	c.handler = c.guard(c.routes())
	remove := o.Recorder.Listen(history.Listener{Second: c.publishSecond, Event: c.publishEvent})
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		defer remove()
		c.watch()
	}()
	return c, nil
}

// ServeHTTP answers a request of the page.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Server is an HTTP server of the console with its time limits set. Reading a body has none, because an import may be
// large; neither has writing, because the event stream does not end.
func (c *Console) Server() *http.Server {
	return &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return c.ctx },
	}
}

// ModelsChanged tells the console that the state of some model changed, so that the page hears at once. Without it the
// page hears within a second.
func (c *Console) ModelsChanged() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Close ends the event streams and what runs in the background, waits for it, and removes the staged imports.
func (c *Console) Close() error {
	c.cancel()
	c.hub.close()
	c.wg.Wait()
	return c.imports.close()
}

func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /config.js":                        c.configScript,
		"GET /api/server":                       c.getServer,
		"GET /api/machine":                      c.getMachine,
		"GET /api/frameworks":                   c.getFrameworks,
		"POST /api/frameworks/{name}/install":   c.postInstall,
		"DELETE /api/frameworks/{name}/install": c.deleteInstall,
		"POST /api/client-errors":               c.postClientError,
		"POST /api/desktop/pick":                c.postPick,
		"GET /api/desktop":                      c.getDesktop,
		"PUT /api/desktop":                      c.putDesktop,

		"GET /api/models":                c.getModels,
		"GET /api/models/{name}":         c.getModel,
		"GET /api/models/{name}/runtime": c.getRuntime,
		"POST /api/models/{name}/load":   c.postLoad,
		"POST /api/models/{name}/unload": c.postUnload,
		"DELETE /api/models/{name}":      c.deleteModel,
		"PUT /api/models/{name}/pin":     c.putPin,

		"POST /api/models/{name}/versions/{version}/load":   c.postLoadVersion,
		"POST /api/models/{name}/versions/{version}/unload": c.postUnloadVersion,

		"GET /api/models/{name}/archive": c.getArchive,
		"POST /api/models/{name}/warmup": c.postWarmup,

		"GET /api/models/{name}/load-test":    c.getLoadTest,
		"POST /api/models/{name}/load-test":   c.postLoadTest,
		"DELETE /api/models/{name}/load-test": c.deleteLoadTest,

		"GET /api/models/{name}/tunings":                       c.getTunings,
		"POST /api/models/{name}/tunings/plan":                 c.postTuningPlan,
		"POST /api/models/{name}/tunings":                      c.postTuning,
		"GET /api/models/{name}/tunings/{id}":                  c.getTuning,
		"POST /api/models/{name}/tunings/{id}/stop":            c.postTuningStop,
		"DELETE /api/models/{name}/tunings/{id}":               c.deleteTuning,
		"GET /api/models/{name}/tunings/{id}/configs/{config}": c.getTuningConfig,
		"POST /api/models/{name}/tunings/{id}/apply":           c.postTuningApply,

		"GET /api/trash":               c.getTrash,
		"POST /api/trash/{id}/restore": c.postTrashRestore,

		"POST /api/imports":                     c.postImport,
		"GET /api/imports/{id}":                 c.getImport,
		"PUT /api/imports/{id}/files/{path...}": c.putImportFile,
		"POST /api/imports/{id}/analyze":        c.postAnalyze,
		"PUT /api/imports/{id}/config":          c.putImportConfig,
		"POST /api/imports/{id}/commit":         c.postCommit,
		"DELETE /api/imports/{id}":              c.deleteImport,

		"GET /api/config/fields":                         c.getConfigFields,
		"POST /api/config/check":                         c.postConfigCheck,
		"PUT /api/models/{name}/config":                  c.putConfig,
		"GET /api/models/{name}/revisions":               c.getRevisions,
		"GET /api/models/{name}/revisions/{id}":          c.getRevision,
		"POST /api/models/{name}/revisions/{id}/restore": c.postRestore,
		"POST /api/infer/{name}":                         c.postInfer,
		"POST /api/infer/{name}/versions/{version}":      c.postInfer,
		"GET /api/history":                               c.getHistory,
		"GET /api/history/events":                        c.getEvents,
		"GET /api/events":                                c.getStream,
		"GET /api/access":                                c.getAccess,
		"POST /api/access/tokens":                        c.postToken,
		"DELETE /api/access/tokens/{id}":                 c.deleteToken,
		"PUT /api/access/network":                        c.putNetwork,
		"/api/": func(http.ResponseWriter, *http.Request) error {
			return fail(api.CodeNotFound, "no such route; see GET /api/server")
		},
	} {
		mux.Handle(pattern, c.handle(h))
	}
	mux.Handle("/", c.page())
	return mux
}

// page serves the embedded page, or says how to build it.
func (c *Console) page() http.Handler {
	if _, err := fs.Stat(c.o.Page, "index.html"); err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "Nereid runs, but this build has no page: it was compiled without the frontend.\n"+
				"Run \"make build\" (needs Node), or use the HTTP interface below /api/.")
		})
	}
	files := http.FileServerFS(c.o.Page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			c.writeError(w, r, fail(api.CodeNotFound, "no such route"))
			return
		}
		// Built files have a hash in their name; the page itself changes with the program.
		if matched, _ := filepath.Match("/assets/*", r.URL.Path); matched {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			w.Header().Set("Cache-Control", "no-cache")
		}
		files.ServeHTTP(w, r)
	})
}

// modelLocks are locks by model name.
type modelLocks struct {
	mu    sync.Mutex
	locks map[string]*modelLock // guarded by mu
}

type modelLock struct {
	sync.Mutex
	users int // guarded by modelLocks.mu
}

// lock takes the lock of a model and answers the function that gives it back. Lock order: a model, then its import.
func (l *modelLocks) lock(name string) (unlock func()) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = map[string]*modelLock{}
	}
	m := l.locks[name]
	if m == nil {
		m = &modelLock{}
		l.locks[name] = m
	}
	m.users++
	l.mu.Unlock()
	m.Lock()
	return func() {
		m.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if m.users--; m.users == 0 {
			delete(l.locks, name)
		}
	}
}

// makeFolder makes a folder below the data folder that only its owner can read.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
