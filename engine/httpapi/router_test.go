package httpapi

import (
	"bytes"
	"strings"
	"testing"

	"nereid/engine/infer"
)

// A path with a route has the form of the route's pattern, and the parameters are parts of it.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{"/v2", "/v2/models/m/versions/1/infer", "/v2/repository/r/models/m/load",
		"/v2/systemsharedmemory/region/x/status",
		"/v2/models//infer", "/v2/models/%2e%2e/ready", "//v2"} {
		f.Add([]byte(s))
	}
	router := newRouter(&Options{})
	f.Fuzz(func(t *testing.T, path []byte) {
		m := router.lookup(path, []byte("POST"))
		if m.route == router.fallback {
			return
		}
		for _, part := range [][]byte{m.model, m.version, m.name} {
			if bytes.ContainsRune(part, '/') || !bytes.Contains(path, part) {
				t.Fatalf("lookup(%q) has the part %q", path, part)
			}
		}
		if strings.HasSuffix(string(path), "/") || strings.Contains(string(path), "//") {
			t.Fatalf("lookup(%q) = %v, want none", path, m.pattern)
		}
		if name, err := unescape(m.model); err == nil && strings.Contains(name, "%") &&
			!bytes.Contains(bytes.ToLower(path), []byte("%25")) {
			t.Fatalf("unescape(%q) = %q", m.model, name)
		}
	})
}

// Any header length is answered, and the body is never read out of its bounds.
func FuzzHeaderLength(f *testing.F) {
	for _, v := range []string{"0", "-5", "10", "100000", "abc", "", "+3", "9223372036854775808", " 7"} {
		f.Add(v, []byte(addSubJSON))
	}
	e := newFake()
	s, err := New(Options{Engine: e})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		c := newConn(s.conns, nil)
		x := &exchange{conn: c}
		c.x = x
		x.reset()
		x.headerLength, x.hasHeaderLength = []byte(value), true
		x.body, x.length = bytes.NewReader(body), int64(len(body))
		if err := s.infer(x, "add_sub", infer.LatestVersion); err != nil {
			x.failWith(typeText, err)
		}
		if x.status == 0 || x.reply == nil {
			t.Fatalf("header length %q with %d bytes: no reply", value, len(body))
		}
		if x.status == 200 && x.reply.Bytes()[0] != '{' || x.status >= 500 {
			t.Fatalf("header length %q answers %d %q", value, x.status, x.reply.Bytes())
		}
		c.reply = x.reply
		c.finished()
	})
}
