package httpapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/stats"
	"nereid/engine/tensor"
)

// attacked returns a server over the real engine with the model add_sub, which must go on answering.
func attacked(t *testing.T, change ...func(*Options)) *testServer {
	t.Helper()
	e := realEngine(t)
	for _, name := range []string{"add_sub", "identity", "id_bytes"} {
		if err := e.LoadModel(t.Context(), name, engine.LoadParameters{}); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, append(change, func(o *Options) { o.Engine = e })...)
}

// allocated returns the number of bytes that the process has ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// attack is a whole request and the expected answer.
type attack struct {
	name, request string
	status        string // prefix of the status
}

// runAttacks sends the attacks one by one. After each it checks that the answer came in time and is a JSON error, that
// the memory used is bounded by the size of the request, and that the server still answers other requests.
func runAttacks(t *testing.T, s *testServer, list []attack) {
	t.Helper()
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			conn := dial(t, s.addr)
			before, begin := allocated(), time.Now()
			go io.WriteString(conn, a.request) // the server may answer before it has all of it
			got := receive(t, bufio.NewReader(conn), "POST")
			took, bytes := time.Since(begin), allocated()-before
			if !strings.HasPrefix(got.status, a.status) || !strings.HasPrefix(got.body, `{"error":"`) {
				t.Errorf("answer %s %.200s, want %s with an error", got.status, got.body, a.status)
			}
			if limit := time.Minute; took > limit { // 100 ms is usual
				t.Errorf("the answer took %v, want at most %v", took, limit)
			}
			if limit := uint64(16<<20 + 16*len(a.request)); bytes > limit && !raceEnabled {
				t.Errorf("%d bytes were taken for a request of %d, want at most %d", bytes, len(a.request), limit)
			}
			alive(t, s)
		})
	}
}

// infersInt32 returns a request to add_sub with another INPUT0.
func infersInt32(input0 string) string {
	return request("POST", addSubPath, `{"inputs":[`+input0+
		`,{"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":[`+zeroTo15+`]}]}`)
}

