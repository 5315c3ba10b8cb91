package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nereid/engine/client"
)

// program says how to start one of the two servers.
type program struct {
	name string
	argv []string // without ports and repository
	env  []string
}

type ports struct{ http, grpc, metrics int }

// server is a running server.
type server struct {
	ports   ports
	cmd     *exec.Cmd
	log     string
	toReady time.Duration
}

func (s *server) addr(proto string) string {
	if proto == "grpc" {
		return "127.0.0.1:" + strconv.Itoa(s.ports.grpc)
	}
	return "127.0.0.1:" + strconv.Itoa(s.ports.http)
}

// client returns a client over HTTP.
func (s *server) client() (*client.HTTP, error) {
	return client.NewHTTP("http://"+s.addr("http"), client.HTTPOptions{})
}

// start starts the program and waits until it is ready; its log lies beside the repository. Between the choice of a
// port and its use another program may take the port: then start tries others.
func (p *program) start(ctx context.Context, repository string) (*server, error) {
	for tries := 1; ; tries++ {
		s, err := p.startOnce(ctx, repository)
		if err == nil || tries == 3 || !strings.Contains(err.Error(), "already in use") {
			return s, err
		}
	}
}

// startAll starts each program on the repository of the same index. The caller stops them; after an error none runs.
func startAll(ctx context.Context, programs []*program, repositories []string) ([]*server, error) {
	var all []*server
	for i, p := range programs {
		s, err := p.start(ctx, repositories[i])
		if err != nil {
			stopAll(all)
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func stopAll(all []*server) {
	for _, s := range all {
		s.stop()
	}
}

func (p *program) startOnce(ctx context.Context, repository string) (*server, error) {
	pt, err := freePorts()
	if err != nil {
		return nil, err
	}
	s := &server{ports: pt, log: filepath.Join(filepath.Dir(repository), p.name+".log")}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.CommandContext(ctx, p.argv[0], append(slices.Clone(p.argv[1:]), "--model-repository="+repository,
		"--http-port="+strconv.Itoa(pt.http), "--grpc-port="+strconv.Itoa(pt.grpc),
		"--metrics-port="+strconv.Itoa(pt.metrics))...)
	s.cmd.Env = append(os.Environ(), p.env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.waitReady(begin); err != nil {
		s.stop()
		text, _ := os.ReadFile(s.log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return nil, fmt.Errorf("%s: %w; the end of its log:\n%s", p.name, err,
			strings.Join(lines[max(0, len(lines)-8):], "\n"))
	}
	return s, nil
}

// waitReady asks every 2 ms whether the server is ready and notes how long it took since begin.
func (s *server) waitReady(begin time.Time) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + s.addr("http") + "/v2/health/ready"
	for time.Since(begin) < 60*time.Second {
		if resp, err := client.Get(url); err == nil {
			_ = resp.Body.Close() // it is empty
			if resp.StatusCode == http.StatusOK {
				s.toReady = time.Since(begin)
				return nil
			}
		}
		if hasExited(s.cmd.Process.Pid) {
			return errors.New("it exited")
		}
		time.Sleep(2 * time.Millisecond)
	}
	return errors.New("not ready after 60 s")
}

// hasExited reports whether a process is gone or a zombie; a server is not waited for before stop. Format: proc(5).
func hasExited(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// stop stops the server and all its children, and waits for it.
func (s *server) stop() {
	if s == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // the group: children that outlived it
	<-done
}

// freePorts returns free ports of the loopback interface.
func freePorts() (ports, error) {
	var list []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, err
		}
		defer l.Close()
		list = append(list, l.Addr().(*net.TCPAddr).Port)
	}
	return ports{list[0], list[1], list[2]}, nil
}

const cacheOption = "--cache-config=local,size=10485760"

// nereid describes our server.
func nereid(binary, work string, args ...string) *program {
	return &program{name: "nereid", argv: append([]string{
		binary, "serve", cacheOption, "--data-dir=" + filepath.Join(work, "nereid-data"), "--ui-port=0",
	}, args...)}
}

// programs are our server and, unless only ours is measured, the reference.
func (o *options) programs(ctx context.Context) ([]*program, error) {
	ours := nereid(o.binary, o.work)
	if o.alone {
		return []*program{ours}, nil
	}
	theirs, err := reference(ctx, o.work, o.mlp)
	return []*program{ours, theirs}, err
}

// reference sets the real Triton up and describes it.
func reference(ctx context.Context, work, mlp string) (*program, error) {
	cmd := exec.CommandContext(ctx, "build/bench/reference.sh", work, mlp)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("setting up the reference: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	p := &program{name: "triton", argv: []string{
		lines[0], cacheOption, "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1",
	}}
	for _, l := range lines[1:] {
		switch k, v, _ := strings.Cut(l, "="); k {
		case "BACKENDS":
			p.argv = append(p.argv, "--backend-directory="+v)
		case "CACHES":
			p.argv = append(p.argv, "--cache-directory="+v)
		default:
			p.env = append(p.env, l)
		}
	}
	return p, nil
}
