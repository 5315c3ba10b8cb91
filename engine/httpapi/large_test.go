package httpapi

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Large binary outputs are sent in their place among the small ones. Their memory is released when the reply was
// sent, also if the client leaves before.
func TestLargeOutputs(t *testing.T) {
	s := serve(t)
	freed := make(chan string, 16)
	sizes := []int{100, 64 << 10, 5, 3 << 20}
	s.engine.models["multi"].run = func(r *infer.Request, _ *fakeModel) {
		resp := r.NewResponse()
		for i, n := range sizes {
			name := outputNames[i]
			data := bytes.Repeat([]byte{'a' + byte(i)}, n)
			resp.AddOutput(name, tensor.Uint8, []int64{int64(n)}, data, tensor.NewBuffer(data, func(*tensor.Buffer) {
				clear(data)
				freed <- name
			}))
		}
		resp.Final = true
		_ = r.Respond(resp)
	}
	var want strings.Builder
	for i, n := range sizes {
		want.WriteString(strings.Repeat(string(rune('a'+i)), n))
	}
	body := oneInput("[1,16]", "FP32", "["+zeroTo15+"]")
	body = strings.TrimSuffix(body, "}") + `,"parameters":{"binary_data_output":true}}`
	ask := request("POST", "/v2/models/multi/infer", body)
	allFreed := func() {
		t.Helper()
		for range sizes {
			select {
			case <-freed:
			case <-time.After(time.Minute):
				t.Fatal("an output's memory is not released")
			}
		}
	}
	conn := dial(t, s.addr)
	for _, headers := range [][]string{nil, {"Accept-Encoding: br"}} {
		got := send(t, conn, request("POST", "/v2/models/multi/infer", body, headers...))
		head, err := strconv.Atoi(got.jsonLength)
		if err != nil || got.status != "200 OK" || got.body[head:] != want.String() {
			t.Errorf("headers %v: %s, JSON of %q bytes, %d bytes in all; want the outputs' %d behind it", headers,
				got.status, got.jsonLength, len(got.body), want.Len())
		}
		allFreed()
	}
	leaver := dial(t, s.addr)
	if err := leaver.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	io.WriteString(leaver, ask)
	var some [1000]byte
	if _, err := io.ReadFull(leaver, some[:]); err != nil {
		t.Fatal(err)
	}
	leaver.Close()
	allFreed()
	alive(t, s)
}
