package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"nereid/app/access"
	"nereid/app/capture"
	"nereid/app/certs"
	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/datadir"
	"nereid/app/listen"
	"nereid/app/options"
	"nereid/app/requestlog"
	"nereid/engine/device"
	"nereid/engine/grpcapi"
	"nereid/engine/httpapi"
	"nereid/engine/metrics"
	"nereid/engine/refusals"
	"nereid/engine/requests"
	"nereid/engine/restrict"
	"nereid/engine/tensor"
	"nereid/store"
)

// fronts are the servers of the program's endpoints.
type fronts struct {
	c        *options.Config
	log      *slog.Logger
	tokens   *access.Tokens
	tasks    *tasks
	memory   *tensor.Budget // of requests and responses
	refusals *refusals.Log
	requests *requests.Log // nil: requests are not recorded

	listeners listen.Listeners
	tls       map[string]*tls.Config // by the name of the endpoint; absent: no TLS
	inside    *listen.Pipe           // the page's way to the HTTP service if that has TLS, otherwise nil

	http     *httpapi.Server            // nil: off
	cloud    map[string]*httpapi.Server // SageMaker and Vertex AI, by the name of the endpoint
	engine   httpapi.Engine             // for cloud
	grpc     *grpcapi.Server            // nil: off
	exporter *metrics.Exporter          // nil: off
	metrics  *http.Server               // serves exporter
	plain    []*http.Server             // of the metrics, the console and the control socket
	guards   map[string]*listen.Guard   // of the metrics and the pages, by the name of the endpoint
	shares   listen.Shares
	mesh     *modelMesh // nil: ModelMesh has no service here
}

// openFronts makes the servers. They do not serve yet.
func (s *server) openFronts(ctx context.Context) error {
	f := s.fronts
	f.engine = s.engine
	if f.c.Requests.Record {
		f.requests = requests.New()
		keep := s.keepRequests()
		if keep != nil { // the clock may be before that of the last run
			last, err := s.store.LastRequestID(ctx)
			if err != nil {
				s.log.Error("the last request that was kept cannot be read", "err", err)
			}
			f.requests.StartAfter(last)
		}
		s.requests = requestlog.New(f.requests, keep)
		if err := s.openCapture(ctx); err != nil {
			return err
		}
	}
	if f.c.Listen.UI.TLS && s.shell != nil {
		return errors.New("--ui-use-ssl: the window talks to its own server on loopback without TLS; leave the " +
			"option out, or use nereid serve")
	}
	f.shares = listen.OwnShares()
	f.guards = map[string]*listen.Guard{
		"metrics": listen.NewGuard(f.shares.Plain, plainStall), "ui": listen.NewGuard(f.shares.Plain, plainStall),
		"kiosk": listen.NewGuard(f.shares.Plain, plainStall), "peer": listen.NewGuard(maxPeers, plainStall),
	}
	for _, open := range []func() error{f.openTLS, s.openMetrics, s.openHTTP, s.openGRPC, s.openCloud} {
		if err := open(); err != nil {
			return err
		}
	}
	if f.c.Listen.UI.On || f.c.Listen.Kiosk.On {
		return s.openConsole()
	}
	return nil
}

// openCapture makes what keeps contents of requests, for models for which somebody asks for it. Records name models
// without their namespace, so there is none with namespaces.
func (s *server) openCapture(ctx context.Context) (err error) {
	if s.c.Engine.Namespaces {
		return nil
	}
	s.capture, err = capture.New(ctx, capture.Options{Log: s.fronts.requests, Store: s.store,
		Folder: datadir.Captures(s.data.Path), Memory: s.fronts.memory, Errors: s.log})
	return err
}

// keepRequests is how requests are kept; nil: they are not.
func (s *server) keepRequests() func([]store.Request) bool {
	if !s.c.History.On || s.c.Requests.Keep == 0 || s.storeError != nil {
		return nil
	}
	return s.store.RecordRequests
}

