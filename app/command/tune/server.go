package tunecmd

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"nereid/engine/client"
	"nereid/engine/repo"
)

// The private servers of nereid tune. Each is a process of this program on free ports of the loopback address, with a
// repository of links and a data folder of its own, so that a server which serves the same models notices nothing but the
// machine's load. It ends when its standard input does, so that none outlives the program that started it.

// PrivateServe is the command of such a process: nereid serve until standard input ends.
const PrivateServe = "private-serve"

// tuneModel is a model as it lies in its repository.
type tuneModel struct {
	name, folder string
	config       string // text; "" where there is no config.pbtxt
}

// findTuneModel reads a model of repositories, which must be folders.
func findTuneModel(repositories []string, name string) (tuneModel, error) {
	if err := repo.CheckName(name); err != nil {
		return tuneModel{}, err
	}
	for _, root := range repositories {
		if strings.Contains(root, "://") {
			return tuneModel{}, fmt.Errorf("--model-repository %s: models are tuned in folders; copy it first", root)
		}
		root, err := filepath.Abs(root)
		if err != nil {
			return tuneModel{}, err
		}
		folder := filepath.Join(root, name)
		if !isFolder(folder) {
			if _, err := os.ReadDir(root); err != nil {
				return tuneModel{}, fmt.Errorf("--model-repository: %w", err)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, repo.ConfigName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return tuneModel{}, err
		}
		return tuneModel{name: name, folder: folder, config: string(text)}, nil
	}
	return tuneModel{}, fmt.Errorf("there is no model %q in %s", name, strings.Join(repositories, ", "))
}

// link makes a model's folder below root, of links to its files, with a configuration of its own; "" for none.
func (m *tuneModel) link(root, config string) error {
	folder := filepath.Join(root, m.name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(m.folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == repo.ConfigName || repo.Ignored(e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(m.folder, e.Name()), filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	if config == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(folder, repo.ConfigName), []byte(config), 0o644)
}

// privateServer is one that runs.
type privateServer struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	ended   chan struct{} // closed when the process has ended
	address string        // of HTTP
	metrics string
	token   string

	mu   sync.Mutex
	said []string // the last lines of its log
}

// privateStart is how long a private server may take until its models are loaded. Python environments are built in it.
const privateStart = 10 * time.Minute

// startPrivate starts a server of a repository and waits until it has loaded the models, or has failed to: see failure.
func startPrivate(ctx context.Context, repository, dataDir string, models, options []string) (*privateServer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &privateServer{token: rand.Text(), ended: make(chan struct{})}
	args := []string{PrivateServe, "--model-repository=" + repository, "--data-dir=" + dataDir, "--model-control-mode=explicit",
		"--http-address=127.0.0.1", "--http-port=0", "--metrics-port=0", "--allow-grpc=false", "--allow-ui=false", "--history=false",
		"--exit-on-error=false", "--exit-timeout-secs=2"}
	for _, m := range models {
		args = append(args, "--load-model="+m)
	}
	s.cmd = exec.Command(exe, append(args, options...)...) //nolint:gosec // this program itself
	s.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NEREID_TOKEN=") }), "NEREID_TOKEN="+s.token)
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
	up := make(chan struct{})
	go s.follow(log, up)
	timer := time.NewTimer(privateStart)
	defer timer.Stop()
	select {
	case <-up:
		return s, nil
	case <-s.ended:
		err = fmt.Errorf("the server does not start: %s", s.reason())
	case <-timer.C:
		err = fmt.Errorf("the server has not started within %v", privateStart)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.close()
	return nil, err
}

// follow reads the log to its end; up is closed when the server says that it serves.
func (s *privateServer) follow(log io.Reader, up chan struct{}) {
	defer close(s.ended)
	serves := false
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		s.mu.Lock()
		if s.said = append(s.said, line); len(s.said) > 50 {
			s.said = s.said[1:]
		}
		s.mu.Unlock()
		if serves { // what comes now may be a model's own words
			continue
		}
		if _, at, ok := strings.Cut(line, "Started HTTPService at "); ok {
			s.address = strings.TrimSpace(strings.Trim(at, `"`))
		}
		if _, at, ok := strings.Cut(line, "Started Metrics Service at "); ok { // the last of them
			s.metrics = strings.TrimSpace(strings.Trim(at, `"`))
			serves = true
			close(up)
		}
	}
	_, _ = io.Copy(io.Discard, log) // after a line that is too long
	_ = s.cmd.Wait()                // the log says why it ended
}

// reason is the last thing that the server said.
func (s *privateServer) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.said) == 0 {
		return "it ended without a word"
	}
	return s.said[len(s.said)-1]
}

// failure is why a model is not loaded, "" if it is.
func (s *privateServer) failure(ctx context.Context, c client.Client, model string) (string, error) {
	ready, err := c.ModelReady(ctx, model, "")
	if err != nil || ready {
		return "", err
	}
	list, err := c.Index(ctx, false)
	if err != nil {
		return "", err
	}
	for _, m := range list {
		if m.GetName() == model && m.GetReason() != "" {
			return m.GetReason(), nil
		}
	}
	return "model " + model + " is not loaded; the server said: " + s.reason(), nil
}

// client asks the server over HTTP.
func (s *privateServer) client() (*client.HTTP, error) {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1 << 20}
	return client.NewHTTP("http://"+s.address, client.HTTPOptions{Client: &http.Client{Transport: transport}, Token: s.token})
}

// close ends the server, and kills it if it does not.
func (s *privateServer) close() {
	_ = s.stdin.Close()
	select {
	case <-s.ended:
	case <-time.After(8 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}
