package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// bigTensor is 1 MiB.
const bigTensor = "INPUT0:FP32:1,262144"

// echoLibraries are what the echo program can serve with: the value of its -i.
var echoLibraries = []string{"http", "grpc", "grpc-go"}

type echoKey struct {
	library string
	clients int
}

// measureEcho compares ours with a program that sends each message back over a library, in turn.
func measureEcho(ctx context.Context, o options, rep *report) error {
	repository, err := ourRepository(o.work, "", false)
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
			if err := measureEchoOf(ctx, o, ours, library, rep); err != nil {
				return fmt.Errorf("1 MiB tensors, %s: %w", library, err)
			}
		}
	}
	return nil
}

func measureEchoOf(ctx context.Context, o options, ours *server, library string, rep *report) error {
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
	for round := range o.repeat {
		for _, clients := range []int{1, 16} {
			k := echoKey{library, clients}
			if rep.echo[k] == nil {
				rep.echo[k] = &[2][]loadPoint{}
			}
			for turn := range servers {
				side := (turn + round) % len(servers)
				p, err := o.load(ctx, l, side, servers[side], clients, o.seconds, "none")
				if err != nil {
					return fmt.Errorf("side %d, %d clients: %w", side, clients, err)
				}
				rep.echo[k][side] = append(rep.echo[k][side], p)
			}
		}
	}
	return nil
}

// startEcho starts the load generator's echo and waits until it takes connections.
func startEcho(ctx context.Context, o options, library string) (*server, error) {
	pt, err := freePorts()
	if err != nil {
		return nil, err
	}
	port := pt.http
	if library != "http" {
		port = pt.grpc
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	s := &server{ports: pt}
	s.cmd = exec.CommandContext(ctx, o.loadgen, "-echo", addr, "-i", library)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 1000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close() // it was only to see
			return s, nil
		}
		if s.ended() {
			break
		}
		settle(ctx, 10*time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("the echo over %s does not answer on %s", library, addr)
}
