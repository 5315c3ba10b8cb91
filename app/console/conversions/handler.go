// Package conversions makes models of other models for the page, by the command nereid convert in a process of its own.
// The page then imports them.
//
// Each conversion has one goroutine, which ends when it is cancelled or the console closes.
package conversions

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/imports/staging"
	"nereid/app/console/inspection"
	"nereid/app/console/rest"
	"nereid/app/console/tasks"
	"nereid/engine/system/glob"
)

const (
	// maxKept is how many conversions there are at one time. Each needs much memory.
	maxKept = 2
	// stopTime is how long a converter has after an interrupt.
	stopTime = 5 * time.Second
)

// Handler serves the routes of conversions. Its methods are safe for concurrent use.
type Handler struct {
	// Command makes the process "nereid convert" with these arguments; nil: nothing can be converted.
	Command func(ctx context.Context, args ...string) *exec.Cmd
	Catalog *catalog.Catalog
	Folder  string // of the conversions; it belongs to the Handler
	Limits  staging.Limits
	Tasks   *tasks.Group
	Log     *slog.Logger

	mu  sync.Mutex
	all []*conversion // oldest first; guarded by mu, as are their views
}

type conversion struct {
	view   api.Conversion
	area   *staging.Area      // of the files that were put
	cancel context.CancelFunc // nil until it is started
}

