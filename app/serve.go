package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/app/access"
	"nereid/app/alerts"
	"nereid/app/backends"
	"nereid/app/capture"
	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/control"
	"nereid/app/datadir"
	"nereid/app/history"
	"nereid/app/logging"
	"nereid/app/newversion"
	"nereid/app/options"
	"nereid/app/requestlog"
	"nereid/app/service"
	"nereid/engine"
	"nereid/engine/cache"
	"nereid/engine/device"
	"nereid/engine/status"
	"nereid/engine/trace"
	"nereid/store"
)

// server is the parts of a running server, in the order in which they are made.
type server struct {
	c          *options.Config
	shell      *shell            // nil: no window
	manager    *service.Notifier // nil: no service manager started the program
	log        *slog.Logger
	logControl *logging.Control
	warnings   []api.Warning // of the start, for the page
	cores      int           // that this process may use

	data  *datadir.Dir
	store *store.Store
	// storeError is why store is in memory and not in the data folder; nil: it is there.
	storeError error
	tokens     *access.Tokens
	entry      *access.Entry // of the GUI
	repos      repositories
	recorder   *history.Recorder
	meter      *history.Meter
	alerts     *alerts.Watch // nil: the history is off, as is webhook
	webhook    *alerts.Webhook
	requests   *requestlog.Keeper // nil: requests are not recorded
	capture    *capture.Recorder  // nil: contents cannot be captured
	backends   *backends.Set
	cache      cache.Store // nil: there is none
	engine     *engine.Engine
	trace      *trace.Tracer
	catalog    *catalogNode // nil: no platform decides which models are served
	fronts     *fronts
	network    *network
	console    atomic.Pointer[console.Console] // nil: the GUI is off, or not yet open
	newVersion *newversion.Watch

	tasks tasks
	stop  context.CancelFunc // ends the tasks that do not end with a front
}

// tasks are goroutines of the server.
type tasks struct {
	wg     sync.WaitGroup
	failed chan error // capacity 1: the first error of a task
}

func (t *tasks) spawn(run func() error) {
	t.wg.Go(func() {
		if err := run(); err != nil {
			select {
			case t.failed <- err:
			default:
			}
		}
	})
}

// Serve runs the server until ctx ends or the process gets SIGINT or SIGTERM. A second signal ends the process at once.
// It returns nil after an orderly stop, otherwise the error that the user should see.
func Serve(ctx context.Context, c *options.Config, stderr io.Writer) error {
	return serve(ctx, c, stderr, nil)
}

