package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nereid/engine/client"
	"nereid/engine/grpcapi/h2"
	"nereid/engine/inferencepb"
	"nereid/engine/system/proc"
)

func TestInputsRefuse(t *testing.T) {
	for _, spec := range []string{"", "X", "X:FP32", "X:FP32:0", "X:FP32:a", "X:FLOAT:1", "X:UINT8:@",
		"X:UINT8:@nosuch*", "X:UINT8:@["} {
		o := options{tensors: spec}
		if _, err := o.inputs(0); err == nil {
			t.Errorf("inputs of %q = nil error", spec)
		}
	}
	for _, spec := range []string{"X:FP16:1"} {
		o := options{tensors: spec, proto: "json"}
		in, err := o.inputs(0)
		if err == nil {
			_, err = newHTTPSender(&o, &client.Request{Inputs: in}, time.Now())
		}
		if err == nil {
			t.Errorf("%q in JSON = nil error", spec)
		}
	}
}

// Each worker sends another file; there may be fewer files than workers.
func TestInputsOfFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.jpg": "first", "b.jpg": "second one", "c.txt": "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := options{tensors: "image:UINT8:@" + filepath.Join(dir, "*.jpg") + ";X:FP32:1,2"}
	for i, want := range []string{"first", "second one", "first"} {
		in, err := o.inputs(i)
		if err != nil {
			t.Fatal(err)
		}
		if len(in) != 2 || in[0].Name != "image" || string(in[0].Data) != want ||
			!slices.Equal(in[0].Shape, []int64{1, int64(len(want))}) || in[1].Name != "X" {
			t.Errorf("inputs(%d) = %v, want the file %q and X", i, in, want)
		}
	}
}

// Texts must be equal, floats nearly.
func TestCheckSameOfTexts(t *testing.T) {
	response := func(text string, x float32) *client.Response {
		return &client.Response{Outputs: []client.Tensor{client.Strings("text", []string{text}),
			client.Of("x", []float32{x})}}
	}
	alone := response("word", 1)
	if err := checkSame(nil, alone, response("word", 1.00001)); err != nil {
		t.Errorf("checkSame of the same text = %v", err)
	}
	if err := checkSame(nil, alone, response("ward", 1)); err == nil {
		t.Error("checkSame of another text = nil error")
	}
}

func TestGRPCRequestIsAModelInferRequest(t *testing.T) {
	o := options{tensors: "A:FP32:1,4;B:INT64:2"}
	in, err := o.inputs(0)
	if err != nil {
		t.Fatal(err)
	}
	var m inferencepb.ModelInferRequest
	b, err := grpcRequest("net", in)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if m.GetModelName() != "net" || len(m.GetInputs()) != 2 || m.GetInputs()[0].GetDatatype() != "FP32" ||
		fmt.Sprint(m.GetInputs()[0].GetShape()) != "[1 4]" || !bytes.Equal(m.GetRawInputContents()[1], in[1].Data) {
		t.Errorf("grpcRequest encodes %v", &m)
	}
}

