// Package platform is the smallest platform of a catalog: it publishes the models of one folder to all nodes. It lets
// one node download each file, and sends the others to that node.
package platform

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options of a Platform.
type Options struct {
	Models string        // a folder of model folders
	Token  string        // of the nodes; "": everybody may ask
	Cut    int64         // the first answer with a file ends after so many bytes; 0: it does not
	Alive  time.Duration // how long a node counts after a report; 0: 30 s
}

// Platform is a handler for the API in openapi.yaml. In addition, GET /v1/nodes returns all reports, and GET /v1/files
// how many bytes of each file were sent.
type Platform struct {
	Options
	mux *http.ServeMux

	mu      sync.Mutex // guards the rest
	nodes   map[string]*node
	seeds   map[string]string // the node that downloads a file, by the file's digest
	sent    map[string]int64  // bytes, by digest
	digests map[string]digest // by path
	changed chan struct{}     // is closed when a node has reported
}

type node struct {
	seen   time.Time
	peer   string
	files  []string
	report json.RawMessage
}

// digest is that of a file which had this size and time.
type digest struct {
	sum  string
	size int64
	mod  time.Time
}

type model struct {
	Name  string `json:"name"`
	Files []file `json:"files"`
}

type file struct {
	Path   string   `json:"path"`
	Size   int64    `json:"size"`
	SHA256 string   `json:"sha256"`
	URLs   []string `json:"urls,omitempty"`
	Peers  []string `json:"peers,omitempty"`
	at     string   // on this machine
}

// New makes a Platform.
func New(o Options) *Platform {
	if o.Alive == 0 {
		o.Alive = 30 * time.Second
	}
	p := &Platform{Options: o, mux: http.NewServeMux(), nodes: map[string]*node{}, seeds: map[string]string{},
		sent: map[string]int64{}, digests: map[string]digest{}, changed: make(chan struct{})}
	p.mux.HandleFunc("PUT /v1/nodes/{node}", p.report)
	p.mux.HandleFunc("GET /v1/nodes/{node}/desired", p.desired)
	p.mux.HandleFunc("GET /v1/files/{sha256}", p.file)
	p.mux.HandleFunc("GET /v1/nodes", p.listNodes)
	p.mux.HandleFunc("GET /v1/files", p.listFiles)
	return p
}

func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given := []byte(r.Header.Get("Authorization"))
	if p.Token != "" && subtle.ConstantTimeCompare(given, []byte("Bearer "+p.Token)) != 1 {
		http.Error(w, "this needs the token of the catalog", http.StatusUnauthorized)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// report takes the report of a node.
func (p *Platform) report(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	var known struct {
		Peer  string   `json:"peer"`
		Files []string `json:"files"`
	}
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[r.PathValue("node")] = &node{seen: time.Now(), peer: known.Peer, files: known.Files, report: b}
	close(p.changed)
	p.changed = make(chan struct{})
	w.WriteHeader(http.StatusNoContent)
}

// desired answers with the desired state of a node when it is another one than the node has, or after the time that
// the node allows.
func (p *Platform) desired(w http.ResponseWriter, r *http.Request) {
	wait := 0
	if after, ok := strings.CutPrefix(r.Header.Get("Prefer"), "wait="); ok {
		wait, _ = strconv.Atoi(after) // 0 if it is no number
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(min(wait, 60))*time.Second)
	defer cancel()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		body, changed, err := p.wanted(r.PathValue("node"), "http://"+r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		sum := sha256.Sum256(body)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		w.Header().Set("ETag", tag)
		if tag != r.Header.Get("If-None-Match") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body) // the node may have left
			return
		}
		select {
		case <-ctx.Done():
			w.WriteHeader(http.StatusNotModified)
			return
		case <-changed:
		case <-look.C:
		}
	}
}

// wanted is the desired state of a node, and a channel that is closed when that may have changed.
func (p *Platform) wanted(name, own string) (body []byte, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	models, err := p.scan()
	if err != nil {
		return nil, nil, err
	}
	for _, m := range models {
		for i := range m.Files {
			p.addSources(&m.Files[i], name, own)
		}
	}
	body, err = json.MarshalIndent(map[string]any{"models": models}, "", "  ")
	return body, p.changed, err
}

// addSources says where a node gets a file: from the nodes that have it, and else from here; but if another node
// downloads it and will serve it, nowhere yet. mu is held.
func (p *Platform) addSources(f *file, name, own string) {
	alive := func(n *node) bool { return n != nil && time.Since(n.seen) < p.Alive }
	for other, n := range p.nodes {
		if other != name && alive(n) && n.peer != "" && slices.Contains(n.files, f.SHA256) {
			f.Peers = append(f.Peers, n.peer)
		}
	}
	slices.Sort(f.Peers)
	if len(f.Peers) == 0 {
		if seed := p.nodes[p.seeds[f.SHA256]]; !alive(seed) || seed.peer == "" {
			p.seeds[f.SHA256] = name
		}
		if p.seeds[f.SHA256] != name {
			return
		}
	}
	f.URLs = []string{own + "/v1/files/" + f.SHA256}
}

// scan reads the folder of models. mu is held.
func (p *Platform) scan() ([]model, error) {
	entries, err := os.ReadDir(p.Models)
	if err != nil {
		return nil, err
	}
	models := []model{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() {
			continue
		}
		m := model{Name: e.Name()}
		root := filepath.Join(p.Models, e.Name())
		err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
				return err
			}
			known, err := p.digest(at)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, at)
			m.Files = append(m.Files, file{Path: filepath.ToSlash(rel), Size: known.size, SHA256: known.sum, at: at})
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(m.Files) > 0 {
			models = append(models, m)
		}
	}
	return models, nil
}

func (p *Platform) digest(at string) (digest, error) {
	info, err := os.Stat(at)
	if err != nil {
		return digest{}, err
	}
	if d := p.digests[at]; d.size == info.Size() && d.mod.Equal(info.ModTime()) {
		return d, nil
	}
	f, err := os.Open(at)
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	d := digest{hex.EncodeToString(h.Sum(nil)), n, info.ModTime()}
	p.digests[at] = d
	return d, err
}

// file sends a file, also in ranges.
func (p *Platform) file(w http.ResponseWriter, r *http.Request) {
	sum := r.PathValue("sha256")
	p.mu.Lock()
	models, err := p.scan()
	_, again := p.sent[sum]
	p.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, m := range models {
		for _, f := range m.Files {
			if f.SHA256 == sum {
				c := &counter{ResponseWriter: w, p: p, sum: sum, left: 1 << 62}
				if p.Cut > 0 && !again {
					c.left = p.Cut
				}
				p.send(c, r, f.at)
				return
			}
		}
	}
	http.NotFound(w, r)
}

func (p *Platform) send(w http.ResponseWriter, r *http.Request, at string) {
	f, err := os.Open(at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// counter counts the bytes of a file, and cuts the answer.
type counter struct {
	http.ResponseWriter
	p    *Platform
	sum  string
	left int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	c.p.mu.Lock()
	c.p.sent[c.sum] += int64(n)
	c.p.mu.Unlock()
	if err == nil && n < len(b) {
		err = errors.New("the answer is cut")
	}
	return n, err
}

func (p *Platform) listNodes(w http.ResponseWriter, _ *http.Request) {
	all := map[string]json.RawMessage{}
	p.mu.Lock()
	for name, n := range p.nodes {
		all[name] = n.report
	}
	p.mu.Unlock()
	writeJSON(w, all)
}

func (p *Platform) listFiles(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	writeJSON(w, p.sent)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have left
}
