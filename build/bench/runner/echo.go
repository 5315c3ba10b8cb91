package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// bigTensor is 1 MiB.
const bigTensor = "INPUT0:FP32:1,262144"

// measureEcho compares ours with a program that sends each body back over the same HTTP library, in turn.
func measureEcho(ctx context.Context, o options, rep *report) error {
	repository, err := ourRepository(o.work, "", false)
	if err != nil {
		return err
	}
	ours, err := nereid(o.binary, o.work).start(ctx, repository, o.work)
	if err != nil {
		return err
	}
	defer ours.stop()
	echo, err := startEcho(ctx, o)
	if err != nil {
		return err
	}
	defer echo.stop()
	l := load{"echo", "http", bigTensor, "big", "big", "none", nil}
	if _, err := o.load(ctx, l, 0, ours, 4, 0.5, "identity"); err != nil {
		return fmt.Errorf("1 MiB tensors: %w", err)
	}
	servers := []*server{ours, echo}
	for round := range o.repeat {
		for _, clients := range []int{1, 16} {
			if rep.echo[clients] == nil {
				rep.echo[clients] = &[2][]loadPoint{}
			}
			for turn := range servers {
				side := (turn + round) % len(servers)
				p, err := o.load(ctx, l, side, servers[side], clients, o.seconds, "none")
				if err != nil {
					return fmt.Errorf("1 MiB tensors, side %d, %d clients: %w", side, clients, err)
				}
				rep.echo[clients][side] = append(rep.echo[clients][side], p)
			}
		}
	}
	return nil
}

// startEcho starts the load generator's echo and waits until it answers.
func startEcho(ctx context.Context, o options) (*server, error) {
	pt, err := freePorts()
	if err != nil {
		return nil, err
	}
	s := &server{ports: pt}
	s.cmd = exec.CommandContext(ctx, o.loadgen, "-echo", "127.0.0.1:"+strconv.Itoa(pt.http))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.waitReady(begin); err != nil { // it answers that too
		s.stop()
		return nil, fmt.Errorf("echo: %w", err)
	}
	return s, nil
}
