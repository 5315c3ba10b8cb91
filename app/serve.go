package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/app/access"
	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/cache/redis"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/grpcapi"
	"nereid/engine/httpapi"
	"nereid/engine/metrics"
	"nereid/engine/repo"
	"nereid/engine/repo/cloud"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/trace"
	"nereid/engine/worker"
	"nereid/store"
)

// server is a running program's parts, in the order in which they are made.
type server struct {
	c         *Config
	shell     *shell // nil: no window
	log       *slog.Logger
	control   *logState
	trace     *trace.Tracer
	cache     cache.Store   // nil: there is none
	redis     *redis.Cache  // the cache, if it is in a redis server
	warnings  []api.Warning // made while opening, shown by the page
	data      *dataDir
	sockets   listeners
	store     *store.Store
	tokens    *access.Tokens
	network   *network
	secure    map[string]*tls.Config // by option name; absent: plain
	inside    *pipes                 // the page's way to the inference server under TLS, else nil
	recorder  *history.Recorder
	backends  []backend.Backend
	remotes   map[string]repo.Remote // the repositories that are no folders
	storage   []*cloud.Repository    // the same, to be closed
	launcher  *worker.Launcher       // of models' processes
	ort       ortRuntime
	python    pythonRuntime
	machine   *device.Machine
	cores     int            // that this process may use
	regions   shm.Importer   // opens clients' device memory; nil: there is none
	gpuMemory *gpumem.Memory // nil: there is no GPU
	closeCUDA func()
	engine    *engine.Engine
	console   atomic.Pointer[console.Console]
	http      *httpapi.Server
	cloud     map[string]*httpapi.Server // of SageMaker and Vertex AI, by their listeners' names
	archives  string                     // the repository of SageMaker's archives, "": none
	grpc      *grpcapi.Server
	metrics   *metrics.Exporter
	plain     []*http.Server // metrics, console and the control socket

	metricsHTTP *http.Server

	wg     sync.WaitGroup // the listeners' goroutines and the recorder
	failed chan error     // capacity 1: a listener ended by itself
	stop   context.CancelFunc
}

// Serve runs the server until ctx ends or the process is told to stop (SIGINT, SIGTERM; a second one ends it at once).
// It returns nil after an orderly stop, and otherwise the error that the user is to see.
func Serve(ctx context.Context, c *Config, stderr io.Writer) error { return serve(ctx, c, stderr, nil) }

func serve(ctx context.Context, c *Config, stderr io.Writer, around *shell) error {
	out, closeLog, err := openLog(c, stderr)
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // nowhere to say it
	h := newLogHandler(c, out)
	s := &server{c: c, shell: around, log: slog.New(h), control: h.state, failed: make(chan error, 1)}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal has its default effect, also during a start: the process ends at once
	if err := s.open(ctx); err != nil {
		return errors.Join(creating(err), s.end())
	}
	err = s.start(ctx)
	if err == nil {
		select {
		case <-ctx.Done():
			s.log.Info("Signal received; waiting for in-flight requests to complete.")
		case err = <-s.failed:
		}
	}
	stop()
	return errors.Join(err, s.end())
}

// endGrace is how long the parts may take to stop after requests had their time. A model that is stuck in a call into C
// cannot be stopped, and must not keep the process.
const endGrace = 5 * time.Second

// end shuts down, or gives up after the exit timeout and a grace.
func (s *server) end() error {
	limit := time.Duration(s.c.ExitTimeout)*time.Second + endGrace
	if within(limit, s.shutdown) {
		return nil
	}
	return fmt.Errorf("the server did not stop within %v and ends as it is; if requests need longer, raise --exit-timeout-secs", limit)
}

// within runs f and reports whether it returned in time; if not, it goes on by itself.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// creating puts Triton's words before the error that keeps the server from starting: "creating server: Internal - …".
func creating(err error) error {
	var coded *status.Error
	if errors.As(err, &coded) {
		return fmt.Errorf("creating server: %s - %w", coded.Code, err)
	}
	return fmt.Errorf("creating server: %w", err)
}