// requestMemory returns how many bytes requests and responses may use: limit, or if that is 0 a quarter of the memory.
// A large request is copied up to three times on its way through a model's process, and the models need memory too.
func requestMemory(limit int64) int64 {
	if limit > 0 {
		return limit
	}
	if all := device.Host().Memory; all > 0 {
		return all / 4
	}
	return 1 << 30
}

// openTLS reads the certificates of the endpoints that use TLS.
func (f *fronts) openTLS() error {
	f.tls = map[string]*tls.Config{}
	var errs []error
	for _, e := range f.c.Listen.All() {
		if !e.On || !e.TLS {
			continue
		}
		files := f.c.TLS.HTTP
		files.Protocols = []string{"http/1.1"}
		switch e {
		case &f.c.Listen.GRPC:
			files = f.c.TLS.GRPC
			files.Protocols = []string{"h2"}
		case &f.c.Listen.UI, &f.c.Listen.Kiosk: // browsers are not asked for a certificate
			files.Mutual = false
		}
		config, err := certs.New(files, f.log.With("endpoint", e.Name))
		errs = append(errs, err)
		f.tls[e.Name] = config
	}
	return errors.Join(errs...)
}

// plainStall is how long a client of the metrics or the GUI may stop sending a body or reading an answer.
const plainStall = time.Minute

// wrapTLS returns the listener with the limits of the endpoint, if it has a guard, and with TLS if the endpoint uses
// it. gRPC does that itself.
func (f *fronts) wrapTLS(name string, l net.Listener) net.Listener {
	if g := f.guards[name]; g != nil {
		l = g.Listener(l)
	}
	if config := f.tls[name]; config != nil {
		return tls.NewListener(l, config)
	}
	return l
}

func (s *server) openMetrics() (err error) {
	f := s.fronts
	if !f.c.Listen.Metrics.On && !f.c.Embedded {
		return nil
	}
	o := f.c.Metrics
	o.Source, o.Custom, o.Version, o.Log = s.engine, s.backends.Metrics.Append, Version, s.log
	if s.cache != nil {
		o.Cache = s.cache.Stats
	}
	if !f.c.OmitGPUMetrics {
		o.GPUs = s.backends.Machine
	}
	o.Refusals = f.refusals
	o.LostSpans = func() map[string]uint64 {
		if n, ok := s.trace.LostSpans(); ok {
			return map[string]uint64{"queue_full": n.QueueFull, "not_sent": n.NotSent}
		}
		return nil
	}
	o.HistoryFailing = func() bool { return s.store.Health().Failing }
	o.GPUMemory, o.PinnedBytes = s.backends.GPUMemory, f.c.GPUMemory.PinnedBytes
	if f.exporter, err = metrics.New(o); err != nil {
		return err
	}
	if !f.c.Listen.Metrics.On {
		return nil
	}
	f.metrics = &http.Server{
		Handler: f.guards["metrics"].Handler(
			guardPlain(f.tokens, f.allowedHosts(f.c.Listen.Metrics.Address), f.exporter)),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	return nil
}

func (s *server) openHTTP() (err error) {
	f := s.fronts
	if !f.c.Listen.HTTP.On {
		return nil
	}
	o := f.c.HTTP
	o.Trace, o.LogControl = s.trace, s.logControl
	f.http, err = f.newHTTP(o)
	return err
}

// newHTTP makes an HTTP server with what all of them need.
func (f *fronts) newHTTP(o httpapi.Options) (*httpapi.Server, error) {
	o.Engine, o.Log, o.MaxBody, o.Restricted = f.engine, f.log, f.c.HTTP.MaxBody, f.c.HTTP.Restricted
	o.Memory, o.MaxConnections, o.Refusals = f.memory, f.shares.Inference, f.refusals
	o.Requests = f.requests
	o.AllowedHosts, o.Authorize = f.allowedHosts(f.c.Listen.HTTP.Address), authorizeHTTP(f.tokens)
	if f.exporter != nil {
		o.Metrics = f.exporter.Append
	}
	return httpapi.New(o)
}

func (s *server) openGRPC() (err error) {
	f := s.fronts
	if !f.c.Listen.GRPC.On {
		return nil
	}
	o := f.c.GRPC
	o.Engine, o.Log, o.TLS, o.Trace, o.LogControl = s.engine, s.log, f.tls["grpc"], s.trace, s.logControl
	o.Authorize, o.Memory, o.MaxConnections = authorizeGRPC(f.tokens), f.memory, f.shares.Inference
	o.Refusals, o.Requests = f.refusals, f.requests
	f.grpc, err = grpcapi.New(o)
	return err
}

// allowedHosts are the names that the Host header may have. On loopback these are our own names, against DNS rebinding.
// Any name is allowed where other machines can reach the server, because we cannot know all names of this machine.
func (f *fronts) allowedHosts(address string) []string {
	if !listen.IsLoopback(address) && len(f.c.Access.AllowedHosts) == 0 {
		return []string{"*"}
	}
	return append(ownNames(), f.c.Access.AllowedHosts...)
}

// ownNames are the names of this machine in its network. A web site cannot take them.
func ownNames() []string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return []string{}
	}
	return []string{name, name + ".local"}
}

