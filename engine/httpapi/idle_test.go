//go:build linux

package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// An idle keep-alive connection costs the server less than 10 KB of resident memory, and a request on one is answered
// in time. There are 1,000 connections, or fewer if the process may not open as many files, and 10,000 in the soak
// run. The server is another process. The name of the test puts it into the stage without the race detector, which
// changes the memory usage.
func TestA21AllocIdleConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()                    // it mostly waits
	n, limit := 1000, 5*time.Second // the machine may be busy
	if os.Getenv("NEREID_SOAK") == "full" {
		n, limit = 10_000, 50*time.Millisecond
	}
	n = min(n, descriptors(t)/4) // the rest is for the tests that run in parallel
	pid, addr, _ := serverProcess(t)
	whole := request("POST", addSubPath, addSubJSON)
	for range 50 { // the first requests need memory of another kind
		checkAnswer(t, send(t, dial(t, addr), whole), okJSON(addSubReply))
	}
	before := usage(t, pid).Resident
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = dial(t, addr)
		if got := send(t, conns[i], whole); got.body != addSubReply {
			t.Fatalf("connection %d: %s %s", i, got.status, got.body)
		}
	}
	busy := usage(t, pid).Resident

	const most = 10_000 // bytes
	each := int64(0)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	patience := 30 * time.Second
	if raceEnabled {
		patience = 4 * time.Second
	}
	for begin := time.Now(); time.Since(begin) < patience; <-tick.C {
		if each = (usage(t, pid).Resident - before) / int64(n); each < most/2 {
			break
		}
	}
	t.Logf("%d connections: %d bytes each when idle, %d just after their requests", n, each, (busy-before)/int64(n))
	if each >= most && !raceEnabled {
		t.Errorf("an idle connection costs %d bytes, want less than %d", each, most)
	}

	within(t, "a request on an idle connection", limit, func() {
		if got := send(t, conns[rand.IntN(n)], whole); got.body != addSubReply {
			t.Fatalf("a request on an idle connection: %s %s", got.status, got.body)
		}
	})
	within(t, "a request on a new connection", limit, func() {
		c := dial(t, addr)
		send(t, c, whole)
		c.Close()
	})

	// Requests on all of them at once.
	for i, c := range conns {
		if _, err := io.WriteString(c, whole); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	for i, c := range conns {
		if got := receive(t, bufio.NewReader(c), "POST"); got.body != addSubReply {
			t.Fatalf("connection %d of all at once: %s %s", i, got.status, got.body)
		}
	}
}

// within does something 51 times and fails if the median takes longer than limit.
func within(t *testing.T, what string, limit time.Duration, do func()) {
	t.Helper()
	took := make([]time.Duration, 51)
	for i := range took {
		begin := time.Now()
		do()
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("%s: median %v, at most %v", what, median, took[len(took)-1])
	if median > limit {
		t.Errorf("%s takes %v, want at most %v", what, median, limit)
	}
}

// A server without a free file descriptor answers 503, and serves again when there are some.
func TestA21FileLimit(t *testing.T) {
	t.Parallel() // it mostly waits
	_, addr, _ := serverProcess(t, filesVariable+"=40")
	get := request("GET", "/v2/health/live", "")
	var held []net.Conn
	refused := 0
	for len(held) < 100 && refused < 5 {
		c := dial(t, addr)
		got := send(t, c, get)
		switch got.status {
		case "200 OK":
			held = append(held, c)
		case "503 Service Unavailable":
			refused++
			if !strings.Contains(got.body, "no file descriptor") {
				t.Errorf("503 with %q", got.body)
			}
			ended(t, c)
		default:
			t.Fatalf("answer %s", got.status)
		}
	}
	if refused < 5 || len(held) < 10 {
		t.Fatalf("%d connections are served and %d refused with a limit of 40 files", len(held), refused)
	}
	for _, c := range held { // existing connections are served
		if got := send(t, c, get); got.status != "200 OK" {
			t.Errorf("a connection from before: %s", got.status)
		}
	}
	for _, c := range held[:5] {
		c.Close()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		c := dial(t, addr)
		fmt.Fprint(c, request("POST", addSubPath, addSubJSON))
		if got := receive(t, bufio.NewReader(c), "POST"); got.body == addSubReply {
			return
		}
		<-tick.C
	}
	t.Error("the server does not accept again after connections were closed")
}
