package worker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func suspectRequest(t *testing.T, data string) *infer.Request {
	t.Helper()
	r := infer.New()
	r.ModelName = "m"
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "x", DataType: tensor.Uint8, Shape: []int64{int64(len(data))},
		Data: []byte(data)})
	t.Cleanup(r.Release)
	return r
}

// crash executes requests in one batch, at the end of which the process crashes.
func crash(s *Suspects, requests ...*infer.Request) {
	b := infer.NewBatch()
	b.Requests = append(b.Requests, requests...)
	b.Begin()
	s.crashed(requests)
}

func refuses(s *Suspects, r *infer.Request) bool { return len(s.refuse([]*infer.Request{r})) == 0 }

func newTestSuspects(folder string) *Suspects {
	l := &Launcher{saver: saver{folder: folder}}
	return l.NewSuspects("m", slog.New(slog.DiscardHandler))
}

func TestInputsOfTwoCrashesAreRefused_D18(t *testing.T) {
	s := newTestSuspects("")
	if s.any() {
		t.Error("there are suspects at the start")
	}
	crash(s, suspectRequest(t, "bad"))
	if !s.any() || refuses(s, suspectRequest(t, "bad")) {
		t.Error("one crash is enough, or not noted")
	}
	crash(s, suspectRequest(t, "bad"))
	for data, refused := range map[string]bool{"bad": true, "odd": false, "good": false} {
		if refuses(s, suspectRequest(t, data)) != refused {
			t.Errorf("%q is refused: %t, want %t", data, !refused, refused)
		}
	}
	other := suspectRequest(t, "bad")
	other.Inputs[0].Name = "y"
	if refuses(s, other) {
		t.Error("an input of another name is refused")
	}
	r := suspectRequest(t, "bad")
	s.refuse([]*infer.Request{r})
	if resp := r.Poll(); resp == nil || status.CodeOf(resp.Err) != status.InvalidArg {
		t.Errorf("the answer is %+v, want InvalidArg", resp)
	} else {
		resp.Release()
	}
}

// A request that shared a batch with another one that crashes is served alone later, and is no suspect from then on.
func TestInputThatIsExecutedIsNoSuspect_D18(t *testing.T) {
	s := newTestSuspects("")
	crash(s, suspectRequest(t, "good"), suspectRequest(t, "bad"))
	done := suspectRequest(t, "good")
	done.Fail(errors.New("the model's own error"))
	s.survived([]*infer.Request{done}, nil)
	crash(s, suspectRequest(t, "good"), suspectRequest(t, "bad"))
	if refuses(s, suspectRequest(t, "good")) || !refuses(s, suspectRequest(t, "bad")) {
		t.Error("the wrong one is refused")
	}
}

// One cause that ends several processes at once is one crash.
func TestCrashesAtTheSameTimeCountOnce_D18(t *testing.T) {
	s := newTestSuspects("")
	var all []*infer.Request
	for range 3 {
		r := suspectRequest(t, "good")
		b := infer.NewBatch()
		b.Requests = append(b.Requests, r)
		b.Begin()
		all = append(all, r)
	}
	for _, r := range all {
		s.crashed([]*infer.Request{r})
	}
	if refuses(s, suspectRequest(t, "good")) {
		t.Error("it is refused")
	}
}

func TestSuspectsAreBounded_D18(t *testing.T) {
	s := newTestSuspects("")
	for i := range 2 * maxSuspects {
		crash(s, suspectRequest(t, fmt.Sprint(i)))
	}
	if len(s.all) > maxSuspects {
		t.Errorf("%d inputs are remembered", len(s.all))
	}
}

func TestSavedInputsAreBounded_D18(t *testing.T) {
	folder := t.TempDir()
	s := newTestSuspects(folder)
	for i := range maxSavedFiles + 5 {
		crash(s, suspectRequest(t, fmt.Sprint("bad ", i)))
		crash(s, suspectRequest(t, fmt.Sprint("bad ", i)))
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != maxSavedFiles {
		t.Fatalf("%d files, want %d: %v", len(files), maxSavedFiles, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		info, serr := os.Stat(f)
		if err != nil || serr != nil || info.Mode().Perm() != 0o600 || !bytes.Contains(b, []byte("}bad ")) {
			t.Fatalf("%s: %v %v %q", f, err, serr, b)
		}
	}
	if err := s.saver.checkRoom(maxSavedBytes); err == nil {
		t.Error("a full folder takes more bytes")
	}
}