// dialInference returns how the page connects to the HTTP service: as a client does, or through a pipe if the service
// uses TLS, which would need a name and perhaps a certificate.
func (f *fronts) dialInference(address net.Addr) func(context.Context) (net.Conn, error) {
	if f.tls["http"] != nil {
		f.inside = listen.NewPipe()
		return f.inside.Dial
	}
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", reachable(address))
	}
}

// serve starts the servers that are open.
func (f *fronts) serve() {
	if f.inside != nil {
		f.tasks.spawn(func() error { return f.http.Serve(f.inside) })
	}
	for _, name := range []string{"http", "grpc"} {
		if f.listeners[name] != nil {
			f.tasks.spawn(f.server(name, f.listeners[name]))
		}
	}
	for name, srv := range f.cloud {
		f.tasks.spawn(func() error { return srv.Serve(f.listeners[name]) })
	}
	if f.metrics != nil {
		f.servePlain(f.wrapTLS("metrics", f.listeners["metrics"]), f.metrics)
	}
}

// server returns the function that serves an endpoint on a listener.
func (f *fronts) server(name string, l net.Listener) func() error {
	switch name {
	case "grpc":
		return func() error { return f.grpc.Serve(l) }
	case "metrics":
		return func() error { return f.metrics.Serve(f.wrapTLS(name, l)) }
	default:
		return func() error { return f.http.Serve(f.wrapTLS(name, l)) }
	}
}

