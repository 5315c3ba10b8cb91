package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/app/console/models"
	"nereid/app/download"
	"nereid/engine/clock"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
	"nereid/engine/repo/cloud"
	"nereid/engine/stats"
)

// Engine is what a node needs of the engine.
type Engine interface {
	Model(name string) (lifecycle.ModelStatus, bool)
	Reload(ctx context.Context, name string) error
	Remove(name string)
	Snapshots(dst []stats.Snapshot) []stats.Snapshot
}

// Options of a Node. Fields without a comment are needed.
type Options struct {
	URL       *url.URL
	Name      string // of the node; "": one is made and kept
	TokenFile string // "": the platform is asked without a token, and peers get nothing
	Interval  time.Duration
	AllowCode bool // takes models that run code when they are loaded

	Folder       string                 // absolute path, which belongs to the node
	Repositories []string               // the other model repositories
	Remotes      map[string]repo.Remote // those of them in a cloud's storage; may be nil
	Namespaces   bool                   // models of several repositories may have one name
	Trash        *models.Trash
	Cloud        cloud.Options // for files in a cloud's storage; the cache is not used
	Version      string        // of the program
	Log          *slog.Logger
}

// Node keeps the models of this machine as the platform wants them. Its methods are safe for concurrent use.
type Node struct {
	Options
	engine   Engine        // set by Run
	new      chan struct{} // capacity 1: there is a new desired state
	news     chan struct{} // capacity 1: a report is due
	lost     bool          // the platform did not answer; only the goroutine that asks it uses this
	platform platform
	puller   puller
	files    files

	placing sync.Mutex // held while folders of the repository change; before mu

	mu     sync.Mutex // guards the rest
	state  state
	jobs   map[string]job         // what is being brought, by the model's name
	peer   string                 // where other nodes fetch files; "": nowhere
	phases map[string]ModelReport // what is being done to models, without their versions
	failed map[string]failure
	loaded map[string]bool // models that this process has tried to load
}

// job brings a model.
type job struct {
	digest string             // of the model
	cancel context.CancelFunc // ends its pulls
}

// maxPulls is how many models are pulled at one time.
const maxPulls = 4

// failure says when a model is tried again.
type failure struct {
	digest string
	pause  time.Duration
	next   time.Time
}

// Open makes a Node, and undoes what an earlier process has not finished. The engine has loaded no model yet.
func Open(o Options) (*Node, error) {
	n := &Node{Options: o, new: make(chan struct{}, 1), news: make(chan struct{}, 1), jobs: map[string]job{},
		platform: platform{url: o.URL, tokenFile: o.TokenFile, client: download.NewClient()},
		files:    files{dir: filepath.Join(o.Folder, "files")}, phases: map[string]ModelReport{},
		failed: map[string]failure{}, loaded: map[string]bool{}}
	n.puller = puller{&n.files, &n.platform, o.Cloud, make(chan struct{}, maxPulls)}
	if err := n.open(); err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	if n.Name == "" {
		n.Name = n.state.Node
	}
	n.platform.node = n.Name
	return n, nil
}

// SetPeer says at which URL other nodes fetch files of this one: that of Handler.
func (n *Node) SetPeer(at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peer = at
}

// Run keeps the models as the platform wants them until ctx ends. The engine has loaded its models.
func (n *Node) Run(ctx context.Context, e Engine) {
	n.engine = e
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { n.ask(ctx) })
	wg.Go(func() { n.report(ctx) })
	n.signal(n.new) // the state of an earlier process
	tick := time.NewTicker(n.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.new:
		case <-tick.C: // a pause has ended, or somebody has changed the folders
		}
		n.apply(ctx, &wg)
	}
}

func (n *Node) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ask asks the platform for the desired state until ctx ends.
func (n *Node) ask(ctx context.Context) {
	if err := n.tell(ctx, new(rate)); err != nil && ctx.Err() == nil {
		n.Log.Debug("the catalog takes no report", "err", err)
	}
	for ctx.Err() == nil {
		start, pause := time.Now(), n.Interval
		n.mu.Lock()
		tag := n.state.Tag
		n.mu.Unlock()
		d, next, err := n.platform.desired(ctx, tag)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !n.lost:
			n.lost = true
			n.Log.Warn("the catalog does not answer, so the models stay as they are", "catalog", n.shown(), "err", err)
		case err == nil && n.lost:
			n.lost = false
			n.Log.Info("the catalog answers again", "catalog", n.shown())
		}
		if d != nil {
			n.take(*d, next)
		}
		if d != nil && next != "" && next != tag { // more may follow, such as sources of files
			pause = n.Interval / 10
		}
		clock.Sleep(ctx, pause-time.Since(start))
	}
}

// take keeps a desired state, and ends the pulls of models that it has no more, or differently. If only the sources of
// files differ, the pulls under way go on.
func (n *Node) take(d Desired, tag string) {
	if err := n.change(func(s *state) { s.Desired, s.Tag = d, tag }); err != nil { // it is known until the process ends
		n.Log.Warn("the desired state cannot be kept", "err", err)
	}
	digests := map[string]string{}
	for i := range d.Models {
		digests[d.Models[i].Name] = d.Models[i].digestOf()
	}
	n.mu.Lock()
	for name, j := range n.jobs {
		if j.digest != digests[name] {
			j.cancel()
		}
	}
	n.mu.Unlock()
	n.signal(n.new)
}

