package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"nereid/engine"
)

// watchdogRetries is how often the server looks again, in the time between two looks, after it did not answer.
const watchdogRetries = 8

// watchdog feeds the watchdog of the service manager as long as the server answers.
type watchdog struct {
	s     *server
	every time.Duration
}

// feed feeds the watchdog until ctx ends.
func (w watchdog) feed(ctx context.Context) {
	s, every := w.s, w.every
	tick := time.NewTicker(every)
	defer tick.Stop()
	var unprobed string
	for failed := false; ; {
		why, err := w.alive(ctx)
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

// alive asks the server, and the model of the watchdog, within w.every. It returns why the model was not asked.
func (w watchdog) alive(ctx context.Context) (unprobed string, _ error) {
	s := w.s
	ctx, cancel := context.WithTimeout(ctx, w.every)
	defer cancel()
	if err := w.answers(ctx); err != nil || s.c.Engine.Probed == "" {
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
func (w watchdog) answers(ctx context.Context) error {
	s := w.s
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
