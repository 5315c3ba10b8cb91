package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// load is one kind of request, sent to a model of each server.
type load struct {
	name, proto, tensors string
	models               [2]string // ours and the other's
	check                string
	clients              []int
}

const (
	identityInput = "INPUT0:FP32:1,16"
	mlpInput      = "input:FP32:1,784"
	bigInput      = "INPUT0:FP32:1,262144" // 1 MiB
)

func loads() []load {
	all, most := []int{1, 16, 64}, []int{1, 64}
	identity, cached := [2]string{"identity", "identity_cached"}, [2]string{"identity_cached", "identity_cached"}
	return []load{
		{"identity-http", "http", identityInput, identity, "identity", all},
		{"identity-json", "json", identityInput, identity, "identity", all},
		{"identity-grpc", "grpc", identityInput, identity, "identity", all},
		{"cached-http", "http", identityInput, cached, "identity", all},
		{"cached-json", "json", identityInput, cached, "identity", most},
		{"cached-grpc", "grpc", identityInput, cached, "identity", all},
		{"mlp-http", "http", mlpInput, [2]string{"mlp", "mlp_py_plain"}, "same", all},
		{"mlpdb-http", "http", mlpInput, [2]string{"mlp_db", "mlp_py"}, "same", all},
		{"mlpdb-grpc", "grpc", mlpInput, [2]string{"mlp_db", "mlp_py"}, "same", most},
	}
}

func namesOf(list []load) (names []string) {
	for _, l := range list {
		names = append(names, l.name)
	}
	return names
}

// runLoads compares the servers under loads.
func (b *bench) runLoads(ctx context.Context) error {
	ours, err := b.ourRepository()
	if err != nil {
		return err
	}
	programs, err := b.programs(ctx)
	if err != nil {
		return err
	}
	servers, err := startAll(ctx, programs, []string{ours, filepath.Join(b.work, "repo")})
	if err != nil {
		return err
	}
	defer stopAll(servers)
	return b.compareLoads(ctx, loads(), servers)
}

// compareLoads runs loads on the servers. Each is run once before it counts, with the values of its responses checked.
func (b *bench) compareLoads(ctx context.Context, list []load, servers []*server) error {
	var cases []contest
	for _, l := range list {
		if !b.wants(l.name) {
			continue
		}
		for i, s := range servers {
			if err := b.verify(ctx, l, l.models[i], s, min(16, slices.Max(l.clients))); err != nil {
				return fmt.Errorf("%s, side %d: %w", l.name, i, err)
			}
		}
		clients := l.clients
		if b.clients != nil {
			clients = b.clients
		}
		for _, n := range clients {
			c := contest{name: caseName(l.name, n)}
			for i, s := range servers {
				c.sides = append(c.sides, b.loadSide(l, l.models[i], s, n))
			}
			cases = append(cases, c)
		}
	}
	return b.compare(ctx, b.repeat, cases...)
}

// window is the measured part of a load, and the warm-up before it.
type window struct {
	warm    string
	seconds float64
}

// loadSide is a side that loads a server with the usual window.
func (b *bench) loadSide(l load, model string, s *server, clients int) side {
	return func(ctx context.Context) ([]value, error) {
		return b.load(ctx, l, model, s, clients, window{"1s", b.seconds}, "none")
	}
}

// verify loads a server for a moment and checks the values of the responses.
func (b *bench) verify(ctx context.Context, l load, model string, s *server, clients int) error {
	_, err := b.load(ctx, l, model, s, clients, window{"1s", 0.5}, l.check)
	return err
}

// load runs loadgen once. Any wrong or failed response is an error.
func (b *bench) load(ctx context.Context, l load, model string, s *server, clients int, w window,
	check string) ([]value, error) {
	args := []string{"-i", l.proto}
	if l.proto == "shm" {
		args = []string{"-i", "http", "-shm", "OUTPUT0"}
	}
	args = append(args, "-json", "-u", s.addr(l.proto), "-m", model, "-in", l.tensors, "-c", strconv.Itoa(clients),
		"-w", w.warm, "-d", fmt.Sprintf("%gs", w.seconds), "-check", check, "-pid", strconv.Itoa(s.cmd.Process.Pid))
	return printed(exec.CommandContext(ctx, b.loadgen, args...), rate, serverUS, p50, p99, otherCPU)
}

// printed runs a program that prints the figures of a load as JSON.
func printed(cmd *exec.Cmd, wanted ...figure) ([]value, error) {
	var p struct {
		Rate     float64  `json:"rate"`
		P50MS    float64  `json:"p50_ms"`
		P99MS    float64  `json:"p99_ms"`
		ServerUS float64  `json:"server_us"`
		OtherCPU float64  `json:"other_cpu"`
		Errors   uint64   `json:"errors"`
		Faults   []string `json:"faults"`
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	runErr := cmd.Run()
	switch err := json.Unmarshal(out.Bytes(), &p); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", cmd.Path, errors.Join(runErr, errors.New(strings.TrimSpace(errOut.String()))))
	case p.Errors > 0:
		return nil, fmt.Errorf("%d requests failed: %s", p.Errors, strings.Join(p.Faults, "; "))
	case runErr != nil:
		return nil, runErr
	}
	all := []value{{rate, p.Rate}, {serverUS, p.ServerUS}, {p50, p.P50MS}, {p99, p.P99MS}, {otherCPU, p.OtherCPU}}
	return slices.DeleteFunc(all, func(v value) bool { return !slices.Contains(wanted, v.figure) }), nil
}