func serve(ctx context.Context, c *options.Config, stderr io.Writer, around *shell) error {
	log, logControl, closeLog, err := logging.Open(c.Log, stderr)
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // there is nowhere to report it
	s := &server{c: c, shell: around, log: log, logControl: logControl, tasks: tasks{failed: make(chan error, 1)}}
	s.manager = service.FromEnvironment(os.LookupEnv, os.Getpid())
	reload := make(chan os.Signal, 1)
	if c.HasFile() { // otherwise SIGHUP ends the program, as when its terminal is closed
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // so that a second signal has its default effect, also during a start
	if err := s.open(ctx); err != nil {
		return errors.Join(creating(err), s.end())
	}
	if err = s.start(ctx); err != nil {
		err = creating(err)
	} else {
		s.notify("READY=1")
		err = s.wait(ctx, reload)
	}
	stop()
	s.notify(service.Stopping(c.ExitTimeout + endGrace))
	return errors.Join(err, s.end())
}

// creating adds Triton's words to an error that keeps the server from starting: "creating server: Internal - …".
func creating(err error) error {
	var coded *status.Error
	if errors.As(err, &coded) {
		return fmt.Errorf("creating server: %s - %w", coded.Code, err)
	}
	return fmt.Errorf("creating server: %w", err)
}

// open makes all parts and binds all ports. It does not serve yet.
func (s *server) open(ctx context.Context) error {
	s.cores = runtime.GOMAXPROCS(0) // before tuneMemory changes it
	tuneRuntime()
	s.newVersion = newversion.New(s.c.NewVersion, Version, s.log)
	for _, name := range s.c.WithoutEffect {
		s.log.Info("the option --" + name + " has no effect in this server")
	}
	if set := s.c.Edge(); len(set) > 0 {
		s.log.Info("--edge sets options for a small machine", "set", strings.Join(set, " "))
	}
	for _, step := range []func(context.Context) error{
		s.openData, s.catchCrash, s.openStore, s.openAccess, s.openRepositories, s.openBackends, s.openEngine,
		s.openFronts,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tuneRuntime sets those values of Go's runtime that the environment does not set.
func tuneRuntime() {
	// Each long call into C occupies a scheduler slot. With one slot per core, handlers would wait behind such calls.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	}
	// The live heap is small, so by default the collector would run hundreds of times a second under load.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// Live large tensors times that factor can exceed the memory. Near this limit the collector runs more often.
	if memory := device.Host().Memory; os.Getenv("GOMEMLIMIT") == "" && memory > 0 {
		debug.SetMemoryLimit(memory / 10 * 7)
	}
}

// warn logs warnings and keeps them for the page.
func (s *server) warn(texts ...string) {
	for _, text := range texts {
		s.log.Warn(text)
		s.warnings = append(s.warnings, api.Warning{Severity: api.SeverityWarning, Text: text})
	}
}

// start serves, loads the models and logs what is served.
func (s *server) start(ctx context.Context) error {
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	if s.c.History.On {
		s.tasks.spawn(func() error { return s.recorder.Run(run) })
		s.tasks.spawn(func() error { return s.meter.Run(run) })
		s.tasks.spawn(func() error { return s.alerts.Run(run) })
		s.tasks.spawn(func() error { return s.webhook.Run(run) })
	}
	if x := s.fronts.exporter; x != nil {
		s.tasks.spawn(func() error { x.Sample(run); return nil })
	}
	if s.requests != nil {
		s.tasks.spawn(func() error { return s.requests.Run(run) })
	}
	if s.capture != nil {
		s.tasks.spawn(func() error { return s.capture.Run(run) })
	}
	if l, err := control.Listen(s.data.Path); err == nil {
		s.fronts.servePlain(l, control.NewServer(s.tokens, s.store, s.link, s.support))
	} else {
		s.warn(fmt.Sprintf("the command nereid token cannot reach this server while it runs: %v", err))
	}
	s.fronts.serve()
	if err := s.startConsole(); err != nil {
		return err
	}
	s.tasks.spawn(func() error { return s.network.run(run) })
	s.tasks.spawn(func() error { return s.newVersion.Run(run) })
	s.recorder.Event(history.Event{Kind: history.ServerStart, Text: "nereid " + Version})
	if err := s.engine.Start(ctx); err != nil {
		return err
	}
	s.logTables()
	if len(s.engine.StartFailures()) > 0 && ctx.Err() == nil {
		if s.c.ExitOnError {
			return status.New(status.Internal, "failed to load all models")
		}
		s.log.Error("Internal: failed to load all models")
	}
	if err := s.fronts.checkVertexAI(); err != nil && ctx.Err() == nil { // a stop may have cancelled the loads
		return err
	}
	s.startCatalog()
	s.startModelMesh()
	if ctx.Err() == nil { // otherwise the server stops, and nobody should wait for it or look at it
		s.fronts.announce()
	}
	return nil
}

// endGrace is how long the parts may take to stop in addition to the exit timeout for requests. A model that is stuck
// in a call into C cannot be stopped, and must not keep the process from exiting.
const endGrace = 5 * time.Second

const (
	// endReserve is the part of the exit timeout, at most a tenth of it, in which requests are no longer awaited:
	// processes of models that still run are killed, and files are closed.
	endReserve = 2 * time.Second
	// loadGrace is how long loads of models may go on when the server stops, at most a quarter of the exit timeout.
	loadGrace = 5 * time.Second
)

// end shuts down. It gives up after the exit timeout and a grace period.
func (s *server) end() error {
	limit := s.c.ExitTimeout + endGrace
	if within(limit, s.shutdown) {
		return nil
	}
	return fmt.Errorf("the server did not stop within %v and ends as it is; if requests need longer, raise "+
		"--exit-timeout-secs", limit)
}

// within runs f and reports whether it returned in time. If not, f continues in its goroutine.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// answerRunning waits until the running requests are answered, or ctx is done. Meanwhile it logs which models have
// some.
func (s *server) answerRunning(ctx context.Context) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	if s.engine != nil {
		go engine.LogRunning(waiting, s.engine)
	}
	s.fronts.shutdown(ctx, s.console.Load())
}

// shutdown closes what open and start made, in reverse order. It first waits until running requests finish, at most for
// the exit timeout.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.ExitTimeout-min(endReserve, s.c.ExitTimeout/10))
	defer cancel()
	if s.engine != nil {
		defer time.AfterFunc(min(loadGrace, s.c.ExitTimeout/4), s.engine.StopLoads).Stop()
	}
	s.catalog.stop()
	if s.engine != nil {
		engine.FinishSequences(ctx, s.engine)
	}
	if s.fronts != nil {
		s.fronts.mesh.stop()
	}
	if s.backends != nil {
		s.backends.Leave()
		// So that no process takes longer than the requests may.
		defer context.AfterFunc(ctx, s.backends.Kill)()
	}
	failed := func(what string, err error) {
		if err != nil {
			s.log.Warn(what, "err", err)
		}
	}
	if s.recorder != nil && s.stop != nil {
		s.recorder.Event(history.Event{Kind: history.ServerStop})
	}
	if s.fronts != nil {
		s.answerRunning(ctx)
	}
	s.repos.close()
	if s.engine != nil {
		s.engine.Close(ctx)
	}
	if c, ok := s.cache.(io.Closer); ok {
		failed("closing the response cache failed", c.Close())
	}
	if s.backends != nil {
		failed("closing the backends failed", s.backends.Close())
	}
	failed("traces may be missing", s.trace.Close(ctx))
	if s.stop != nil {
		s.stop()
	}
	s.tasks.wg.Wait()
	if s.fronts != nil {
		s.fronts.listeners.Close()
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.log.Error("closing the history failed", "err", err)
		}
	}
	if s.data != nil {
		if s.shell != nil {
			s.shell.closing()
		}
		control.Remove(s.data.Path)
		s.data.Close()
	}
}