// echo answers inference requests with their own inputs, binary or JSON as they came, after change has had the answer.
func echo(t *testing.T, change func(n int64, body []byte) []byte) string {
	t.Helper()
	var count atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		header, err := strconv.Atoi(r.Header.Get("Inference-Header-Content-Length"))
		text := body
		if err == nil {
			text = body[:header]
		}
		var req struct {
			Inputs []json.RawMessage `json:"inputs"`
		}
		if err := json.Unmarshal(text, &req); err != nil {
			t.Error(err)
		}
		out, _ := json.Marshal(map[string]any{"model_name": "m", "model_version": "1", "outputs": req.Inputs})
		answer := append([]byte(nil), out...)
		if err == nil {
			w.Header().Set("Inference-Header-Content-Length", strconv.Itoa(len(out)))
			answer = append(answer, body[header:]...)
		}
		answer = change(count.Add(1), answer)
		if answer == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func TestRunOverHTTP(t *testing.T) {
	for _, tt := range []struct {
		name, proto string
		change      func(n int64, body []byte) []byte
		wantFault   string
	}{
		{name: "binary", proto: "http", change: func(_ int64, b []byte) []byte { return b }},
		{name: "json", proto: "json", change: func(_ int64, b []byte) []byte { return b }},
		{name: "a wrong value is noticed", proto: "http", wantFault: "is not the input",
			change: func(n int64, b []byte) []byte {
				if n > 10 {
					b[len(b)-1] ^= 1
				}
				return b
			}},
		{name: "a short response is noticed", proto: "http", wantFault: "bytes, want",
			change: func(n int64, b []byte) []byte {
				if n > 10 {
					return b[:len(b)-1]
				}
				return b
			}},
		{name: "a bad status is noticed", proto: "json", wantFault: "status 503",
			change: func(n int64, b []byte) []byte {
				if n > 10 {
					return nil
				}
				return b
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options{addr: echo(t, tt.change), proto: tt.proto, model: "m", tensors: "INPUT0:FP32:1,16", clients: 3,
				warm: 20 * time.Millisecond, window: 150 * time.Millisecond, pid: os.Getpid(), check: "identity"}
			p, err := runUntil(t, o, tt.wantFault != "", func() {})
			if err != nil {
				t.Fatal(err)
			}
			if tt.wantFault == "" {
				if p.Errors > 0 || p.Requests == 0 || p.P50MS <= 0 || !p.Checked {
					t.Errorf("run = %+v; want requests, latencies and no errors", p)
				}
				return
			}
			if p.Errors == 0 || !strings.Contains(strings.Join(p.Faults, ";"), tt.wantFault) {
				t.Errorf("run: %d errors, faults %q; want some with %q", p.Errors, p.Faults, tt.wantFault)
			}
		})
	}
}

// runUntil runs the load, in longer windows on a busy machine, until requests were answered or, if a fault is expected,
// until one was seen.
func runUntil(t *testing.T, o options, fault bool, before func()) (point, error) {
	t.Helper()
	for {
		before()
		p, err := run(t.Context(), o)
		if err != nil || p.Errors > 0 || p.Requests > 0 && !fault || o.window > time.Minute {
			return p, err
		}
		o.window *= 4
	}
}

// grpcServer serves an echo by grpc-go, whose windows are 64 KiB, and counts its connections.
func grpcServer(t *testing.T, change func(n int64, r *inferencepb.ModelInferResponse) error) (addr string,
	conns *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting := &countingListener{Listener: l}
	srv := grpc.NewServer()
	inferencepb.RegisterGRPCInferenceServiceServer(srv, &grpcEcho{change: change})
	go func() { _ = srv.Serve(counting) }()
	t.Cleanup(srv.Stop)
	return l.Addr().String(), &counting.n
}

type countingListener struct {
	net.Listener
	n atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

func TestRunOverGRPC(t *testing.T) {
	for _, tt := range []struct {
		name, proto, tensors string
		clients, conns       int
		wantConns            int64
		change               func(n int64, r *inferencepb.ModelInferResponse) error
		wantFault            string
	}{
		{name: "a connection each", clients: 2, conns: 2, wantConns: 2},
		{name: "shared connections", clients: 4, conns: 2, wantConns: 2},
		{name: "by grpc-go", proto: "grpc-go", clients: 1, conns: 2, wantConns: 1},
		{name: "larger than frames and windows", clients: 1, conns: 1, wantConns: 1, tensors: "INPUT0:FP32:1,262144"},
		{name: "a wrong value is noticed", clients: 1, conns: 1, wantConns: 1, wantFault: "is not the input",
			change: func(n int64, r *inferencepb.ModelInferResponse) error {
				if n > 10 {
					r.RawOutputContents[0][0] ^= 1
				}
				return nil
			}},
		{name: "a short response is noticed", clients: 1, conns: 1, wantConns: 1, wantFault: "bytes, want",
			change: func(n int64, r *inferencepb.ModelInferResponse) error {
				if n > 10 {
					r.RawOutputContents[0] = r.RawOutputContents[0][1:]
				}
				return nil
			}},
		{name: "an error is noticed", clients: 1, conns: 1, wantFault: `gRPC status "14": 100 % no`, wantConns: -1,
			change: func(n int64, _ *inferencepb.ModelInferResponse) error {
				if n > 10 {
					return status.Error(codes.Unavailable, "100 % no")
				}
				return nil
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, conns := grpcServer(t, tt.change)
			o := options{addr: addr, proto: cmp.Or(tt.proto, "grpc"), model: "m",
				tensors: cmp.Or(tt.tensors, "INPUT0:FP32:1,16"),
				clients: tt.clients, conns: tt.conns, warm: 20 * time.Millisecond, window: 150 * time.Millisecond,
				check: "identity"}
			p, err := runUntil(t, o, tt.wantFault != "", func() { conns.Store(0) })
			switch {
			case err != nil:
				t.Fatal(err)
			case tt.wantFault == "" && (p.Errors > 0 || p.Requests == 0 || !p.Checked):
				t.Errorf("run = %+v; want requests and no errors", p)
			case tt.wantFault != "" && (p.Errors == 0 || !strings.Contains(strings.Join(p.Faults, ";"), tt.wantFault)):
				t.Errorf("run: %d errors, faults %q; want some with %q", p.Errors, p.Faults, tt.wantFault)
			}
			if n := conns.Load(); tt.wantConns > 0 && tt.wantFault == "" && n != tt.wantConns {
				t.Errorf("%d connections, want %d", n, tt.wantConns)
			}
		})
	}
}

// The client works with the server's own HTTP/2 too. That echo returns the request, so that only the length can be
// checked.
func TestRunOverOwnHTTP2(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	srv, err := h2.New(h2.Options{Codec: echoCodec{}})
	if err != nil {
		t.Fatal(err)
	}
	srv.RegisterService(&echoService, nil)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	sender := newH2Sender(addr, make([]byte, 300<<10), time.Now().Add(time.Minute))
	defer sender.close()
	for range 3 {
		if a, err := sender.exchange(t.Context()); err != nil || len(a) != 300<<10 {
			t.Fatalf("exchange = %d bytes, %v; want %d", len(a), err, 300<<10)
		}
	}
}

// canned is a server that says what it has to say, whatever it hears.
type canned struct{ *bytes.Reader }

func (canned) Write(b []byte) (int, error) { return len(b), nil }
func (canned) Close() error                { return nil }

func FuzzH2Answer(f *testing.F) {
	server := func(write func(f *http2.Framer)) []byte {
		var b bytes.Buffer
		framer := http2.NewFramer(&b, nil)
		_ = framer.WriteSettings()
		write(framer)
		return b.Bytes()
	}
	f.Add(server(func(*http2.Framer) {}))
	f.Add(server(func(f *http2.Framer) {
		status := http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true}
		trailer := append([]byte{0, 11}, "grpc-status\x010"...)
		_ = f.WriteHeaders(status)
		_ = f.WriteData(1, false, []byte{0, 0, 0, 0, 1, 9})
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: trailer, EndHeaders: true,
			EndStream: true})
	}))
	f.Add(server(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}) }))
	f.Add(server(func(f *http2.Framer) { _ = f.WriteRawFrame(http2.FrameHeaders, 0x28, 1, []byte{1, 2, 3}) }))
	f.Add(server(func(f *http2.Framer) { _ = f.WriteGoAway(0, 1, nil) }))
	f.Fuzz(func(t *testing.T, b []byte) {
		sender := newH2Sender("a:1", []byte("request"), time.Time{})
		if err := sender.open(canned{bytes.NewReader(b)}); err != nil {
			return
		}
		for range 3 { // what is left to say ends
			if a, err := sender.try(); err != nil || len(a) > len(b) {
				if err == nil {
					t.Fatalf("an answer of %d bytes out of %d", len(a), len(b))
				}
				return
			}
		}
	})
}

