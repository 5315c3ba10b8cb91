package tunecmd

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"nereid/engine/client"
)

// Private servers are processes of this program on free ports of the loopback address. Each has its own repository of
// links and its own data folder. So it affects other servers of the same models only by the machine's load. It exits
// when its standard input ends, so that none outlives the program that started it.

// PrivateServe is the command of a private server: nereid serve until standard input ends.
const PrivateServe = "private-serve"

// privateServer is a running private server.
type privateServer struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	exited  chan struct{} // closed when the process has exited
	address string        // of HTTP
	metrics string
	token   string
	client  *client.HTTP

	mu   sync.Mutex
	last []string // guarded by mu: the last lines of its log
}

const (
	// startTimeout bounds the time until the models are loaded. Python environments are built in it.
	startTimeout = 10 * time.Minute
	// stopTimeout is how long a server may take to exit before it is killed.
	stopTimeout = 8 * time.Second
)

// startPrivate starts a server of a repository and waits until it has loaded the models, or has failed to: see failure.
func startPrivate(ctx context.Context, repository, dataDir string, models, options []string) (*privateServer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &privateServer{token: rand.Text(), exited: make(chan struct{})}
	args := []string{
		PrivateServe, "--model-repository=" + repository, "--data-dir=" + dataDir, "--model-control-mode=explicit",
		"--http-address=127.0.0.1", "--http-port=0", "--metrics-port=0", "--allow-grpc=false", "--allow-ui=false",
		"--history=false", "--exit-on-error=false", "--exit-timeout-secs=2",
	}
	for _, m := range models {
		args = append(args, "--load-model="+m)
	}
	s.cmd = exec.Command(exe, append(args, options...)...) //nolint:gosec // this program itself
	s.cmd.Env = append(os.Environ(), "NEREID_TOKEN="+s.token, "NEREID_CONFIG=")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard is for the tuner alone
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go s.readLog(log, ready)
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-ready:
		s.client, err = s.newClient()
	case <-s.exited:
		err = fmt.Errorf("the server does not start: %s", s.lastLine())
	case <-timer.C:
		err = fmt.Errorf("the server has not started within %v", startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// readLog reads the log to its end. It closes ready when the server says that it serves.
func (s *privateServer) readLog(log io.Reader, ready chan struct{}) {
	defer close(s.exited)
	serves := false
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		s.mu.Lock()
		if s.last = append(s.last, line); len(s.last) > 50 {
			s.last = s.last[1:]
		}
		s.mu.Unlock()
		if serves { // from now on lines may come from a model
			continue
		}
		if _, at, ok := strings.Cut(line, "Started HTTPService at "); ok {
			s.address = strings.TrimSpace(strings.Trim(at, `"`))
		}
		if _, at, ok := strings.Cut(line, "Started Metrics Service at "); ok { // the last of these lines
			s.metrics = strings.TrimSpace(strings.Trim(at, `"`))
			serves = true
			close(ready)
		}
	}
	_, _ = io.Copy(io.Discard, log) // after a line that is too long
	_ = s.cmd.Wait()                // the log says why it exited
}

// lastLine is the last line of the log.
func (s *privateServer) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) == 0 {
		return "it logged nothing"
	}
	return s.last[len(s.last)-1]
}

// failure is why a model is not loaded; "" if it is.
func (s *privateServer) failure(ctx context.Context, model string) (string, error) {
	ready, err := s.client.ModelReady(ctx, model, "")
	if err != nil || ready {
		return "", err
	}
	list, err := s.client.Index(ctx, false)
	if err != nil {
		return "", err
	}
	for _, m := range list {
		if m.GetName() == model && m.GetReason() != "" {
			return m.GetReason(), nil
		}
	}
	return "model " + model + " is not loaded; the last line of the server's log: " + s.lastLine(), nil
}

// newClient returns a client over HTTP with its own connections.
func (s *privateServer) newClient() (*client.HTTP, error) {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1 << 20}
	return client.NewHTTP("http://"+s.address, client.HTTPOptions{
		Client: &http.Client{Transport: transport}, Token: s.token,
	})
}

// close stops the server, and kills it if it does not exit in time.
func (s *privateServer) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	_ = s.stdin.Close()
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}
