package app

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"nereid/app/datadir"
	"nereid/app/desktop"
	"nereid/app/options"
	"nereid/engine"
)

// The server gives the window the console's address before the models are loaded, passes requests through its wrapper,
// and calls closing while the data folder is still locked.
func TestShellAroundTheServer(t *testing.T) {
	dir := t.TempDir()
	c, err := options.Load(false, []string{"--data-dir=" + dir, "--http-port=0", "--grpc-port=0", "--metrics-port=0",
		"--ui-port=0"}, none)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	opened := make(chan string, 1)
	around := &shell{
		notify:    func(string, string) {},
		serves:    func(*engine.Engine) { calls = append(calls, "serves") },
		changed:   func() {},
		pick:      func(context.Context, bool) (string, error) { return "/picked", nil },
		keep:      func(bool) {},
		configure: func(*desktop.Settings) { calls = append(calls, "configure") },
		wrap: func(next http.Handler) http.Handler {
			calls = append(calls, "wrap")
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Shell", "yes")
				next.ServeHTTP(w, r)
			})
		},
		opened: func(_ *slog.Logger, dataDir string, addr net.Addr) error {
			calls = append(calls, "opened "+dataDir)
			opened <- "http://" + addr.String()
			return nil
		},
		closing: func() {
			if _, err := datadir.Open(dir); err == nil {
				t.Error("the lock of the data folder is free before closing is called")
			}
			calls = append(calls, "closing")
		},
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, c, &bytes.Buffer{}, around) }()
	var base string
	select {
	case base = <-opened:
	case err := <-done:
		t.Fatalf("serve = %v before the console was open", err)
	}

	req, err := http.NewRequestWithContext(ctx, "POST", base+"/api/desktop/pick", strings.NewReader(`{"folder":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nereid", "1")
	req.Header.Set("Origin", "wails://wails")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || !strings.Contains(body.String(), "/picked") {
		t.Errorf("the page's call of the dialog = %d %s, %v; want the picked path", resp.StatusCode, body.String(), err)
	}
	if resp.Header.Get("X-Shell") != "yes" || resp.Header.Get("Access-Control-Allow-Origin") != "wails://wails" {
		t.Errorf("headers %v; want those of the wrapper and the leave for the window's origin", resp.Header)
	}
	end()
	if err := <-done; err != nil {
		t.Errorf("serve = %v", err)
	}
	if got := strings.Join(calls, ", "); got != "configure, serves, wrap, opened "+dir+", closing" {
		t.Errorf("calls: %s", got)
	}
}

// Without a command the options are those of serve.
func TestOptionsWithoutACommand(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Main([]string{"nereid", "--model-control-mode=sometimes"}, &out, &errs); code != 1 ||
		!strings.Contains(errs.String(), `"sometimes" is none of`) {
		t.Errorf("Main = %d, %s; want 1 and the fault of the option", code, errs.String())
	}
}