func (n *Node) shown() string { return download.Plain(n.URL) }

// apply starts to bring the desired models, takes the others away, and removes files that nothing needs.
func (n *Node) apply(ctx context.Context, wg *sync.WaitGroup) {
	n.mu.Lock()
	d := n.state.Desired
	n.mu.Unlock()
	if d.Models == nil {
		return // the platform has never said anything
	}
	n.withdraw(d)
	if err := n.files.prune(d); err != nil {
		n.Log.Warn("files that the catalog does not name any more cannot be removed", "err", err)
	}
	for i := range d.Models {
		n.start(ctx, wg, &d.Models[i])
	}
}

// start reconciles a model in a goroutine, unless one does that.
func (n *Node) start(ctx context.Context, wg *sync.WaitGroup, m *Model) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, busy := n.jobs[m.Name]; busy {
		return
	}
	pulls, cancel := context.WithCancel(ctx)
	n.jobs[m.Name] = job{m.digestOf(), cancel}
	wg.Go(func() {
		err := n.reconcile(ctx, pulls, m)
		outdated := pulls.Err() != nil
		cancel()
		if !outdated {
			n.note(m, err)
		}
		n.mu.Lock()
		delete(n.jobs, m.Name)
		n.mu.Unlock()
		if outdated {
			n.signal(n.new) // for what is desired now
		}
	})
}

// refusal is the error of a model that this node does not take.
type refusal struct {
	error
	cheap bool // finding it takes no download: the next try needs no pause
}

func (r refusal) Unwrap() error { return r.error }

// errWaiting says that the platform names no source of a file.
var errWaiting = errors.New("the catalog names no source of its files yet")

// errLater says that a failed model is not tried again yet.
var errLater = errors.New("later")

// maxPause is the longest time after which a failed model is tried again.
const maxPause = time.Hour

// note keeps the result of reconciling a model.
func (n *Node) note(m *Model, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, errLater) {
		return
	}
	r := ModelReport{Name: m.Name, State: ready}
	before := n.phases[m.Name]
	defer func() {
		if before.State != r.State {
			n.signal(n.news)
		}
	}()
	if err == nil {
		delete(n.failed, m.Name)
		n.phases[m.Name] = r
		return
	}
	r.Reason, r.State = strings.TrimSpace(err.Error()), failed
	var no refusal
	switch {
	case errors.Is(err, errWaiting):
		r.State = waiting
		n.phases[m.Name] = r
		return
	case errors.As(err, &no):
		r.State = refused
	}
	n.phases[m.Name] = r
	if before.State != r.State || before.Reason != r.Reason {
		n.Log.Warn("a model of the catalog is not served as published", "model", m.Name, "state", r.State,
			"reason", r.Reason)
	}
	if no.cheap {
		return
	}
	f := failure{digest: m.digestOf(), pause: n.Interval}
	if last := n.failed[m.Name]; last.digest == f.digest {
		f.pause = min(2*last.pause, maxPause)
	}
	f.next = time.Now().Add(f.pause)
	n.failed[m.Name] = f
}

// phase keeps what is being done to a model.
func (n *Node) phase(name, state string, have, size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.phases[name].State != state {
		n.signal(n.news)
	}
	n.phases[name] = ModelReport{Name: name, State: state, Have: have, Size: size}
}

// withdraw moves the models of the catalog that are not desired to the trash.
func (n *Node) withdraw(d Desired) {
	entries, err := os.ReadDir(n.Repository())
	if err != nil {
		n.Log.Warn("the models of the catalog cannot be listed", "err", err)
		return
	}
	n.mu.Lock()
	for name := range n.phases {
		if !wanted(d, name) {
			delete(n.phases, name)
			delete(n.failed, name)
		}
	}
	n.mu.Unlock()
	for _, e := range entries {
		folder := filepath.Join(n.Repository(), e.Name())
		if placed(folder) == "" || wanted(d, e.Name()) {
			continue
		}
		n.remove(e.Name(), "the catalog does not publish it any more")
	}
}

func wanted(d Desired, name string) bool {
	return slices.ContainsFunc(d.Models, func(m Model) bool { return m.Name == name })
}

// remove takes a model of the catalog out of service and moves it to the trash.
func (n *Node) remove(name, why string) {
	n.placing.Lock()
	defer n.placing.Unlock()
	n.engine.Remove(n.key(name))
	n.discard(name, why)
}

// giveWay moves a model of the catalog to the trash, and loads the one of the same name that another repository has.
func (n *Node) giveWay(ctx context.Context, name, other string) {
	n.placing.Lock()
	defer n.placing.Unlock()
	n.discard(name, other+" has a model of this name")
	if err := n.engine.Reload(ctx, name); err != nil {
		n.Log.Warn("a model does not load that has replaced one of the catalog", "model", name, "err", err)
	}
}

func (n *Node) discard(name, why string) {
	folder := filepath.Join(n.Repository(), name)
	if _, err := n.Trash.Put(n.key(name), folder, folder); err != nil {
		n.Log.Warn("a model of the catalog cannot be moved to the trash", "model", name, "err", err)
		return
	}
	n.Log.Info("a model of the catalog is in the trash: "+why, "model", name)
	n.signal(n.news)
}
