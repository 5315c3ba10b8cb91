package httpapi

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// A reply says where the time went when it is asked to, and only then.
func TestServerTiming(t *testing.T) {
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine = e })
	post := func(path, body, timing string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, "http://"+s.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if timing != "" {
			r.Header.Set("Nereid-Timing", timing)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if resp := post("/v2/repository/models/add_sub/load", "", ""); resp.StatusCode != 200 {
		t.Fatalf("load answers %s", resp.Status)
	}
	want := regexp.MustCompile(`^queue;dur=\d+\.\d{3}, input;dur=\d+\.\d{3}, infer;dur=\d+\.\d{3}, output;dur=\d+\.\d{3}, total;dur=\d+\.\d{3}$`)
	for timing, ok := range map[string]bool{"1": true, "": false, "0": false} {
		resp := post(addSubPath, addSubJSON, timing)
		if got := resp.Header.Get("Server-Timing"); resp.StatusCode != 200 || want.MatchString(got) != ok || !ok && got != "" {
			t.Errorf("Nereid-Timing %q: status %s, Server-Timing %q; want it %v", timing, resp.Status, got, ok)
		}
	}
}
