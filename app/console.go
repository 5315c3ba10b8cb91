package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"

	"nereid/app/backends"
	getcmd "nereid/app/command/get"
	tunecmd "nereid/app/command/tune"
	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/configs"
	"nereid/app/console/machine"
	"nereid/app/console/settings"
	"nereid/app/datadir"
	"nereid/app/desktop"
	"nereid/app/options"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/worker/process"
	"nereid/frontend"
)

// openConsole makes the server of the GUI.
func (s *server) openConsole() error {
	f, e, python := s.fronts, &s.c.Engine, datadir.Python(s.data.Path)
	o := console.Options{
		Engine: s.engine, Store: s.store, Recorder: s.recorder, Page: frontend.FS(), Log: s.log,
		Memory: f.memory, Refusals: f.refusals, Requests: s.requests, Capture: s.capture, LogControl: s.logControl,
		Alerts: s.alerts, Webhook: s.webhook,
		Repositories: e.Repositories, Namespaces: e.Namespaces, ConfigName: e.ConfigName, DataDir: s.data.Path,
		HostPolicies: e.HostPolicies,
		Check: &configs.Checker{
			Backends: s.backends.All, Machine: s.backends.Machine, AutoComplete: !e.DisableAutoComplete,
			DefaultMaxBatchSize: e.MaxBatchSizeOf, Libraries: s.backends.Libraries.Names,
			Library: func(cfg *inferencepb.ModelConfig) bool { return s.backends.Libraries.Of(cfg) != nil },
		},
		Server: machine.Description{
			Version: Version, NewVersion: s.newVersion.Newer, PollEvery: e.PollInterval, Addresses: f.addresses,
			ONNXRuntime: func() api.Runtime { return describeRuntime(s.backends.ONNXRuntime) },
			Warnings:    s.warningsNow, Support: s.support,
		},
		AllowedHosts: f.c.Access.AllowedHosts, Entry: s.entry,
		Access:      settings.Access{Tokens: s.tokens, Network: s.network},
		Environment: s.backends.Python.EnvironmentOf,
		Frameworks:  backends.Installer{Folder: python, Interpreter: s.c.Backends.Interpreter()},
		Commands: console.Commands{
			Inspect: s.ownCommand("inspect"),
			Convert: s.ownCommand("convert", "--python="+s.c.Backends.Interpreter()),
		},
		Fetcher: &getcmd.Console{Python: s.c.Backends.Interpreter(), DataDir: s.data.Path},
		Tuner: &tunecmd.Console{
			Program: tuneProgram(), ServerOptions: tunecmd.ServerOptions(s.c.Args), Python: python,
			ConfigName: e.ConfigName, Cores: s.cores, GPUs: len(s.backends.Machine.IDs()),
		},
	}
	if x := f.exporter; x != nil {
		o.Server.Metrics = func() []byte { return x.Append(nil) }
	}
	if s.shell != nil {
		args, _ := options.SplitFiles(os.Args[1:]) // at login no files are opened
		own := desktop.NewSettings(context.Background(), s.store, s.shell.keep, args, s.log)
		s.shell.configure(own)
		s.shell.serves(s.engine)
		o.Window = &settings.Window{Pick: s.shell.pick, Desktop: own}
	}
	if f.c.Listen.Kiosk.On {
		o.Kiosk = &console.Kiosk{Models: f.c.Access.KioskModels, Address: f.kioskAddress}
	}
	if l := f.listeners["http"]; l != nil {
		// Requests from the page are checked like those of any client.
		o.Inference.Dial = f.dialInference(l.Addr())
		o.Inference.Header = http.Header{"Authorization": {s.tokens.Internal()}}
		o.Inference.MaxBody = f.c.HTTP.MaxBody
	}
	c, err := console.New(o)
	if err != nil {
		return err
	}
	s.console.Store(c)
	return nil
}

// warningsNow are the warnings of the start, and that the server is paused.
func (s *server) warningsNow() []api.Warning {
	if !s.engine.Paused() {
		return s.warnings
	}
	return append(slices.Clone(s.warnings), api.Warning{Severity: api.SeverityWarning,
		Text: "the server is paused and refuses requests; the menu of its icon in the tray resumes it"})
}

// ownCommand returns a function that makes the process of a command of this program. It uses the server's data folder
// and ONNX Runtime.
func (s *server) ownCommand(command ...string) func(ctx context.Context, args ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		exe, err := os.Executable()
		if err != nil {
			exe = os.Args[0]
		}
		cmd := exec.CommandContext(ctx, exe, append(slices.Clone(command), args...)...)
		cmd.Env = append(process.Environ(os.Environ(), nil), "NEREID_DATA_DIR="+s.data.Path,
			"NEREID_ONNXRUNTIME_LIBRARY="+s.c.Backends.ONNXRuntime.Library)
		return cmd
	}
}

// link returns a link that opens the GUI for a browser that is not let in otherwise. It works once.
func (s *server) link() (string, error) {
	l := s.fronts.listeners["ui"]
	if l == nil {
		return "", errors.New("the GUI of this server is off")
	}
	return s.fronts.url("ui", reachable(l.Addr())) + "/#/open/" + s.entry.Link(), nil
}

// describeRuntime reports which ONNX Runtime is in use.
func describeRuntime(r *onnxruntime.Backend) api.Runtime {
	version, err := r.Version()
	if err != nil {
		return api.Runtime{Error: err.Error()}
	}
	return api.Runtime{Version: version, Library: r.LibraryPath()}
}

// startConsole serves the GUI and the public page, as far as they are on, and shows the window.
func (s *server) startConsole() error {
	c, l := s.console.Load(), s.fronts.listeners["ui"]
	if public := s.fronts.listeners["kiosk"]; public != nil {
		h := c.KioskServer()
		h.Handler = s.fronts.guards["kiosk"].Handler(h.Handler)
		s.fronts.servePlain(s.fronts.wrapTLS("kiosk", public), h)
	}
	if l == nil {
		return nil
	}
	h := c.Server()
	if s.shell != nil {
		h.Handler = s.shell.wrap(h.Handler)
	}
	h.Handler = s.fronts.guards["ui"].Handler(h.Handler)
	s.fronts.servePlain(s.fronts.wrapTLS("ui", l), h)
	if s.shell == nil {
		return nil
	}
	return s.shell.opened(s.log, s.data.Path, l.Addr())
}

// kioskAddress returns the URL of the public page for other devices, "" if they cannot reach it.
func (f *fronts) kioskAddress() string {
	l := f.listeners["kiosk"]
	if l == nil || !f.c.Listen.Kiosk.Reachable() {
		return ""
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if at.Addr().IsUnspecified() {
		all := reachableAddresses()
		if len(all) == 0 {
			return ""
		}
		at = netip.AddrPortFrom(all[0], at.Port())
	}
	return f.url("kiosk", at.String()) + "/"
}
