package console_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/engine"
)

// packed asks for a path, and returns the reply with its body as sent, which takes gzip if accept says so.
func packed(t *testing.T, r *rig, path, accept string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", accept) // set here, so that the client does not unpack
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestPageAndRepliesAreCompressed(t *testing.T) {
	script := strings.Repeat("console.log('nereid');\n", 1000)
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
		o.Page = fstest.MapFS{"index.html": {Data: []byte("<p>page")}, "assets/a-1.js": {Data: []byte(script)},
			"icon.png": {Data: []byte("picture")}}
	})
	for _, tt := range []struct {
		path, accept, kind string
		gzip               bool
	}{
		{"/assets/a-1.js", "gzip, deflate, br, zstd", "text/javascript; charset=utf-8", true},
		{"/assets/a-1.js", "gzip", "text/javascript; charset=utf-8", true}, // from memory
		{"/assets/a-1.js", "gzip;q=0, br", "text/javascript; charset=utf-8", false},
		{"/assets/a-1.js", "", "text/javascript; charset=utf-8", false},
		{"/icon.png", "gzip", "image/png", false},        // too small to be worth it
		{"/", "gzip", "text/html; charset=utf-8", false}, // likewise
		{"/api/config/fields", "gzip", "application/json", true},
		{"/api/config/fields", "identity", "application/json", false},
	} {
		resp, body := packed(t, r, tt.path, tt.accept)
		h := resp.Header
		if got := h.Get("Content-Encoding") == "gzip"; resp.StatusCode != 200 || got != tt.gzip ||
			h.Get("Content-Type") != tt.kind || !strings.Contains(h.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%s with %q = %d %v; want gzip: %v", tt.path, tt.accept, resp.StatusCode, h, tt.gzip)
			continue
		}
		if tt.gzip {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			sent := len(body)
			if body, err = io.ReadAll(z); err != nil || sent*2 > len(body) {
				t.Errorf("%s: %d bytes instead of %d, %v", tt.path, sent, len(body), err)
			}
		}
		if strings.HasSuffix(tt.path, ".js") && string(body) != script {
			t.Errorf("%s with %q has other content", tt.path, tt.accept)
		}
	}
	if resp, _ := packed(t, r, "/assets/none.js", "gzip"); resp.StatusCode != 404 {
		t.Errorf("a file that is not there = %d, want 404", resp.StatusCode)
	}
}

// counted counts the bytes that are read from a stream.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestStreamOf200IdleModelsIsSmall(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	for i := range 199 {
		name := fmt.Sprintf("idle_%03d", i)
		r.Write(name+"/1/model.onnx", "good")
		if l := get[api.LoadResult](r, 200, "POST", "/api/models/"+name+"/load", nil); !l.OK {
			t.Fatalf("load of %s = %+v", name, l)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.URL+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wire := &counted{Reader: resp.Body}
	plain, err := gzip.NewReader(wire)
	if err != nil {
		t.Fatal(err)
	}
	e := &events{t, bufio.NewScanner(plain)}
	e.lines.Buffer(nil, 4<<20)
	if m := next[api.ModelsEvent](e, "models"); len(m.Models) != 200 {
		t.Fatalf("the stream begins with %d models", len(m.Models))
	}
	first := next[api.SamplesEvent](e, "samples")
	before, last := wire.n, first
	for last.TMs < first.TMs+3000 {
		last = next[api.SamplesEvent](e, "samples")
	}
	if per := int64(wire.n-before) * 1000 / (last.TMs - first.TMs); per > 1000 {
		t.Errorf("the stream of 200 idle models has %d bytes a second, want at most 1000", per)
	} else {
		t.Logf("%d bytes a second, after %d bytes", per, before)
	}
}
