// Package inspection says what is in a model's file. The file is read and run by a process of its own, so that nothing
// in it can end the server.
//
// The package starts no goroutine.
package inspection

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/rest"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

const (
	maxRuns = 100
	maxTime = time.Minute // of the process
)

// Handler serves the routes. Catalog is needed.
type Handler struct {
	Catalog *catalog.Catalog
	// Command makes the process "nereid inspect" with these arguments; nil: models cannot be inspected.
	Command func(ctx context.Context, args ...string) *exec.Cmd

	mu sync.Mutex // held while a model runs, because runs of two models would disturb each other
}

// Get inspects the file of a model's version, by default its newest. The query has runs (default 0: it is only read),
// and dims, such as "batch=8,height=224".
func (h *Handler) Get(r *http.Request) (out api.Inspection, err error) {
	if h.Command == nil {
		return out, rest.Errorf(api.CodeUnsupported, "this server cannot inspect models")
	}
	runs, err := rest.Number(r.URL.Query(), "runs", 0, 0, maxRuns)
	if err != nil {
		return out, err
	}
	file, err := File(h.Catalog, r.PathValue("name"), r.URL.Query().Get("version"))
	if err != nil {
		return out, err
	}
	args := []string{"--json", "--runs=" + strconv.FormatInt(runs, 10)}
	for dim := range strings.SplitSeq(r.URL.Query().Get("dims"), ",") {
		if dim != "" {
			args = append(args, "--dim="+dim)
		}
	}
	if runs > 0 {
		if !h.mu.TryLock() {
			return out, rest.Errorf(api.CodeConflict, "another model is being measured; try again when it is done")
		}
		defer h.mu.Unlock()
	}
	return h.run(r.Context(), append(args, "--", file))
}

// Graph returns the nodes of the file of a model's version, by default its newest.
func (h *Handler) Graph(r *http.Request) (out api.Graph, err error) {
	file, err := File(h.Catalog, r.PathValue("name"), r.URL.Query().Get("version"))
	if err != nil {
		return out, err
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, "model.onnx")
	}
	g, err := onnxfile.ReadGraph(file)
	if err != nil {
		return out, rest.Errorf(api.CodeInvalid, "the graph cannot be read: %v", err)
	}
	out = api.Graph{Count: g.Count, Inputs: g.Inputs, Outputs: g.Outputs, Weights: g.Weights}
	if g.Count > len(g.Nodes) { // too many to be drawn
		return out, nil
	}
	for _, n := range g.Nodes {
		node := api.GraphNode{Name: n.Name, Op: n.Op, Domain: n.Domain, Inputs: n.Inputs, Outputs: n.Outputs}
		for _, a := range n.Attributes {
			node.Attributes = append(node.Attributes, api.GraphAttribute(a))
		}
		out.Nodes = append(out.Nodes, node)
	}
	return out, nil
}

// File returns the path of the ONNX file of a version, or the folder that has a model.onnx. "" is the newest version.
func File(c *catalog.Catalog, name, version string) (string, error) {
	m, err := c.FindWithFolder(name)
	if err != nil {
		return "", err
	}
	cfg := cmp.Or(catalog.Running(m.Status), m.Status.Config, &inferencepb.ModelConfig{})
	if b := cfg.GetBackend(); b != "" && b != modelconfig.BackendONNXRuntime {
		return "", rest.Errorf(api.CodeUnsupported, "this is for ONNX models; %q has the backend %s", name, b)
	}
	versions := m.Versions()
	if version == "" && len(versions) > 0 {
		version = strconv.FormatInt(versions[len(versions)-1], 10)
	}
	if n, err := strconv.ParseInt(version, 10, 64); err != nil || n < 0 {
		return "", rest.Errorf(api.CodeNotFound, "model %q has no version %s", name, rest.Quote(version))
	}
	folder := filepath.Join(m.Folder, version)
	if file := cfg.GetDefaultModelFilename(); filepath.IsLocal(file) {
		return filepath.Join(folder, file), nil
	}
	return folder, nil
}

func (h *Handler) run(ctx context.Context, args []string) (out api.Inspection, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	cmd := h.Command(ctx, args...)
	var report, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &report, &errs, time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return out, rest.Errorf(api.CodeUnavailable, "the model did not run to its end within %v; try fewer runs or "+
			"smaller sizes", maxTime)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text := strings.TrimPrefix(strings.TrimSpace(errs.String()), "error: ")
		return out, rest.Errorf(api.CodeInvalid, "the model cannot be inspected: %s", cmp.Or(text, exit.Error()))
	}
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(report.Bytes(), &out)
}
