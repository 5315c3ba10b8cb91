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
	"syscall"
	"time"

	"nereid/app/command"
	"nereid/app/desktop"
	"nereid/frontend"
)

const (
	// handoverLimit is how long a second start waits for the first one, which may be starting too.
	handoverLimit = 3 * time.Second
	// stuckLimit is how long the window may stay when the server has ended: an open dialog keeps it.
	stuckLimit = 3 * time.Second
)

// startPlain is what the program does without a command: serve, and show the GUI in the window. Its end is the
// server's end. A second start on the same data folder shows the first one's window and leaves.
func startPlain(ctx context.Context, env *command.Env, args []string) int {
	c, code := readOptions(false, env.Program, args, env.Stdout, env.Stderr)
	if c == nil {
		return code
	}
	if !c.AllowUI {
		fmt.Fprintln(env.Stderr, "error: --allow-ui: the window shows the GUI, which is turned off; leave the option away, or use "+env.Program+" serve")
		return 1
	}
	var err error
	if desktop.HasDisplay() {
		err = serveInWindow(ctx, c, env.Stdout, env.Stderr)
	} else {
		fmt.Fprintln(env.Stderr, "no display to open a window on (DISPLAY and WAYLAND_DISPLAY are empty); serving without it")
		err = Serve(ctx, c, env.Stderr)
	}
	return env.ExitStatus(err, "")
}

// started is what the window needs of the server.
type started struct {
	log  *slog.Logger
	base string
}

// serveInWindow runs the server beside the window, which wants the main goroutine.
func serveInWindow(ctx context.Context, c *Config, stdout, stderr io.Writer) error {
	window, host := desktop.New(), desktop.NewHost()
	up := make(chan started, 1)
	var log *slog.Logger // the server's goroutine writes and reads it
	around := &shell{
		pick: window.Pick,
		keep: window.Keep,
		wrap: func(next http.Handler) http.Handler { return host.Wrap(window.Watch(next), window.Show) },
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
				log.Warn("the hand-over file stays behind", "err", err)
			}
		},
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, c, stderr, around) }()
	select {
	case err := <-served:
		return handOver(err, stdout)
	case s := <-up:
		return showWindow(window, s, served, end, stderr)
	}
}

// showWindow runs the window until it is closed or the server has ended, and ends the other one of the two.
func showWindow(window *desktop.Window, s started, served <-chan error, endServer func(), stderr io.Writer) error {
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
			// An open dialog has GTK's loop. Nothing is left that could be lost.
			os.Exit(exitStatus(err, stderr))
		}
	}()
	err := window.Run(ctx, desktop.Options{Page: frontend.FS(), Base: s.base, Log: s.log})
	close(closed)
	// Wails never lets go of the signals. The server has had the first one if there was one; the next ends the process.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	endServer()
	return errors.Join(err, <-result)
}

// handOver is the end of a start that did not get as far as the GUI. If that is because another program holds the data
// folder, its window is shown.
func handOver(err error, stdout io.Writer) error {
	var used *inUseError
	if !errors.As(err, &used) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), handoverLimit)
	defer cancel()
	if desktop.ShowRunning(ctx, used.path) != nil { // it has no window: err says who has the folder and what to do
		return err
	}
	fmt.Fprintln(stdout, "Nereid is running already"+used.holder+"; its window is shown")
	return nil
}

func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "error: %v\n", err)
	return 1
}