func TestHostileBodies(t *testing.T) {
	s := attacked(t)
	post := func(body string) string { return request("POST", addSubPath, body) }
	shape := func(dims string) string {
		return infersInt32(`{"name":"INPUT0","shape":` + dims + `,"datatype":"INT32","data":[` + zeroTo15 + `]}`)
	}
	tail := int32s()
	sized := func(size string) string {
		body, header := withBinary(`{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32",`+
			`"parameters":{"binary_data_size":`+size+`}},`+
			`{"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":[`+zeroTo15+`]}]}`, tail)
		return request("POST", addSubPath, body, header)
	}
	header := func(value string) string {
		return request("POST", addSubPath, addSubJSON, "Inference-Header-Content-Length: "+value)
	}
	texts := func(dims, tail string) string {
		body, header := withBinary(`{"inputs":[{"name":"INPUT0","shape":`+dims+
			`,"datatype":"BYTES","parameters":{"binary_data_size":`+
			strconv.Itoa(len(tail))+`}}]}`, tail)
		return request("POST", "/v2/models/id_bytes/infer", body, header)
	}
	runAttacks(t, s, []attack{
		{name: "A1 not JSON", request: post("hello"), status: "400"},
		{name: "A1 truncated", request: post(addSubJSON[:len(addSubJSON)/2]), status: "400"},
		{name: "A1 empty", request: post(""), status: "400"},
		{name: "A1 only spaces", request: post("   "), status: "400"},
		{name: "A1 not an object", request: post("[]"), status: "400"},
		{name: "A1 null", request: post("null"), status: "400"},
		{name: "A1 something behind", request: post(addSubJSON + "{}"), status: "400"},

		{name: "A2 deep data", request: infersInt32(`{"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":` +
			strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`), status: "400"},
		{name: "A2 deep parameters", request: post(`{"parameters":` + strings.Repeat(`{"a":`, 100_000) + `1` +
			strings.Repeat("}", 100_000) + `,"inputs":[]}`), status: "400"},
		{name: "A2 deep unknown key", request: post(`{"x":` + strings.Repeat(`[`, 100_000) +
			strings.Repeat(`]`, 100_000) + `,"inputs":[]}`), status: "400"},

		{name: "A3 duplicate inputs", request: post(`{"inputs":[],` + addSubJSON[1:]), status: "400"},
		{name: "A3 duplicate shape", request: infersInt32(`{"name":"INPUT0","shape":[1,16],"shape":[1,16],` +
			`"datatype":"INT32","data":[` + zeroTo15 + `]}`), status: "400"},
		{name: "A3 one input twice", request: infersInt32(`{"name":"INPUT1","shape":[1,16],"datatype":"INT32",` +
			`"data":[` + zeroTo15 + `]}`), status: "400"},
		{name: "A3 a key of 1 MB without end", request: post(`{"` + strings.Repeat("k", 1<<20)), status: "400"},
		{name: "A3 a key of 1 MB and no inputs", request: post(`{"` + strings.Repeat("k", 1<<20) + `":1}`),
			status: "400"},
		{name: "A3 100,000 unknown keys and no inputs", request: post(`{` + strings.Repeat(`"u":1,`, 100_000) +
			`"v":2}`), status: "400"},
		{name: "A3 10,000 inputs", request: post(`{"inputs":[` +
			strings.Repeat(`{"name":"INPUT0","shape":[1],"datatype":"UINT8","data":[1]},`, 9999) +
			`{"name":"INPUT0","shape":[1],"datatype":"UINT8","data":[1]}]}`), status: "400"},

		{name: "A4 negative dim", request: shape("[1,-16]"), status: "400"},
		{name: "A4 zero dim", request: infersInt32(`{"name":"INPUT0","shape":[0,16],"datatype":"INT32","data":[]}`),
			status: "400"},
		{name: "A4 2,000 dims", request: shape("[" + strings.Repeat("1,", 1999) + "16]"), status: "400"},
		{name: "A4 dim over 2^63", request: shape("[1,9223372036854775808]"), status: "400"},
		{name: "A4 product wraps at 2^32", request: shape("[65536,65536]"), status: "400"},
		{name: "A4 product wraps to 16 at 2^64", request: shape("[4611686018427387908,4]"), status: "400"},
		{name: "A4 product wraps at 2^64", request: shape("[8589934592,8589934592]"), status: "400"},

		{name: "A5 size negative", request: sized("-64"), status: "400"},
		{name: "A5 size over the tail", request: sized("65"), status: "400"},
		{name: "A5 size under the tail", request: sized("60"), status: "400"},
		{name: "A5 size over 2^63", request: sized("9223372036854775872"), status: "400"},
		{name: "A5 size a float", request: sized("64.0"), status: "400"},
		{name: "A5 size a string", request: sized(`"64"`), status: "400"},

		{name: "A6 negative", request: header("-1"), status: "400"},
		{name: "A6 over the body", request: header(strconv.Itoa(len(addSubJSON) + 1)), status: "400"},
		{name: "A6 over 2^63", request: header("9223372036854775808"), status: "400"},
		{name: "A6 no number", request: header("abc"), status: "400"},
		{name: "A6 empty", request: header(""), status: "400"},
		{name: "A6 twice", request: request("POST", addSubPath, addSubJSON, "Inference-Header-Content-Length: 2",
			"Inference-Header-Content-Length: 2"), status: "400"},
		{name: "DV50 Content-Encoding twice", request: request("POST", addSubPath, addSubJSON,
			"Content-Encoding: gzip", "Content-Encoding: identity"), status: "400"},

		{name: "A12 prefix over the buffer", request: texts("[1]", "\x05\x00\x00\x00abcd"), status: "400"},
		{name: "A12 prefix 2^32-1", request: texts("[1]", "\xff\xff\xff\xffabcd"), status: "400"},
		{name: "A12 inside a prefix", request: texts("[1]", "\x01\x00"), status: "400"},
		{name: "A12 more elements than the shape", request: texts("[1]", "\x01\x00\x00\x00a\x01\x00\x00\x00b"),
			status: "400"},
		{name: "A12 fewer elements than the shape", request: texts("[3]", "\x01\x00\x00\x00a\x01\x00\x00\x00b"),
			status: "400"},
		{name: "A12 the shape asks for 2^40", request: texts("[1099511627776]", "\x01\x00\x00\x00a"), status: "400"},

		{name: "A18 model name not UTF-8", request: request("POST", "/v2/models/%ff%fe/infer", addSubJSON),
			status: "4"},
		{name: "A18 model name with NUL", request: request("POST", "/v2/models/add_sub%00/infer", addSubJSON),
			status: "4"},
		{name: "A18 input name not UTF-8", request: infersInt32("{\"name\":\"INPUT0\xff\",\"shape\":[1," +
			"16],\"datatype\":\"INT32\",\"data\":[" + zeroTo15 + "]}"), status: "400"},
		{name: "A18 input name with NUL", request: infersInt32(`{"name":"INPUT0\u0000","shape":[1,16],` +
			`"datatype":"INT32","data":[` + zeroTo15 + `]}`), status: "400"},
		{name: "A18 id not UTF-8", request: post("{\"id\":\"\xff\"," + addSubJSON[1:]), status: "400"},
		{name: "A18 id with NUL", request: post(`{"id":"a\u0000b",` + addSubJSON[1:]), status: "400"},
		{name: "A18 header with NUL", request: "POST " + addSubPath +
			" HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n", status: "400"},
	})
	t.Run("A3 a key of 1 MB and 100,000 unknown keys beside good inputs",
		func(t *testing.T) { // ignored, as in Triton
			before := allocated()
			body := `{"` + strings.Repeat("k", 1<<20) + `":1,` + strings.Repeat(`"u":1,`, 100_000) + addSubJSON[1:]
			checkAnswer(t, send(t, dial(t, s.addr), post(body)), okJSON(addSubReply))
			if n := allocated() - before; n > uint64(16<<20+16*len(body)) && !raceEnabled {
				t.Errorf("%d bytes were taken for a body of %d", n, len(body))
			}
		})
}

// A body that inflates from 1 MiB to 1 GiB is refused, and the memory used stays below the limit of 64 MiB.
func TestA7Bombs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := attacked(t)
	const size = 1 << 30
	for _, encoding := range []string{"gzip", "deflate"} {
		body := bomb(t, encoding, size)
		if len(body) > size/1000+1<<17 {
			t.Fatalf("%s: %d bytes stand for %d: that is no bomb", encoding, len(body), size)
		}
		before := allocated()
		got := send(t, dial(t, s.addr), request("POST", addSubPath, body, "Content-Encoding: "+encoding))
		if !strings.HasPrefix(got.status, "413") || !strings.HasPrefix(got.body, `{"error":"`) {
			t.Errorf("%s of %d bytes: %s %s, want 413", encoding, size, got.status, got.body)
		}
		if n := allocated() - before; n > 4*64<<20 {
			t.Errorf("%s: %d bytes were taken at a limit of 64 MiB", encoding, n)
		}
		alive(t, s)
	}
}

// Files of a load request are only written into the model's own folder. A refused load does not change the model.
func TestB4LoadOverrides(t *testing.T) {
	s := attacked(t)
	const config = `{"backend":"add_sub"}`
	for name, file := range map[string]string{"DV51 absolute": "/etc/nereid", "up": "../nereid",
		"up later": "1/../../nereid", "a folder": "1/", "backslashes": `..\\nereid`} {
		t.Run("B4 "+name, func(t *testing.T) {
			got := send(t, dial(t, s.addr), request("POST", "/v2/repository/models/add_sub/load",
				`{"parameters":{"config":`+strconv.Quote(config)+`,"file:`+file+`":"eA=="}}`))
			if !strings.HasPrefix(got.status, "400") || !strings.Contains(got.body,
				"must be a path inside the model folder") || !strings.Contains(got.body,
				"failed to load 'add_sub', failed to poll from model repository: file override") {
				t.Errorf("answer %s %s, want 400", got.status, got.body)
			}
			alive(t, s)
		})
	}
}

// bomb returns a stream that inflates to size spaces, without the checksum at its end. It repeats one piece, which
// refers to the spaces before it, so that it is made quickly.
func bomb(t *testing.T, kind string, size int) string {
	t.Helper()
	const piece = 1 << 20
	spaces := strings.Repeat(" ", piece)
	var (
		b bytes.Buffer
		w interface {
			io.Writer
			Flush() error
		}
	)
	if kind == "gzip" {
		w = gzip.NewWriter(&b)
	} else {
		w = zlib.NewWriter(&b)
	}
	var ends []int
	for range 3 {
		if _, err := io.WriteString(w, spaces); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, b.Len())
	}
	whole := b.String()
	return whole + strings.Repeat(whole[ends[1]:ends[2]], size/piece-len(ends))
}

// Many connections that send their header byte by byte are closed by the header timeout. Others are answered meanwhile.
func TestA8SlowHeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel() // it mostly waits
	n, limit := 400, 2*time.Second
	most := limit // otherwise health waited for the slow ones
	if os.Getenv("NEREID_SOAK") == "full" {
		n, limit, most = 5000, 10*time.Second, 100*time.Millisecond
	}
	n = min(n, descriptors(t)/8) // both ends of each are in this process
	s := attacked(t, func(o *Options) { o.HeaderTimeout = limit })
	var open sync.WaitGroup
	start := make(chan struct{})
	for range n {
		c := dial(t, s.addr)
		open.Go(func() {
			<-start
			text := []byte("GET /v2 HTTP/1.1\r\nX-Endless: ")
			for end := time.Now().Add(limit + time.Minute); time.Now().Before(end); <-time.After(limit / 8) {
				if _, err := c.Write(text[:1]); err != nil {
					return // closed
				}
				if text = text[1:]; len(text) == 0 {
					text = []byte("x")
				}
			}
			t.Error("a header may take longer than its limit")
		})
	}
	begin := time.Now()
	close(start)
	var took []time.Duration
	done := make(chan struct{})
	go func() { open.Wait(); close(done) }()
	tick := time.NewTicker(limit / 40)
	defer tick.Stop()
	for cut := false; !cut; {
		select {
		case <-done:
			cut = true
		case <-tick.C:
			asked := time.Now()
			if got := send(t, dial(t, s.addr), request("GET", "/v2/health/live", "")); got.status != "200 OK" {
				t.Errorf("health answers %s", got.status)
			}
			took = append(took, time.Since(asked))
		}
	}
	slices.Sort(took)
	t.Logf("%d slow headers are cut off in %v; health meanwhile: median %v, at most %v", n, time.Since(begin),
		took[len(took)/2], took[len(took)-1])
	if m := took[len(took)/2]; m > most {
		t.Errorf("health takes %v meanwhile, want at most %v", m, most)
	}
	alive(t, s)
}

// descriptors returns how many files this process may have open.
func descriptors(t *testing.T) int {
	t.Helper()
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	return int(min(most.Cur, 1<<30))
}

// A body of 4 MB in chunks of one byte is read. Malformed chunks and endless chunk extensions are refused.
func TestA9Chunks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := attacked(t)
	head := "POST " + addSubPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	padded := addSubJSON + strings.Repeat(" ", 4<<20-len(addSubJSON))
	var b strings.Builder
	b.WriteString(head)
	for i := range len(padded) {
		b.WriteString("1\r\n" + padded[i:i+1] + "\r\n")
	}
	b.WriteString("0\r\n\r\n")
	checkAnswer(t, send(t, dial(t, s.addr), b.String()), okJSON(addSubReply))
	for _, tt := range []struct{ name, body string }{
		{"length is no number", "zz\r\n"},
		{"negative length", "-1\r\na\r\n0\r\n\r\n"},
		{"length over 2^64", "fffffffffffffffff\r\n"},
		{"no line end behind the data", "1\r\naa0\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, s.addr)
			got := send(t, conn, head+tt.body)
			if !strings.HasPrefix(got.status, "400") || !got.close {
				t.Errorf("answer %s, close %v; want 400 and the connection's end", got.status, got.close)
			}
			ended(t, conn)
			alive(t, s)
		})
	}
	t.Run("extension of 1 MB", func(t *testing.T) {
		before := allocated()
		conn := dial(t, s.addr)
		go io.WriteString(conn, head+"1;"+strings.Repeat("x", 1<<20)+"\r\n{\r\n0\r\n\r\n")
		if got := receive(t, bufio.NewReader(conn), "POST"); !strings.HasPrefix(got.status, "400") {
			t.Errorf("answer %s, want 400", got.status)
		}
		if n := allocated() - before; n > 16<<20 && !raceEnabled {
			t.Errorf("%d bytes were taken", n)
		}
		alive(t, s)
	})
}

