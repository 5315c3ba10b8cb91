package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

const savedBody = `{"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}`

func TestSavedRequestsAreListedReadAndWritten(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	none := get[api.SavedRequests](r, 200, "GET", "/api/models/ready/requests", nil)
	if len(none.Items) != 0 || none.WhyNot != "" {
		t.Errorf("without saved requests: %+v", none)
	}
	r.Write("ready/requests/by_hand.json", savedBody)
	r.Write("ready/requests/picture.png", "")
	l := get[api.SavedRequests](r, 200, "PUT", "/api/models/ready/requests/"+url.PathEscape("über 9"),
		api.SaveRequest{Text: savedBody})
	if len(l.Items) != 2 || l.Items[0].Name != "by_hand" || l.Items[1].Name != "über 9" {
		t.Fatalf("saved requests = %+v", l)
	}
	if s := get[api.SavedRequest](r, 200, "GET", "/api/models/ready/requests/by_hand", nil); s.Text != savedBody {
		t.Errorf("by_hand = %+v", s)
	}
	if code, _ := r.Call("PUT", "/api/models/ready/requests/by_hand", api.SaveRequest{Text: savedBody}); code != 409 {
		t.Errorf("a name that is taken = %d, want 409", code)
	}
	other := strings.Replace(savedBody, "1,2", "7,8", 1)
	get[api.SavedRequests](r, 200, "PUT", "/api/models/ready/requests/by_hand",
		api.SaveRequest{Text: other, Replace: true})
	if b, err := os.ReadFile(filepath.Join(r.Repo, "ready/requests/by_hand.json")); string(b) != other {
		t.Errorf("by_hand.json = %s, %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Join(r.Repo, "ready/requests")); len(list) != 3 {
		t.Errorf("the folder has %v, %v; want three files", list, err)
	}
}

func TestSavedRequestsThatAreRefused(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	out := t.TempDir()
	r.Write("linked/1/model.onnx", "good")
	if err := os.Symlink(out, filepath.Join(r.Repo, "linked/requests")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "secret.json"), []byte(savedBody), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Write("big/1/model.onnx", "good")
	r.Write("big/requests/big.json", strings.Repeat(" ", 4<<20+1))
	for _, tt := range []struct {
		name, path, text string
		want             int
	}{
		{"a folder above", "ready/requests/" + url.PathEscape("../config"), savedBody, 400},
		{"a hidden file", "ready/requests/.hidden", savedBody, 400},
		{"a long name", "ready/requests/" + strings.Repeat("x", 101), savedBody, 400},
		{"no JSON", "ready/requests/a", "inputs", 400},
		{"no inputs", "ready/requests/a", `{"inputs":[]}`, 400},
		{"too large", "ready/requests/a", savedBody + strings.Repeat(" ", 4<<20), 413},
		{"no such model", "gone/requests/a", savedBody, 404},
		{"no such request", "ready/requests/gone", "", 404},
		{"a name above, to read", "ready/requests/" + url.PathEscape("../../ready/1/x"), "", 400},
		{"a file that is too large", "big/requests/big", "", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, body := "GET", any(nil)
			if tt.text != "" {
				method, body = "PUT", api.SaveRequest{Text: tt.text}
			}
			if code, reply := r.Call(method, "/api/models/"+tt.path, body); code != tt.want {
				t.Errorf("%s = %d %s, want %d", method, code, reply, tt.want)
			}
		})
	}
	for _, method := range []string{"GET", "PUT"} {
		code, reply := r.Call(method, "/api/models/linked/requests/secret",
			api.SaveRequest{Text: savedBody, Replace: true})
		if code == http.StatusOK {
			t.Errorf("%s follows a link out of the model's folder: %s", method, reply)
		}
	}
	if list, err := os.ReadDir(out); len(list) != 1 {
		t.Errorf("a link out of the model's folder was followed: %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(r.Repo, "ready/requests")); !os.IsNotExist(err) {
		t.Errorf("refused requests have made a folder: %v", err)
	}
}
