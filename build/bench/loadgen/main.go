package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.addr, "u", "127.0.0.1:8000", "host:port of the server")
	flag.StringVar(&o.proto, "i", "http",
		"http (binary tensors), json, grpc, grpc-go (always through that library), or embedded (in this process)")
	flag.StringVar(&o.repository, "r", "", "the model repository of -i embedded")
	flag.StringVar(&o.model, "m", "", "model")
	flag.StringVar(&o.tensors, "in", "INPUT0:FP32:1,16",
		"inputs: NAME:DTYPE:d,d,..[;...]; NAME:UINT8:@PATTERN: files, one for each client")
	flag.IntVar(&o.conns, "conns", 8,
		"gRPC: the most connections; up to that many clients have a connection each")
	flag.DurationVar(&o.warm, "w", time.Second, "warm-up")
	flag.DurationVar(&o.window, "d", 4*time.Second, "measured window")
	flag.IntVar(&o.pid, "pid", 0, "the server's process id, for its CPU time and memory")
	flag.StringVar(&o.check, "check", "none",
		"check values: none, identity, same (as when sent alone), version (input + version)")
	flag.StringVar(&o.outputs, "shm", "",
		"system shared memory for the tensors: the outputs' names, one for each input, as NAME;NAME; needs -i http")
	clients := flag.String("c", "1,16,64", "numbers of clients, one load each")
	asJSON := flag.Bool("json", false, "print one JSON object per line")
	echo := flag.String("echo", "",
		"host:port: no load; return each request's body there; -i: http, grpc (the server's own HTTP/2) or grpc-go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *echo != "" {
		if err := serveEcho(ctx, *echo, o.proto); err != nil {
			fmt.Fprintln(os.Stderr, "loadgen:", err)
			os.Exit(1) //nolint:gocritic // there is nothing to undo
		}
		return
	}
	if o.model == "" {
		fmt.Fprintln(os.Stderr, "loadgen: -m: name the model")
		os.Exit(2)
	}
	faulty := false
	for i, c := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "loadgen: -c: %q is not a positive integer\n", c)
			os.Exit(2)
		}
		o.clients = n
		p, err := run(ctx, o)
		if err != nil {
			fmt.Fprintln(os.Stderr, "loadgen:", err)
			os.Exit(1)
		}
		faulty = faulty || p.Errors > 0
		if *asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
				os.Exit(1)
			}
			continue
		}
		p.print(i == 0)
	}
	if faulty {
		os.Exit(3)
	}
}

// print prints the point as a line of a table, and the table's head before it if head is set.
func (p *point) print(head bool) {
	if head {
		fmt.Printf("%-5s %7s %10s %9s %9s %9s %9s %9s %8s %8s %8s %7s %7s\n", "proto", "clients", "req/s",
			"p50 ms", "p90 ms", "p99 ms", "max ms", "srv us", "srv cpu", "cli cpu", "oth cpu", "RSS MB", "errors")
	}
	fmt.Printf("%-5s %7d %10.0f %9.3f %9.3f %9.3f %9.3f %9.1f %8.2f %8.2f %8.2f %7.0f %7d\n", p.Proto, p.Clients,
		p.Rate,
		p.P50MS, p.P90MS, p.P99MS, p.MaxMS, p.ServerUS, p.ServerCPU, p.ClientCPU, p.OtherCPU, p.RSSMB, p.Errors)
	for _, f := range p.Faults {
		fmt.Printf("      error: %s\n", f)
	}
}
