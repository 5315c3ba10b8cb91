package desktop

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"nereid/app/durable"
)

// A second start cannot open the data folder, because the first one holds its lock. It asks the first one to show its
// window, there to open the files of the second one's command line, and exits. Wails' lock would need D-Bus, and it is
// taken after the listeners are opened.
const (
	handoverFile = "window.json" // in the data folder, for its owner only
	showPath     = "/api/desktop/show"
	showAnswer   = "nereid: shown\n"
)

// ErrNoWindow is returned if the program that holds the data folder has no window, or does not answer.
var ErrNoWindow = errors.New("no window to show")

// handover is the content of the file.
type handover struct {
	Base   string `json:"base"` // as of BaseURL
	Secret string `json:"secret"`
	PID    int    `json:"pid"`
}

// Host is the side of the first start. Announce and Withdraw must be called from one goroutine.
type Host struct {
	secret string
	path   string // of the file; "" while there is none
}

// NewHost returns a host with a new secret.
func NewHost() *Host { return &Host{secret: rand.Text()} }

// Announce writes the address of this program into the data folder dir, whose lock it holds. It replaces the file of an
// earlier program.
func (h *Host) Announce(dir, base string) error {
	b, err := json.Marshal(handover{Base: base, Secret: h.secret, PID: os.Getpid()})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, handoverFile)
	if err := durable.Replace(path, b, 0o600); err != nil {
		return fmt.Errorf("hand-over file: %w", err)
	}
	h.path = path
	return nil
}

// Withdraw removes the file, if there is one. It must be called before the lock of the data folder is released, so
// that it does not remove the file of the next program.
func (h *Host) Withdraw() error {
	if h.path == "" {
		return nil
	}
	if err := os.Remove(h.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hand-over file: %w", err)
	}
	return nil
}

// Wrap calls show with the files that a second start wants opened, and passes all other requests to next.
func (h *Host) Wrap(next http.Handler, show func(files []string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != showPath {
			next.ServeHTTP(w, r)
			return
		}
		// A page never calls this, so requests of browsers are refused. For others the secret decides.
		given := []byte(r.Header.Get("Authorization"))
		if r.Method != http.MethodPost || r.Header.Get("Origin") != "" ||
			subtle.ConstantTimeCompare(given, []byte("Bearer "+h.secret)) != 1 {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		files, err := parseShow(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		show(files)
		_, _ = io.WriteString(w, showAnswer) // it fails only if the client has gone
	})
}

// ShowRunning asks the program that holds the data folder dir to show its window and to open files in it, which are
// absolute paths. That program may still be starting, so it tries again until ctx ends. The error is ErrNoWindow with
// its reason, or that of ctx.
func ShowRunning(ctx context.Context, dir string, files []string) error {
	body, err := json.Marshal(showRequest{Files: files})
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := askOnce(ctx, dir, body)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNoWindow, err)
		case <-tick.C:
		}
	}
}

func askOnce(ctx context.Context, dir string, body []byte) error {
	b, err := os.ReadFile(filepath.Join(dir, handoverFile))
	if err != nil {
		return err
	}
	var to handover
	if err := json.Unmarshal(b, &to); err != nil {
		return fmt.Errorf("%s: %w", handoverFile, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Base+showPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+to.Secret)
	tr := &http.Transport{Proxy: nil} // loopback is never behind a proxy
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || string(answer) != showAnswer {
		return fmt.Errorf("%s does not know this request (status %d)", to.Base, resp.StatusCode)
	}
	return nil
}
