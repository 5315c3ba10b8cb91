package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bigTensor is 1 MiB.
const bigTensor = "INPUT0:FP32:1,262144"

// echoLibraries are what the echo program can serve with: the values of its -i.
var echoLibraries = []string{"http", "grpc", "grpc-go"}

var echoClients = []int{1, 16}

type echoKey struct {
	library string
	clients int
}

// echoExperiment compares ours, with tensors of 1 MiB, with a program that returns each message over a library.
type echoExperiment struct{ points map[echoKey]*pair }

func (e *echoExperiment) cases() (names []string) {
	for _, library := range echoLibraries {
		names = append(names, "echo-"+library)
	}
	return names
}

func (e *echoExperiment) run(ctx context.Context, o *options) error {
	e.points = map[echoKey]*pair{}
	repository, err := ourRepository(o)
	if err != nil {
		return err
	}
	ours, err := nereid(o.binary, o.work).start(ctx, repository)
	if err != nil {
		return err
	}
	defer ours.stop()
	for _, library := range echoLibraries {
		if o.wants("echo-" + library) {
			if err := e.compare(ctx, o, ours, library); err != nil {
				return fmt.Errorf("1 MiB tensors, %s: %w", library, err)
			}
		}
	}
	return nil
}

func (e *echoExperiment) compare(ctx context.Context, o *options, ours *server, library string) error {
	echo, err := startEcho(ctx, o, library)
	if err != nil {
		return err
	}
	defer echo.stop()
	l := load{"echo", "grpc", bigTensor, "big", "big", "none", nil}
	if library == "http" {
		l.proto = "http"
	}
	if _, err := o.load(ctx, l, 0, ours, 4, 0.5, "identity"); err != nil {
		return err
	}
	servers := []*server{ours, echo}
	for _, clients := range echoClients {
		points := &pair{}
		e.points[echoKey{library, clients}] = points
		err := inTurn(o.repeat, 2, func(side int) error {
			p, err := o.load(ctx, l, side, servers[side], clients, o.seconds, "none")
			points.add(side, p)
			return err
		})
		if err != nil {
			return fmt.Errorf("%d clients: %w", clients, err)
		}
	}
	return nil
}

// startEcho starts the load generator's echo and waits until it accepts connections.
func startEcho(ctx context.Context, o *options, library string) (*server, error) {
	pt, err := freePorts()
	if err != nil {
		return nil, err
	}
	port := pt.http
	if library != "http" {
		port = pt.grpc
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	s := &server{ports: pt, cmd: exec.CommandContext(ctx, o.loadgen, "-echo", addr, "-i", library)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 1000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close() // it was only a test
			return s, nil
		}
		if hasExited(s.cmd.Process.Pid) {
			break
		}
		settle(ctx, 10*time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("the echo over %s does not answer on %s", library, addr)
}

// each calls f for what was measured, in order.
func (e *echoExperiment) each(f func(k echoKey, p *pair)) {
	for _, library := range echoLibraries {
		for _, clients := range echoClients {
			if p := e.points[echoKey{library, clients}]; p != nil {
				f(echoKey{library, clients}, p)
			}
		}
	}
}

func (e *echoExperiment) table() string {
	if len(e.points) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nTensors of 1 MiB, beside a program that sends each message back over a library (http: fasthttp, " +
		"grpc: our own HTTP/2,\ngrpc-go: that; ours serves gRPC by its own in both):\n\n" +
		"| echo | clients | ours req/s | echo req/s | ours µs | echo µs | ratio |\n|---|---|---|---|---|---|---|\n")
	e.each(func(k echoKey, p *pair) {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s |\n", k.library, k.clients,
			p.text(0, rate, "%.0f"), p.text(1, rate, "%.0f"), p.text(0, serverUS, "%.0f"), p.text(1, serverUS, "%.0f"),
			p.ratioText(serverUS, "%.2f"))
	})
	return b.String()
}

func (e *echoExperiment) bars() (list []bar) {
	e.each(func(k echoKey, p *pair) {
		if v, ok := p.ratio(serverUS); ok {
			list = append(list, atMost(1.2, "times", v.median,
				"1 MiB tensors, %d clients, server CPU against the echo over %s", k.clients, k.library))
		}
	})
	return list
}