// A client that leaves leaves no goroutine, connection or queued request behind: while it sends the header or the body,
// while the request waits or runs, and while the reply is written.
func TestA22ClientLeavesAtAnyTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	budget := tensor.NewBudget(1 << 30)
	s := attacked(t, func(o *Options) {
		o.pollAfter = time.Hour // polling would change the number of goroutines
		o.Memory = budget
	})
	e := s.opt.Engine.(*engine.Engine)
	loadSlow(t, s, 150*time.Millisecond)
	alive(t, s)
	open := s.conns.open.Load() // those of the setup stay open
	held := budget.Used()
	settled := func() bool {
		return s.conns.open.Load() == open && pendingIn(e) == 0 && budget.Used() <= held
	}
	before := runtime.NumGoroutine()
	slow := request("POST", "/v2/models/slow/infer", oneInput("[1,16]", "FP32", "["+zeroTo15+"]"))
	many := strings.TrimSuffix(strings.Repeat("1.5,", 1<<20), ",")
	large := request("POST", "/v2/models/any/infer", oneInput("[1048576]", "FP32", "["+many+"]"))
	for range 5 {
		var conns []net.Conn
		for _, part := range []string{
			slow[:10], slow[:len(slow)-20], slow, slow, slow, // of the last three, one runs and two wait
			large[:len(large)/2],
		} {
			c := dial(t, s.addr)
			io.WriteString(c, part)
			conns = append(conns, c)
		}
		reading := dial(t, s.addr)
		if err := reading.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		io.WriteString(reading, large)
		var some [100]byte
		if _, err := io.ReadFull(reading, some[:]); err != nil {
			t.Fatal(err)
		}
		for _, c := range append(conns, reading) {
			c.Close()
		}
	}
	untilTrue(t, "connections, queue and memory for requests are as they were", settled)
	noGoroutinesLeft(t, before)
	alive(t, s)
}