// start serves, loads the models and says so.
func (s *server) start(ctx context.Context) error {
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	if s.c.History {
		s.spawn(func() error { return s.recorder.Run(run) })
	}
	s.serveControl()
	if s.inside != nil {
		s.spawn(func() error { return s.http.Serve(s.inside) })
	}
	if s.http != nil {
		s.spawn(func() error { return s.http.Serve(s.wrapTLS("http", s.sockets["http"])) })
	}
	for name, srv := range s.cloud {
		s.spawn(func() error { return srv.Serve(s.sockets[name]) })
	}
	if s.grpc != nil {
		s.spawn(func() error { return s.grpc.Serve(s.sockets["grpc"]) })
	}
	if s.c.AllowMetrics {
		s.metricsHTTP = &http.Server{Handler: guardPlain(s.tokens, s.allowedHosts(s.c.MetricsAddress), s.metrics), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		s.servePlain(s.wrapTLS("metrics", s.sockets["metrics"]), s.metricsHTTP)
	}
	if c := s.console.Load(); c != nil {
		h := c.Server()
		if s.shell != nil {
			h.Handler = s.shell.wrap(h.Handler)
		}
		s.servePlain(s.wrapTLS("ui", s.sockets["ui"]), h)
		if s.shell != nil {
			if err := s.shell.opened(s.log, s.data.path, s.sockets["ui"].Addr()); err != nil {
				return err
			}
		}
	}
	s.spawn(func() error { return s.network.run(run) })
	s.recorder.Event(history.Event{Kind: history.ServerStart, Text: "nereid " + Version})
	if err := s.engine.Start(ctx); err != nil {
		return creating(err)
	}
	names := make([]string, len(s.backends))
	for i, b := range s.backends {
		names[i] = b.Name()
	}
	logStart(s.log, s.c, s.engine, names)
	if len(s.engine.StartFailures()) > 0 && ctx.Err() == nil {
		if s.c.ExitOnError {
			return creating(status.New(status.Internal, "failed to load all models"))
		}
		s.log.Error("Internal: failed to load all models")
	}
	if err := s.checkVertexAI(); err != nil {
		return creating(err)
	}
	s.announce()
	return nil
}

// announce prints Triton's lines, which scripts wait for, then the GUI's address.
func (s *server) announce() {
	if l := s.sockets["grpc"]; l != nil {
		s.log.Info("Started GRPCInferenceService at " + l.Addr().String())
	}
	if l := s.sockets["http"]; l != nil {
		s.log.Info("Started HTTPService at " + l.Addr().String())
	}
	if l := s.sockets["sagemaker"]; l != nil {
		s.log.Info("Started Sagemaker HTTPService at " + l.Addr().String())
	}
	if l := s.sockets["vertex-ai"]; l != nil {
		s.log.Info("Started Vertex AI HTTPService at " + l.Addr().String())
	}
	if l := s.sockets["metrics"]; l != nil {
		s.log.Info("Started Metrics Service at " + l.Addr().String())
	}
	if l := s.sockets["ui"]; l != nil {
		url := "http://" + l.Addr().String() + "/"
		if s.secure["ui"] != nil {
			url = "https" + strings.TrimPrefix(url, "http")
		}
		s.log.Info("Started GUI at " + url)
		if s.c.OpenBrowser {
			openBrowser(s.log, url)
		}
	}
}

// openBrowser shows a page in the user's browser where there is one.
func openBrowser(log *slog.Logger, url string) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	cmd := exec.Command("xdg-open", url)
	if err := cmd.Start(); err != nil {
		log.Info("no browser could be opened; the GUI is at " + url)
		return
	}
	go cmd.Wait() //nolint:errcheck // reaps the child; what the browser says is its own matter
}

func (s *server) spawn(run func() error) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if err := run(); err != nil {
			select {
			case s.failed <- err:
			default:
			}
		}
	}()
}

func (s *server) servePlain(l net.Listener, h *http.Server) {
	if h.ErrorLog == nil { // what single connections do wrong
		h.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	}
	s.plain = append(s.plain, h)
	s.spawn(func() error {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// shutdown ends what open and start made, in reverse: no new requests, those inside finish or time out, then the rest.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.c.ExitTimeout)*time.Second)
	defer cancel()
	if s.recorder != nil && s.stop != nil {
		s.recorder.Event(history.Event{Kind: history.ServerStop})
	}
	s.stopServing(ctx)
	for _, r := range s.storage {
		r.Close() // what is being downloaded goes on at the next start
	}
	if s.engine != nil {
		s.engine.Close(ctx)
	}
	if s.redis != nil {
		if err := s.redis.Close(); err != nil {
			s.log.Warn("closing the redis cache failed", "err", err)
		}
	}
	s.python.close()
	if s.launcher != nil {
		s.launcher.Close()
	}
	if s.closeCUDA != nil {
		s.closeCUDA()
	}
	if err := s.machine.Close(); err != nil {
		s.log.Warn("the GPUs' driver could not be let go", "err", err)
	}
	if err := s.trace.Close(ctx); err != nil {
		s.log.Warn("traces may be missing", "err", err)
	}
	if s.stop != nil {
		s.stop()
	}
	s.wg.Wait()
	s.sockets.close()
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.log.Error("closing the history failed", "err", err)
		}
	}
	if s.data != nil {
		if s.shell != nil {
			s.shell.closing()
		}
		removeControl(s.data.path)
		s.data.close()
	}
}

// stopServing takes no more requests and waits until those inside are done, or ctx is.
func (s *server) stopServing(ctx context.Context) {
	var wg sync.WaitGroup
	down := func(f func(context.Context) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(ctx); err != nil {
				s.log.Warn("a service did not stop in time", "err", err)
			}
		}()
	}
	if s.http != nil {
		down(s.http.Shutdown)
	}
	for _, srv := range s.cloud {
		down(srv.Shutdown)
	}
	if s.grpc != nil {
		down(s.grpc.Shutdown)
	}
	if c := s.console.Load(); c != nil {
		down(func(context.Context) error { return c.Close() }) // ends the event streams, for which Shutdown would wait
	}
	for _, h := range s.plain {
		down(h.Shutdown)
	}
	wg.Wait()
}