// Create makes a conversion that takes files. It removes those that have ended, and those that were never started.
func (h *Handler) Create(*http.Request) (out api.Conversion, err error) {
	if h.Command == nil {
		return out, rest.Errorf(api.CodeUnsupported, "this server converts no models")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range slices.Clone(h.all) {
		if c.view.State != api.ConversionRunning {
			h.remove(c)
		}
	}
	if len(h.all) >= maxKept {
		return out, rest.Errorf(api.CodeConflict, "%d conversions are running; wait for one, or cancel it", maxKept)
	}
	c := &conversion{view: api.Conversion{ID: rand.Text(), State: api.ConversionOpen}}
	if err := os.MkdirAll(h.models(c), 0o700); err != nil {
		return out, err
	}
	if c.area, err = staging.NewArea(filepath.Join(h.folder(c), "files"), h.Limits); err != nil {
		return out, err
	}
	h.all = append(h.all, c)
	return c.view, nil
}

func (h *Handler) folder(c *conversion) string { return filepath.Join(h.Folder, c.view.ID) }

// models is the repository that the command writes into.
func (h *Handler) models(c *conversion) string { return filepath.Join(h.folder(c), "models") }

// PutFile stores a file of a conversion that is not started.
func (h *Handler) PutFile(r *http.Request) error {
	c, err := h.open(r.PathValue("id"))
	if err != nil {
		return err
	}
	return c.area.Put(r.PathValue("path"), r.Body)
}

// open returns a conversion that is not started.
func (h *Handler) open(id string) (*conversion, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, err := h.find(id)
	if err == nil && c.view.State != api.ConversionOpen {
		err = rest.Errorf(api.CodeConflict, "the conversion is started already")
	}
	return c, err
}

// Start starts a conversion.
func (h *Handler) Start(r *http.Request, req *api.StartConversion) (out api.Conversion, err error) {
	c, err := h.open(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	args, err := h.arguments(c, req)
	if err != nil {
		return out, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.view.State != api.ConversionOpen || !slices.Contains(h.all, c) {
		return out, rest.Errorf(api.CodeConflict, "the conversion was started or cancelled meanwhile")
	}
	c.view.State = api.ConversionRunning
	c.cancel = h.Tasks.Start(func(ctx context.Context) { h.run(ctx, c, args) })
	return c.view, nil
}

// arguments returns the arguments of the command. What names a file is inside the conversion's folder.
func (h *Handler) arguments(c *conversion, req *api.StartConversion) (args []string, err error) {
	args = []string{"--model-repository=" + h.models(c), "--accept", "--json"}
	add := func(option, value string) {
		if value != "" {
			args = append(args, option+"="+value)
		}
	}
	switch req.Target {
	case api.ConvertToONNX:
	case api.ConvertToFP16, api.ConvertToINT8, api.ConvertToSimplified, api.ConvertToExternal:
		args = append(args, "--"+string(req.Target))
	default:
		return nil, rest.Errorf(api.CodeInvalid, "the target %s is unknown", rest.Quote(string(req.Target)))
	}
	source, inputs, class := req.Source, "", req.Class
	if req.Model != "" {
		if source, inputs, err = h.ofRepository(req); err != nil {
			return nil, err
		}
	} else if !isNamed(source) {
		if source, err = c.file(source); err != nil {
			return nil, err
		}
	}
	if req.Inputs != "" {
		if inputs, err = c.file(req.Inputs); err != nil {
			return nil, err
		}
	}
	if file, name, ok := strings.Cut(class, ":"); ok && !isNamed(class) {
		if file, err = c.file(file); err != nil {
			return nil, err
		}
		class = file + ":" + name
	}
	add("--name", req.Name)
	add("--inputs", inputs)
	add("--class", class)
	for _, s := range req.Shapes {
		add("--shape", s)
	}
	if req.Trust {
		args = append(args, "--trust")
	}
	return append(args, "--", source), nil
}

// isNamed says whether a source or class is a model of a library.
func isNamed(s string) bool {
	return strings.HasPrefix(s, "torchvision:") || strings.HasPrefix(s, "timm:")
}

// file returns the path of what was put.
func (c *conversion) file(name string) (string, error) {
	path := filepath.Join(c.area.Folder(), filepath.FromSlash(name))
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", rest.Errorf(api.CodeInvalid, "the path %s is outside", rest.Quote(name))
	}
	if _, err := os.Stat(path); err != nil {
		return "", rest.Errorf(api.CodeNotFound, "the file %s was not sent", rest.Quote(name))
	}
	return path, nil
}

// ofRepository returns the file of a model's newest version, and its saved or captured requests if they are wanted.
func (h *Handler) ofRepository(req *api.StartConversion) (file, inputs string, err error) {
	m, err := h.Catalog.FindWithFolder(req.Model)
	if err != nil {
		return "", "", err
	}
	if file, err = inspection.File(h.Catalog, req.Model, ""); err != nil {
		return "", "", err
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, "model.onnx")
	}
	switch {
	case req.CapturedRequests:
		return file, "captured:" + m.Name, nil
	case !req.SavedRequests:
		return file, "", nil
	}
	inputs = filepath.Join(m.Folder, "requests")
	if len(glob.In(inputs, "*.json")) == 0 {
		return "", "", rest.Errorf(api.CodeInvalid, "the model %s has no saved requests; save some in Try it",
			rest.Quote(req.Model))
	}
	return file, inputs, nil
}

// run runs the command.
func (h *Handler) run(ctx context.Context, c *conversion, args []string) {
	cmd := h.Command(ctx, args...)
	var report bytes.Buffer
	said := &lastLine{tell: func(line string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		c.view.Step = line
	}}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &report, said, stopTime
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes what it has made
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New(strings.TrimPrefix(cmp.Or(said.text(), exit.Error()), "error: "))
	}
	var out api.ParityReport
	if err == nil {
		if err = json.Unmarshal(report.Bytes(), &out); err != nil {
			err = fmt.Errorf("the report of the conversion: %w", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.view.State, c.view.Report, c.view.Path = api.ConversionDone, &out, filepath.Join(h.models(c), out.Model)
	if err != nil {
		c.view = api.Conversion{ID: c.view.ID, State: api.ConversionFailed, Reason: h.plain(c, err.Error())}
	}
	if !slices.Contains(h.all, c) { // it was cancelled
		h.removeFolder(c)
	}
}

// plain replaces the paths of the conversion's folder by what the user sent.
func (h *Handler) plain(c *conversion, text string) string {
	return strings.ReplaceAll(text, c.area.Folder()+string(os.PathSeparator), "")
}

// Get returns a conversion.
func (h *Handler) Get(r *http.Request) (out api.Conversion, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, err := h.find(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	return c.view, nil
}

// Cancel stops a conversion and removes what it made.
func (h *Handler) Cancel(r *http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, err := h.find(r.PathValue("id"))
	if err == nil {
		h.remove(c)
	}
	return err
}

// find returns a conversion. mu is held, as below.
func (h *Handler) find(id string) (*conversion, error) {
	for _, c := range h.all {
		if c.view.ID == id {
			return c, nil
		}
	}
	return nil, rest.Errorf(api.CodeNotFound, "there is no conversion %s", rest.Quote(id))
}

// remove forgets a conversion. The folder of one that runs is removed when it has stopped.
func (h *Handler) remove(c *conversion) {
	h.all = slices.DeleteFunc(h.all, func(o *conversion) bool { return o == c })
	if c.cancel != nil {
		c.cancel()
	}
	if c.view.State != api.ConversionRunning {
		h.removeFolder(c)
	}
}

func (h *Handler) removeFolder(c *conversion) {
	if err := os.RemoveAll(h.folder(c)); err != nil {
		h.Log.Warn("the folder of a conversion cannot be removed", "err", err)
	}
}
