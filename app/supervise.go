package app

import (
	"context"
	"fmt"
	"os"
	"strings"

	"nereid/app/options"
	"nereid/app/service"
	"nereid/engine"
)

// notify tells the service manager a state.
func (s *server) notify(state string) {
	if err := s.manager.Send(state); err != nil {
		s.log.Warn("the service manager cannot be told the state of the server", "state", state, "err", err)
	}
}

// wait returns when ctx is done, or with the error of a task that failed. Until then it feeds the watchdog of the
// service manager, and reads the options again for each signal of reload.
func (s *server) wait(ctx context.Context, reload <-chan os.Signal) error {
	if every := s.manager.WatchdogInterval(); every > 0 {
		alive, stop := context.WithCancel(context.Background())
		defer stop()
		s.tasks.spawn(func() error {
			watchdog{s, every}.feed(alive)
			return nil
		})
	} else if s.c.Engine.Probed != "" {
		s.log.Warn("--" + options.WatchdogModel + " has no effect: no service manager with a watchdog started " +
			"the server")
	}
	for {
		select {
		case <-ctx.Done():
			s.log.Info("Signal received.")
			s.log.Info("Waiting for in-flight requests to complete.") // Triton's line
			return nil
		case err := <-s.tasks.failed:
			return err
		case <-reload:
			s.notify(service.Reloading())
			s.reloadOptions()
			s.notify("READY=1")
		}
	}
}

// reloadOptions reads the configuration file again and takes over the settings of the log.
func (s *server) reloadOptions() {
	next, restart, err := s.c.Reload()
	if err != nil {
		s.log.Error("the options stay as they are, because reading them again failed", "err", err)
		return
	}
	l := next.Log.Settings
	s.logControl.UpdateLog(engine.LogUpdate{
		Info: &l.Info, Warning: &l.Warning, Error: &l.Error, Verbose: &l.Verbose, Format: &l.Format,
	})
	s.log.Info("the options were read again; those of the log are in effect")
	if len(restart) > 0 {
		s.log.Warn(fmt.Sprintf("restart the server for the new values of %s", strings.Join(restart, ", ")))
	}
}