// loadSlow loads the models slow, which takes some time, and any, which takes any shape.
func loadSlow(t *testing.T, s *testServer, takes time.Duration) {
	t.Helper()
	for name, config := range map[string]string{
		"slow": `{"backend":"identity","max_batch_size":8,"instance_group":[{"count":1,"kind":"KIND_CPU"}],` +
			`"parameters":{"execute_delay_ms":{"string_value":"` + strconv.FormatInt(takes.Milliseconds(), 10) +
			`"}},` +
			`"input":[{"name":"INPUT0","data_type":"TYPE_FP32","dims":[16]}],"output":[{"name":"OUTPUT0",` +
			`"data_type":"TYPE_FP32","dims":[16]}]}`,
		"any": `{"backend":"identity","input":[{"name":"INPUT0","data_type":"TYPE_FP32","dims":[-1]}],` +
			`"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[-1]}]}`,
	} {
		body := `{"parameters":{"config":` + strconv.Quote(config) + `,"file:1/none":"eA=="}}`
		if got := send(t, dial(t, s.addr), request("POST", "/v2/repository/models/"+name+"/load",
			body)); got.status != "200 OK" {
			t.Fatalf("load %s: %s %s", name, got.status, got.body)
		}
	}
}

func pendingIn(e *engine.Engine) (n int64) {
	for _, v := range e.Snapshots(nil) {
		n += v.Pending
	}
	return n
}

