package cloud_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"nereid/engine/repo/cloud"
)

// hadoop is a file system behind WebHDFS. As in Hadoop, the name node redirects OPEN to a data node.
// build/conformance/test_fleet_hadoop.py runs TestStorages with a real one.
type hadoop struct {
	name, data *httptest.Server
	user       string // the only one that it serves; "": everybody

	mu      sync.Mutex
	last    int64 // guarded by mu, as are files and folders
	files   map[string]hadoopFile
	folders map[string]bool // they stay when their last file is removed
}

type hadoopFile struct {
	id   int64
	data []byte
}

const webhdfs = "/webhdfs/v1/"

func newHadoop(t *testing.T) *hadoop {
	h := &hadoop{files: map[string]hadoopFile{}, folders: map[string]bool{}}
	h.name = httptest.NewServer(http.HandlerFunc(h.serveName))
	h.data = httptest.NewServer(http.HandlerFunc(h.serveData))
	t.Cleanup(h.name.Close)
	t.Cleanup(h.data.Close)
	return h
}

func (h *hadoop) put(key string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.files[key] = hadoopFile{h.last, data}
	for at := path.Dir(key); at != "."; at = path.Dir(at) {
		h.folders[at] = true
	}
}

func (h *hadoop) remove(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.files, key)
}

