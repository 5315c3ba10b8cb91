package cloud

import (
	"bytes"
	"path"
	"testing"
)

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