func untilTrue(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if cond() {
			return
		}
		<-tick.C
	}
	t.Fatalf("not within a minute: %s", what)
}

// A queued request whose client leaves is removed from the queue and counted as cancelled.
func TestA23CancelWhileQueued(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel() // it mostly waits
	s := attacked(t)
	e := s.opt.Engine.(*engine.Engine)
	loadSlow(t, s, 3*time.Second) // while it runs, the second client must come and leave
	slow := request("POST", "/v2/models/slow/infer", oneInput("[1,16]", "FP32", "["+zeroTo15+"]"))
	first, second := dial(t, s.addr), dial(t, s.addr)
	fmt.Fprint(first, slow)
	untilTrue(t, "the first request runs", func() bool { return pendingIn(e) == 0 && hasBusy(s) })
	fmt.Fprint(second, slow)
	untilTrue(t, "the second one waits", func() bool { return pendingIn(e) == 1 })
	second.Close()
	if got := receive(t, bufio.NewReader(first), "POST"); got.status != "200 OK" {
		t.Errorf("the first request: %s %s", got.status, got.body)
	}
	untilTrue(t, "the second is counted as cancelled and did not run", func() bool {
		for _, v := range e.Snapshots(nil) {
			if v.Model == "slow" {
				return v.Failures[stats.Canceled] == 1 && v.Success.Count == 1 && v.Executions == 1 && v.Pending == 0
			}
		}
		return false
	})
}

func hasBusy(s *testServer) bool {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for c := range s.conns.served {
		if phase(c.phase.Load()) == handling {
			return true
		}
	}
	return false
}
