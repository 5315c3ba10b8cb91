package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// runEcho compares the server, with tensors of 1 MiB, with a program that only returns each message. That program uses
// fasthttp, our HTTP/2 or grpc-go. The server uses our HTTP/2 against both of the gRPC ones.
func (b *bench) runEcho(ctx context.Context) error {
	repository, err := b.ourRepository()
	if err != nil {
		return err
	}
	ours, err := nereid(b.binary, b.work).start(ctx, repository)
	if err != nil {
		return err
	}
	defer ours.stop()
	var cases []contest
	for _, library := range []string{"http", "grpc", "grpc-go"} {
		if !b.wants("echo-" + library) {
			continue
		}
		echo, err := b.startEcho(ctx, library)
		if err != nil {
			return err
		}
		defer echo.stop()
		l := load{proto: "grpc", tensors: bigInput, check: "identity"}
		if library == "http" {
			l.proto = "http"
		}
		if err := b.verify(ctx, l, "big", ours, 4); err != nil {
			return fmt.Errorf("1 MiB tensors, %s: %w", library, err)
		}
		for _, n := range []int{1, 16} {
			cases = append(cases, contest{name: caseName("echo-"+library+", against the echo, 1 MiB", n),
				sides: []side{b.loadSide(l, "big", ours, n), b.loadSide(l, "big", echo, n)}})
		}
	}
	return b.compare(ctx, b.repeat, cases...)
}

// startEcho starts the load generator's echo and waits until it accepts connections.
func (b *bench) startEcho(ctx context.Context, library string) (*server, error) {
	pt, err := freePorts()
	if err != nil {
		return nil, err
	}
	s := &server{ports: pt}
	proto := "grpc"
	if library == "http" {
		proto = library
	}
	s.cmd = exec.CommandContext(ctx, b.loadgen, "-echo", s.addr(proto), "-i", library)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 1000 {
		if c, err := net.Dial("tcp", s.addr(proto)); err == nil {
			_ = c.Close() // it was only a test
			return s, nil
		}
		if hasExited(s.cmd.Process.Pid) {
			break
		}
		settle(ctx, 10*time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("the echo over %s does not answer on %s", library, s.addr(proto))
}
