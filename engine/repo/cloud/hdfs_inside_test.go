package cloud

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"nereid/engine/repo"
)

func TestAListOfHDFSHasAnEnd(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"FileStatuses":{"FileStatus":[{"pathSuffix":"d","type":"DIRECTORY"}]}}`)
	}))
	t.Cleanup(s.Close)
	b := &hdfsFolder{client: s.Client(), base: s.URL}
	left := 5
	err := b.walk(t.Context(), "", &left, func(repo.File) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "folders; name a path with fewer") || left != -1 {
		t.Errorf("walk = %v with %d left; want that it ends after 5 folders", err, left)
	}
}

func FuzzHDFSFolder(f *testing.F) {
	f.Add([]byte(`{"FileStatuses":{"FileStatus":[{"pathSuffix":"1","type":"DIRECTORY","fileId":16387},` +
		`{"pathSuffix":"a.onnx","type":"FILE","length":24930,"modificationTime":1320171722771}]}}`))
	f.Add([]byte(`{"FileStatuses":{"FileStatus":[{"pathSuffix":"../x"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := decodeHDFSFolder(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range entries {
			if path.Join("/folder", e.Name) != "/folder/"+e.Name || e.Length < 0 {
				t.Errorf("an entry %q of %d bytes", e.Name, e.Length)
			}
		}
	})
}
