package capture

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWholeCapturedRequestsBecomeSavedOnes(t *testing.T) {
	r := newRecorder(t)
	set(t, r, Settings{Until: time.Now().Add(time.Hour)})
	offer(r, 1, nil)
	offer(r, 2, errors.New("it failed"))
	offer(r, 3, nil)
	offer(r, 4, nil)
	set(t, r, Settings{Until: time.Now().Add(time.Hour), LeaveOut: []string{"X"}})
	offer(r, 5, nil)
	for len(r.queue) > 0 {
		s := <-r.queue
		s.capture = (*r.active.Load())["m"] // as if the settings had not changed
		r.write(s)
	}
	if err := os.WriteFile(filepath.Join(r.folders.pathOf("m"), "6.json"), []byte(`{"id":6,`), 0o600); err != nil {
		t.Fatal(err) // one that is being written
	}
	to := t.TempDir()
	if n, err := WriteSaved(r.o.Folder, "m", to, 2); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for file, want := range map[string]bool{"1": false, "2": false, "3": true, "4": true, "5": false, "6": false} {
		text, err := os.ReadFile(filepath.Join(to, file+".json"))
		if (err == nil) != want {
			t.Errorf("request %s: %v, want it: %v", file, err, want)
		}
		var got struct{ Inputs []savedTensor }
		if want && (json.Unmarshal(text, &got) != nil || len(got.Inputs) != 1 || got.Inputs[0].DataType != "INT64" ||
			got.Inputs[0].B64 != base64.StdEncoding.EncodeToString(make([]byte, 8))) {
			t.Errorf("request %s is %s", file, text)
		}
	}
	if n, err := WriteSaved(r.o.Folder, "other", t.TempDir(), 2); n != 0 || err != nil {
		t.Errorf("a model that was never captured: %d, %v", n, err)
	}
}
