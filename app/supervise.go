package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

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
			s.feedWatchdog(alive, every)
			return nil
		})
	} else if s.c.Engine.Probed != "" {
		s.log.Warn("--" + options.WatchdogModel + " has no effect: no service manager with a watchdog started " +
			"the server")
	}
	for {
		select {
		case <-ctx.Done():
			s.log.Info("Signal received; waiting for in-flight requests to complete.")
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

// watchdogRetries is how often the server looks again, in the time between two looks, after it did not answer.
const watchdogRetries = 8

// feedWatchdog feeds the watchdog until ctx ends, as long as the server answers.
func (s *server) feedWatchdog(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var unprobed string
	for failed := false; ; {
		why, err := s.alive(ctx, every)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("the server does not answer; the service manager restarts it if this goes on", "err", err)
		default:
			s.notify("WATCHDOG=1")
		}
		if why != unprobed && why != "" {
			s.log.Warn("the watchdog is fed without an inference", "model", s.c.Engine.Probed, "reason", why)
		}
		if unprobed = why; failed != (err != nil) {
			if failed = !failed; failed {
				tick.Reset(every / watchdogRetries)
			} else {
				tick.Reset(every)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// alive asks the server, and the model of the watchdog, within limit. It returns why the model was not asked.
func (s *server) alive(ctx context.Context, limit time.Duration) (unprobed string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.answers(ctx); err != nil || s.c.Engine.Probed == "" {
		return "", err
	}
	err := s.engine.Probe(ctx)
	if errors.Is(err, engine.ErrNoProbe) {
		return err.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("golden request of model '%s': %w", s.c.Engine.Probed, err)
	}
	return "", nil
}

// answers asks the server for its liveness as a client does. Over TLS, and without HTTP, it asks the engine only. It
// does not return if a lock of the models is never released.
func (s *server) answers(ctx context.Context) error {
	s.engine.Ready()
	address := s.fronts.addresses().HTTP
	if address == "" || s.fronts.tls["http"] != nil {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v2/health/live", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close() // any status is an answer
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
