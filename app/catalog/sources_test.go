package catalog_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"nereid/app/catalog"
	"nereid/docs/examples/catalog/platform"
)

// of is a model with one file.
func of(content, from string) catalog.Desired {
	sum := sha256.Sum256([]byte(content))
	return catalog.Desired{Models: []catalog.Model{{Name: "m", Config: identity, Files: []catalog.File{{Path: "1/data",
		Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), URLs: []string{from}}}}}}
}

// A pull that ends with the server goes on when the server is started again. Other hosts do not get the token.
func TestAPullGoesOnAfterARestart_A023_B29_H18(t *testing.T) {
	r := newRig(t, platform.Options{})
	content := []byte(strings.Repeat(weights, 1<<12))
	half := len(content) / 2
	var again atomic.Bool
	ranges := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if given := req.Header.Get("Authorization"); given != "" {
			t.Errorf("another host gets %q", given)
		}
		if again.Load() {
			ranges <- req.Header.Get("Range")
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
			return
		}
		w.Header().Set("Content-Length", "65536")
		_, _ = w.Write(content[:half])
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}))
	t.Cleanup(s.Close)
	r.setPlatform(fixed(t, of(string(content), s.URL+"/x"), ""))
	dir := t.TempDir()
	a := r.start("a", dir, nil)
	r.wait("a", "half of the file", func(r catalog.Report) bool {
		return len(r.Models) == 1 && r.Models[0].State == "PULLING" && r.Models[0].Have == int64(half)
	})
	a.stop()
	again.Store(true)
	r.start("a", dir, nil)
	r.wait("a", "version 1", versions("m", 1))
	if got := <-ranges; got != "bytes=32768-" {
		t.Errorf("the rest was asked for with %q", got)
	}
}

func TestA023FilesInBucketsArePulled(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s.Close)
	if _, err := backend.PutObject("models", "blobs/one", nil, strings.NewReader(weights), int64(len(weights)),
		nil); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	r := newRig(t, platform.Options{})
	r.setPlatform(fixed(t, of(weights, "s3://"+strings.TrimPrefix(s.URL, "http://")+"/models/blobs/one"), ""))
	r.start("a", t.TempDir(), nil)
	r.wait("a", "version 1", versions("m", 1))
}
