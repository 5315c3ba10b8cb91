//go:build desktop || dev || bindings

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"nereid/app/command"
	"nereid/app/datadir"
	"nereid/app/desktop"
	"nereid/app/options"
	"nereid/frontend"
)

const (
	// handoverLimit is how long a second start waits for the first one, which may still be starting.
	handoverLimit = 3 * time.Second
	// stuckLimit is how long the window may stay open after the server has ended. An open dialog keeps it open.
	stuckLimit = 3 * time.Second
)

// What the help says of startPlain.
const (
	plainArgs = "[options] [FILE ...]"
	plainHelp = "serve and open the GUI in a window, or the import of files"
)

// startsPlain reports whether a first word that is no command is one for startPlain: a file to open.
func startsPlain(word string) bool { return desktop.NamesFile(word) }

// startPlain runs the program without a command: it serves, and shows the GUI in a window. When the window closes the
// server stops. A second start with the same data folder shows the window of the first one and exits. The window opens
// the import of the files among the arguments.
func startPlain(ctx context.Context, env *command.Env, args []string) int {
	args, names := options.SplitFiles(args)
	c, code := options.ForCommand(env, false, env.Program, args)
	if c == nil {
		return code
	}
	files, err := desktop.Absolute(names)
	if err != nil {
		return env.ExitStatus(err, "")
	}
	if !c.Listen.UI.On {
		fmt.Fprintln(env.Stderr, "error: --allow-ui: the window shows the GUI, which is turned off; leave the "+
			"option away, or use "+env.Program+" serve")
		return 1
	}
	switch {
	case desktop.HasDisplay():
		err = serveInWindow(ctx, env, c, files)
	case len(files) > 0:
		err = fmt.Errorf("%s needs a window, and there is no display to open it on (DISPLAY and WAYLAND_DISPLAY are "+
			"empty)", names[0])
	default:
		fmt.Fprintln(env.Stderr, "no display to open a window on (DISPLAY and WAYLAND_DISPLAY are empty); serving "+
			"without it")
		err = Serve(ctx, c, env.Stderr)
	}
	return env.ExitStatus(err, "")
}

// started is what the window needs from the server.
type started struct {
	log  *slog.Logger
	base string
}

// serveInWindow runs the server in a goroutine and the window in this one, which must be the main goroutine. The window
// opens files, which are absolute paths.
func serveInWindow(ctx context.Context, env *command.Env, c *options.Config, files []string) error {
	window, host := desktop.New(), desktop.NewHost()
	if err := desktop.SetEnvironment(); err != nil {
		return err
	}
	up := make(chan started, 1)
	var log *slog.Logger // only the server's goroutine uses it
	around := &shell{
		pick: window.Pick,
		keep: window.Keep, configure: window.Configure, notify: window.Notify,
		serves: window.Serves, changed: window.Changed,
		wrap: func(next http.Handler) http.Handler {
			return host.Wrap(window.Watch(next), func(files []string) {
				window.Show()
				window.Open(files)
			})
		},
		opened: func(l *slog.Logger, dataDir string, addr net.Addr) error {
			log = l
			base, err := desktop.BaseURL(addr)
			if err != nil {
				return err
			}
			up <- started{l, base}
			return host.Announce(dataDir, base)
		},
		closing: func() {
			if err := host.Withdraw(); err != nil {
				log.Warn("the hand-over file could not be removed", "err", err)
			}
		},
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, c, env.Stderr, around) }()
	select {
	case err := <-served:
		return handOver(err, env.Stdout, files)
	case s := <-up:
		window.Open(files)
		return showWindow(env, window, s, served, end)
	}
}

// showWindow runs the window until it is closed or the server has ended, and then ends the other one.
func showWindow(
	env *command.Env, window *desktop.Window, s started, served <-chan error, endServer func(),
) error {
	ctx, closeWindow := context.WithCancel(context.Background())
	defer closeWindow()
	result, closed := make(chan error, 1), make(chan struct{})
	go func() {
		err := <-served
		result <- err
		closeWindow()
		select {
		case <-closed:
		case <-time.After(stuckLimit):
			// An open dialog runs GTK's loop and cannot be closed. The server has ended, so nothing can be lost.
			os.Exit(env.ExitStatus(err, ""))
		}
	}()
	err := window.Run(ctx, desktop.Options{Page: frontend.FS(), Base: s.base, Log: s.log})
	close(closed)
	// Wails never stops catching the signals. If there was one, the server has had it; the next one ends the process.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	endServer()
	return errors.Join(err, <-result)
}

// handOver ends a start that did not reach the GUI. If another program has the data folder, it shows the window of that
// one, which opens the files.
func handOver(err error, stdout io.Writer, files []string) error {
	var used *datadir.InUseError
	if !errors.As(err, &used) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), handoverLimit)
	defer cancel()
	if desktop.ShowRunning(ctx, used.Path, files) != nil { // it has no window: err says what to do
		return err
	}
	does := "is shown"
	if len(files) > 0 {
		does = "opens " + strings.Join(files, ", ")
	}
	fmt.Fprintln(stdout, "Nereid is running already"+used.Holder+"; its window "+does)
	return nil
}
