package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Two servers with the same model share its cached responses. A server with other files of the model does not.
func TestRedisCache(t *testing.T) {
	redis := miniredis.RunT(t)
	repository := func(version string) string {
		return writeFiles(t, t.TempDir(), map[string]string{
			"m/config.pbtxt": identityText + ` response_cache { enable: true }`, "m/1/files": version,
		})
	}
	start := func(version string) *rig {
		return runServer(t, "", "--model-repository="+repository(version), "--load-model=m",
			"--cache-config=redis,host="+redis.Host(), "--cache-config=redis,port="+redis.Port())
	}
	hits := func(r *rig, n int) string {
		t.Helper()
		const body = `{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[5]}]}`
		for range n {
			if code, text := ask(t, http.DefaultClient, http.MethodPost, "http://"+r.at("http")+"/v2/models/m/infer",
				body); code != 200 || !strings.Contains(text, `"data":[5.0]`) && !strings.Contains(text, `"data":[5]`) {
				t.Fatalf("%d %s", code, text)
			}
		}
		_, text := get(t, http.MethodGet, "http://"+r.at("metrics")+"/metrics")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "nv_cache_num_hits ") {
				return strings.TrimSpace(strings.TrimPrefix(line, "nv_cache_num_hits "))
			}
		}
		t.Fatalf("no count of hits in\n%s", text)
		return ""
	}
	first := start("one")
	if got := hits(first, 1); got != "0" {
		t.Fatalf("%s hits of an empty cache", got)
	}
	for end := time.Now().Add(time.Minute); len(redis.Keys()) == 0; { // it is stored after the response
		if time.Now().After(end) {
			t.Fatal("nothing was stored")
		}
		get(t, http.MethodGet, "http://"+first.at("http")+"/v2/health/live")
	}
	t.Run("C080 a server with the same files has the answers of another", func(t *testing.T) {
		if got := hits(start("one"), 2); got != "2" {
			t.Errorf("%s hits, want 2", got)
		}
	})
	t.Run("C080 a server with other files does not", func(t *testing.T) {
		if got := hits(start("two"), 1); got != "0" {
			t.Errorf("%s hits, want 0", got)
		}
	})
}
