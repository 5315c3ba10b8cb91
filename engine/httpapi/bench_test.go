package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"nereid/engine/system/proc"
)

// serveVariable makes the test binary run as a server, so that its CPU time is separate from the clients'.
const serveVariable = "NEREID_HTTPAPI_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serveUntilEOF(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// filesVariable limits the number of files that the server may have open.
const filesVariable = "NEREID_HTTPAPI_FILES"

// serveUntilEOF serves the fake engine, prints its address, and exits when its standard input ends.
func serveUntilEOF() error {
	if n, err := strconv.ParseUint(os.Getenv(filesVariable), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	s, err := New(Options{Engine: newFake()})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	return s.Serve(l)
}

// benchRequests returns requests with 16 floats, as JSON, and as binary data in both directions.
func benchRequests() map[string]string {
	tail := floats16()
	body, header := withBinary(`{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32",`+
		`"parameters":{"binary_data_size":64}}],`+
		`"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}`, tail)
	const path = "/v2/models/identity_ort/infer"
	return map[string]string{
		"binary": request("POST", path, body, header),
		"json":   request("POST", path, oneInput("[1,16]", "FP32", "["+zeroTo15+"]")),
	}
}

func floats16() string {
	var b []byte
	for i := range 16 {
		b = le.AppendUint32(b, floatBits(float32(i)))
	}
	return string(b)
}

// BenchmarkServe reports the CPU time of a server process per request. The clients are in this process.
func BenchmarkServe(b *testing.B) {
	for _, name := range []string{"binary", "json"} {
		for _, clients := range []int{1, 64} {
			b.Run(name+"/clients="+strconv.Itoa(clients), func(b *testing.B) {
				benchmarkServe(b, benchRequests()[name], clients)
			})
		}
	}
}

// serverProcess starts the test binary as a server, which runs until stop is called or the test ends.
func serverProcess(tb testing.TB, env ...string) (pid int, addr string, stop func()) {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), serveVariable+"=1"), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the server ended with %v", err)
		}
	})
	tb.Cleanup(stop)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return cmd.Process.Pid, strings.TrimSpace(line), stop
}

func benchmarkServe(b *testing.B, req string, clients int) {
	pid, addr, stop := serverProcess(b, "GOMAXPROCS=2")
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	before := usage(b, pid).CPU
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			if err := client(addr, req, &left); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	used := usage(b, pid).CPU - before
	stop()
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "server-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "infer/s")
}

// usage returns what a process has used.
func usage(tb testing.TB, pid int) proc.Stat {
	tb.Helper()
	u, err := proc.ReadStat(proc.Root, strconv.Itoa(pid))
	if err != nil {
		tb.Skip("what the server uses cannot be read: ", err)
	}
	return u
}

// client sends a request repeatedly until left is used up. All replies have the length of the first.
func client(addr, req string, left *atomic.Int64) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	buf, length, out := make([]byte, 16<<10), 0, []byte(req)
	for left.Add(-1) >= 0 {
		if _, err := c.Write(out); err != nil {
			return err
		}
		if length == 0 {
			if length, err = c.Read(buf); err != nil || !strings.HasPrefix(string(buf), "HTTP/1.1 200") {
				return fmt.Errorf("%v: %q", err, buf[:length])
			}
			continue
		}
		if _, err := io.ReadFull(c, buf[:length]); err != nil {
			return err
		}
	}
	return nil
}

// A request over a socket allocates only what the HTTP library allocates.
func TestAllocationsOfARequest(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items under the race detector")
	}
	s := serve(t)
	for name, req := range benchRequests() {
		conn := dial(t, s.addr)
		out, buf, length := []byte(req), make([]byte, 16<<10), 0
		exchange := func() {
			if _, err := conn.Write(out); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(buf)
			if err != nil || length > 0 && n != length {
				t.Fatalf("reply of %d bytes, %v; want %d", n, err, length)
			}
			length = n
		}
		exchange()
		if n := testing.AllocsPerRun(500, exchange); n > 1 {
			t.Errorf("a %s request allocates %v times, want at most 1", name, n)
		}
	}
}