// servePlain serves a server of net/http until shutdown.
func (f *fronts) servePlain(l net.Listener, h *http.Server) {
	if h.ErrorLog == nil { // faults of single connections
		h.ErrorLog = slog.NewLogLogger(f.log.Handler(), slog.LevelDebug)
	}
	f.plain = append(f.plain, h)
	f.tasks.spawn(func() error {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// shutdown accepts no more requests and waits until the running ones are done, or ctx is. c is the console, or nil.
func (f *fronts) shutdown(ctx context.Context, c *console.Console) {
	var wg sync.WaitGroup
	down := func(shutdown func(context.Context) error) {
		wg.Go(func() {
			if err := shutdown(ctx); err != nil {
				f.log.Warn("a service did not stop in time", "err", err)
			}
		})
	}
	if f.http != nil {
		down(f.http.Shutdown)
	}
	for _, srv := range f.cloud {
		down(srv.Shutdown)
	}
	if f.grpc != nil {
		down(f.grpc.Shutdown)
	}
	if c != nil {
		down(func(context.Context) error { return c.Close() }) // ends the event streams, for which Shutdown would wait
	}
	for _, g := range f.guards {
		g.Closing()
	}
	for _, h := range f.plain {
		down(h.Shutdown)
	}
	wg.Wait()
}

// announce logs Triton's lines, which scripts wait for, and then the address of the GUI.
func (f *fronts) announce() {
	for _, e := range []struct{ name, text string }{
		{"grpc", "Started GRPCInferenceService at "}, {"http", "Started HTTPService at "},
		{"sagemaker", "Started Sagemaker HTTPService at "}, {"vertex-ai", "Started Vertex AI HTTPService at "},
		{"metrics", "Started Metrics Service at "},
	} {
		if l := f.listeners[e.name]; l != nil {
			f.log.Info(e.text + l.Addr().String())
		}
	}
	if l := f.listeners["kiosk"]; l != nil {
		f.log.Info("Started public page at " + f.url("kiosk", l.Addr().String()) + "/")
	}
	if l := f.listeners["ui"]; l != nil {
		url := f.url("ui", l.Addr().String()) + "/"
		f.log.Info("Started GUI at " + url)
		if f.c.OpenBrowser {
			openBrowser(f.log, url)
		}
	}
}

// openBrowser shows a page in the user's browser, if there is a display.
func openBrowser(log *slog.Logger, url string) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	cmd := exec.Command("xdg-open", url)
	if err := cmd.Start(); err != nil {
		log.Info("no browser could be opened; the GUI is at " + url)
		return
	}
	go cmd.Wait() //nolint:errcheck // reaps the child; its exit status does not matter
}

// url is how clients write the address of an endpoint.
func (f *fronts) url(name, address string) string {
	scheme := "http"
	if name == "grpc" {
		scheme = "grpc"
	}
	if f.tls[name] != nil {
		scheme += "s"
	}
	if name == "metrics" {
		address += "/metrics"
	}
	return scheme + "://" + address
}

// addresses are the addresses of the services, for the page.
func (f *fronts) addresses() api.Addresses {
	get := func(name string) string {
		if l := f.listeners[name]; l != nil {
			return reachable(l.Addr())
		}
		return ""
	}
	out := api.Addresses{HTTP: get("http"), GRPC: get("grpc"), Metrics: get("metrics"), Console: get("ui"),
		KioskNetwork: f.kioskAddress(), Token: f.tokens.RequiredLocally()}
	if at := get("kiosk"); at != "" {
		out.Kiosk = f.url("kiosk", at) + "/"
	}
	for _, e := range []struct{ name, member string }{
		{"http", "http"}, {"grpc", "grpc"}, {"metrics", "metrics"}, {"ui", "console"},
	} {
		if f.tls[e.name] != nil {
			out.TLS = append(out.TLS, e.member)
		}
	}
	return out
}

// reachable returns an address that can be dialled on this machine: 127.0.0.1 for 0.0.0.0.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// warnHalfRestricted warns of groups that are restricted on one protocol and open on the other. As in Triton the
// options are separate, and it is easy to forget one.
func (s *server) warnHalfRestricted() {
	if !s.c.Listen.HTTP.On || !s.c.Listen.GRPC.On {
		return
	}
	var none restrict.Rules
	h, g := cmp.Or(s.c.HTTP.Restricted, &none), cmp.Or(s.c.GRPC.Restricted, &none)
	for _, group := range h.Restricted() {
		if g.Header(group) == "" {
			s.warn(fmt.Sprintf("%v is restricted over HTTP and open over gRPC; "+
				"--grpc-restricted-protocol=%v:<key>=<value> restricts it there", group, group))
		}
	}
	for _, group := range g.Restricted() {
		if h.Header(group) == "" {
			s.warn(fmt.Sprintf("%v is restricted over gRPC and open over HTTP; --http-restricted-api=%v:<key>=<value> "+
				"restricts it there", group, group))
		}
	}
}