type grpcEcho struct {
	inferencepb.UnimplementedGRPCInferenceServiceServer
	change func(n int64, r *inferencepb.ModelInferResponse) error
	n      atomic.Int64
}

func (e *grpcEcho) ModelInfer(_ context.Context, r *inferencepb.ModelInferRequest) (*inferencepb.ModelInferResponse,
	error) {
	answer := &inferencepb.ModelInferResponse{ModelName: r.GetModelName(), ModelVersion: "1",
		RawOutputContents: r.GetRawInputContents()}
	for _, in := range r.GetInputs() {
		answer.Outputs = append(answer.Outputs, &inferencepb.ModelInferResponse_InferOutputTensor{
			Name: in.GetName(), Datatype: in.GetDatatype(), Shape: in.GetShape()})
	}
	if e.change != nil {
		if err := e.change(e.n.Add(1), answer); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func TestCheckVersion(t *testing.T) {
	in := []client.Tensor{client.Of("X", []float32{1})}
	three := []client.Tensor{client.Of("Y", []float32{3})}
	if err := checkVersion(in, nil, &client.Response{Version: "2", Outputs: three}); err != nil {
		t.Errorf("1 + 2 = 3 by version 2: %v", err)
	}
	if err := checkVersion(in, nil, &client.Response{Version: "3", Outputs: three}); err == nil {
		t.Error("3 by version 3 passes; want 4")
	}
}

func TestCheckSameAllowsRounding(t *testing.T) {
	alone := &client.Response{Outputs: []client.Tensor{client.Of("Y", []float32{3, -100})}}
	for _, tt := range []struct {
		values []float32
		ok     bool
	}{
		{[]float32{3.0001, -100.005}, true},
		{[]float32{3.001, -100}, false},
		{[]float32{float32(math.NaN()), -100}, false},
		{[]float32{3}, false},
	} {
		got := &client.Response{Outputs: []client.Tensor{client.Of("Y", tt.values)}}
		if err := checkSame(nil, alone, got); (err == nil) != tt.ok {
			t.Errorf("%v against 3, -100: %v", tt.values, err)
		}
	}
}

func TestTreeCountsChildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read x'")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	u, err := proc.Tree(cmd.Process.Pid)
	if err != nil || u.CPU <= 0 || u.RSSMB <= 0 {
		t.Errorf("Tree = %+v, %v; want CPU time and memory of the grandchild", u, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if _, err := proc.Tree(cmd.Process.Pid); err == nil {
		t.Error("Tree of an ended process = nil error")
	}
}