func exception(w http.ResponseWriter, code int, name, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"RemoteException":{"exception":%q,"message":%q}}`, name, message)
}

type object = map[string]any

func (f hadoopFile) status(suffix string) object {
	return object{"pathSuffix": suffix, "type": "FILE", "length": len(f.data), "fileId": f.id,
		"modificationTime": f.id}
}

func (h *hadoop) serveName(w http.ResponseWriter, r *http.Request) {
	at, q := strings.TrimPrefix(r.URL.Path, webhdfs), r.URL.Query()
	if h.user != "" && q.Get("user.name") != h.user {
		exception(w, http.StatusForbidden, "AccessControlException", "Permission denied: user="+q.Get("user.name"))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	file, isFile := h.files[at]
	switch op := q.Get("op"); {
	case op == "OPEN" && isFile:
		http.Redirect(w, r, h.data.URL+(&url.URL{Path: r.URL.Path}).EscapedPath()+"?"+q.Encode(),
			http.StatusTemporaryRedirect)
		return
	case op == "GETFILESTATUS" && isFile:
		_ = json.NewEncoder(w).Encode(object{"FileStatus": file.status("")})
		return
	case op == "LISTSTATUS" && h.folders[at]:
		all := []object{}
		for name, f := range h.files {
			if path.Dir(name) == at {
				all = append(all, f.status(path.Base(name)))
			}
		}
		for name := range h.folders {
			if path.Dir(name) == at {
				all = append(all, object{"pathSuffix": path.Base(name), "type": "DIRECTORY", "length": 0})
			}
		}
		_ = json.NewEncoder(w).Encode(object{"FileStatuses": object{"FileStatus": all}})
		return
	}
	exception(w, http.StatusNotFound, "FileNotFoundException", "File /"+at+" does not exist.")
}

func (h *hadoop) serveData(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	data := h.files[strings.TrimPrefix(r.URL.Path, webhdfs)].data
	h.mu.Unlock()
	from, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil || from > len(data) {
		exception(w, http.StatusForbidden, "IOException", "Offset out of the range")
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
	_, _ = w.Write(data[from:])
}

func (h *hadoop) address() string { return "hdfs://" + strings.TrimPrefix(h.name.URL, "http://") }

func startHDFS(t *testing.T) *storage {
	s := &storage{
		env: map[string]string{"HADOOP_USER_NAME": "nereid"}, wrong: map[string]string{"HADOOP_USER_NAME": "other"},
		advice: "HADOOP_USER_NAME", folders: true, noDigests: true,
	}
	if real := os.Getenv("NEREID_TEST_HADOOP"); real != "" {
		startRealHDFS(t, s, real)
		return s
	}
	h := newHadoop(t)
	h.user = "nereid"
	h.put("models/README", nil)
	s.root = h.address() + "/models"
	s.put = func(_ *testing.T, key string, data []byte) { h.put("models/"+key, data) }
	s.remove = func(_ *testing.T, key string) { h.remove("models/" + key) }
	return s
}

// startRealHDFS makes an empty folder in a real Hadoop, whose superuser has the name of the user of this process.
func startRealHDFS(t *testing.T, s *storage, address string) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	call := func(t *testing.T, method, key, as string, q url.Values, data []byte) {
		q.Set("user.name", as)
		send(t, method, "http://"+address+webhdfs+(&url.URL{Path: key}).EscapedPath()+"?"+q.Encode(), nil, data)
	}
	s.root = "hdfs://" + address + "/models"
	call(t, http.MethodPut, "models", me.Username, url.Values{"op": {"MKDIRS"}, "permission": {"700"}}, nil)
	call(t, http.MethodPut, "models", me.Username, url.Values{"op": {"SETOWNER"}, "owner": {"nereid"}}, nil)
	s.put = func(t *testing.T, key string, data []byte) {
		q := url.Values{"op": {"CREATE"}, "overwrite": {"true"}}
		call(t, http.MethodPut, "models/"+key, "nereid", q, data)
	}
	s.remove = func(t *testing.T, key string) {
		call(t, http.MethodDelete, "models/"+key, "nereid", url.Values{"op": {"DELETE"}}, nil)
	}
}

// A file that is written again while it is copied is not taken for the listed one, wherever the copy is.
func TestAFileOfHDFSThatChangesIsNotServed_A022(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(op string, data bool) bool
	}{
		{"before it is opened", func(op string, _ bool) bool { return op == "GETFILESTATUS" }},
		{"before the data node is asked", func(op string, data bool) bool { return op == "OPEN" && !data }},
		{"while the data node sends", func(op string, data bool) bool { return op == "OPEN" && data }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHadoop(t)
			h.put("models/m/1/model.bin", []byte("old"))
			var once sync.Once
			o := cloud.Options{Cache: t.TempDir(), Lookup: lookup(nil), Log: slog.New(slog.DiscardHandler),
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if tt.when(r.URL.Query().Get("op"), "http://"+r.URL.Host == h.data.URL) {
						once.Do(func() { h.put("models/m/1/model.bin", []byte("new")) })
					}
					return http.DefaultTransport.RoundTrip(r)
				})}
			r, err := cloud.Open(t.Context(), h.address()+"/models", o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Close)
			err = scan(t, r)["m"].FetchVersion(t.Context(), 1, nil)
			if err == nil || !strings.Contains(err.Error(), "was changed or removed during the download") {
				t.Fatalf("FetchVersion = %v", err)
			}
			if got := fetch(t, scan(t, r)["m"])["1/model.bin"]; got != "new" {
				t.Errorf("after another listing: %q", got)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answers that no file system gives are errors with what to do.
func TestWebHDFSErrors_A022(t *testing.T) {
	list := func(entries string) string { return `{"FileStatuses":{"FileStatus":[` + entries + `]}}` }
	for _, tt := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"a name that leads out", list(`{"pathSuffix":"..","type":"DIRECTORY"}`), 200, `the name ".."`},
		{"a name that is a path", list(`{"pathSuffix":"a/b","type":"FILE"}`), 200, `the name "a/b"`},
		{"a file", list(`{"pathSuffix":"","type":"FILE","length":3}`), 200, "name a folder, not a file"},
		{"folders without end", list(`{"pathSuffix":"d","type":"DIRECTORY"}`), 200,
			"more than 128 folders are in each"},
		{"a negative size", list(`{"pathSuffix":"a","type":"FILE","length":-1}`), 200, "has the size -1"},
		{"another service", `{}`, 200, "9870"},
		{"half an answer", `{"FileStatuses":{`, 200, "cannot be read"},
		{"a port for RPC", "It looks like you are making an HTTP request to a Hadoop IPC port.", 404,
			"Hadoop IPC port"},
		{"standby", `{"RemoteException":{"exception":"StandbyException","message":"Operation"}}`, 403, "on standby"},
		{"Kerberos", "Authentication required", 401, "Kerberos is not supported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				fmt.Fprint(w, tt.body)
			}))
			t.Cleanup(s.Close)
			o := cloud.Options{Cache: t.TempDir(), Lookup: lookup(nil), Log: slog.New(slog.DiscardHandler)}
			r, err := cloud.Open(t.Context(), "hdfs://"+strings.TrimPrefix(s.URL, "http://")+"/models", o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Close)
			if files, err := r.List(""); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("List = %v, %v; want %q", files, err, tt.want)
			}
		})
	}
}

func TestAListOfHDFSIsNotRedirected(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the server was asked to which the name node redirects")
	}))
	t.Cleanup(inside.Close)
	s := httptest.NewServer(http.RedirectHandler(inside.URL+"/secret", http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	o := cloud.Options{Cache: t.TempDir(), Lookup: lookup(nil), Log: slog.New(slog.DiscardHandler)}
	r, err := cloud.Open(t.Context(), "hdfs://"+strings.TrimPrefix(s.URL, "http://")+"/models", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if files, err := r.List(""); err == nil || !strings.Contains(err.Error(), "not followed") {
		t.Errorf("List = %v, %v; want that the redirect is not followed", files, err)
	}
}
