package onnxruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/status"
)

// optimizedParameter is the model parameter that stores the model's optimized graph, so that later loads need not
// optimize the model again.
const optimizedParameter = "optimized_model_cache"

const (
	// maxOptimizedSize is the size of the largest model file, in bytes, whose optimized graph is stored. A graph is one
	// protocol buffer of at most 2 GB.
	maxOptimizedSize = 1 << 30
	// maxOptimizedAge is how long an unused graph is stored.
	maxOptimizedAge = 30 * 24 * time.Hour
)

// cachesGraph reports whether the model's optimized graph for a place is stored.
func (m *model) cachesGraph(p place) (bool, error) {
	on := m.settings.OptimizedModelCache
	if v := m.spec.Config.GetParameters()[optimizedParameter].GetStringValue(); v != "" {
		var err error
		if on, err = parseBool(v); err != nil {
			return false, status.Errorf(status.InvalidArg, "parameter %q: %w", optimizedParameter, err)
		}
	}
	c := m.spec.Config
	accelerators := c.GetOptimization().GetExecutionAccelerators()
	switch {
	case !on:
		return false, nil
	case p.gpu, len(accelerators.GetCpuExecutionAccelerator()) > 0: // the provider compiles for its device
	case m.info.External, strings.HasSuffix(m.path, ".ort"): // the graph contains no weights, or is optimized
	case len(c.GetModelOperations().GetOpLibraryFilename()) > 0: // the library may change
	case graphLevel(c) == ort.GraphOptimizationLevelDisableAll:
	case m.cache == "":
	default:
		return true, nil
	}
	return false, nil
}

// cachedSession makes a session from a stored optimized graph, or stores one. After a fault of the cache the model is
// loaded without it, with a warning in the log. o are the options for that load.
func (m *model) cachedSession(ctx context.Context, o *sessionOptions, p place, cores []int) (*capi.Session, error) {
	path, err := m.graphPath()
	if err != nil {
		m.spec.Log.Warn("the optimized graph cannot be kept", "model", m.spec.ModelName, "err", err)
		return o.newSession(ctx, m.library, m.path)
	}
	if _, err := os.Stat(path); err == nil {
		if s, err := m.fromGraph(ctx, path, p, cores); err == nil {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // on failure it is removed sooner
			return s, nil
		}
		m.spec.Log.Warn("an optimized graph is damaged; it is made again", "model", m.spec.ModelName, "file", path)
		_ = os.Remove(path) // it is replaced below
	}
	part, err := os.CreateTemp(m.cache, "*.part")
	if err != nil {
		m.spec.Log.Warn("the optimized graph cannot be kept", "model", m.spec.ModelName, "err", err)
		return o.newSession(ctx, m.library, m.path)
	}
	_ = part.Close()             // it is empty
	defer os.Remove(part.Name()) // fails after the rename
	saving, err := m.optionsAt(p, cores)
	if err != nil {
		return nil, err
	}
	defer saving.close()
	if err := saving.SetOptimizedModelFilePath(part.Name()); err != nil {
		return nil, runtimeError(err)
	}
	s, err := saving.newSession(ctx, m.library, m.path)
	if err != nil {
		m.spec.Log.Warn("the model is loaded without keeping its optimized graph", "model", m.spec.ModelName,
			"err", err)
		return o.newSession(ctx, m.library, m.path)
	}
	if err := os.Rename(part.Name(), path); err != nil {
		m.spec.Log.Warn("the optimized graph cannot be kept", "model", m.spec.ModelName, "err", err)
	}
	pruneGraphs(m.cache, time.Now())
	return s, nil
}

// fromGraph loads an optimized graph without optimizing it again.
func (m *model) fromGraph(ctx context.Context, path string, p place, cores []int) (*capi.Session, error) {
	o, err := m.optionsAt(p, cores)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll); err != nil {
		return nil, runtimeError(err)
	}
	return o.newSession(ctx, m.library, path)
}

// graphPath returns where the model's optimized graph is stored for this library, processor and configuration.
func (m *model) graphPath() (string, error) {
	if err := os.MkdirAll(m.cache, 0o700); err != nil {
		return "", err
	}
	f, err := os.Open(m.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxOptimizedSize {
		return "", fmt.Errorf("the model file is larger than %d bytes, or cannot be read: %w",
			int64(maxOptimizedSize), err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	m.describeGraph(h)
	return filepath.Join(m.cache, hex.EncodeToString(h.Sum(nil)[:16])+".onnx"), nil
}

// describeGraph writes everything that the optimized graph depends on, except the model file, to a hash.
func (m *model) describeGraph(h hash.Hash) {
	fmt.Fprintf(h, "\n%s %d\n%s\n", m.library.Version, graphLevel(m.spec.Config), processor())
	parameters := m.spec.Config.GetParameters()
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if strings.HasPrefix(name, "session.") || strings.HasPrefix(name, "ep.") {
			fmt.Fprintf(h, "%q=%q\n", name, parameters[name].GetStringValue())
		}
	}
}

// processor describes the processor. The layout of an optimized graph depends on its vector units.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	var text strings.Builder
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name", "flags", "Features", "CPU part":
			text.WriteString(value)
		case "": // the first processor represents all
			return text.String()
		}
	}
	return text.String()
}

// pruneGraphs removes graphs that were not used for maxOptimizedAge, and temporary files of interrupted loads.
func pruneGraphs(folder string, now time.Time) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // the next graph tries again
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		age := now.Sub(info.ModTime())
		if age > maxOptimizedAge || strings.HasSuffix(e.Name(), ".part") && age > 24*time.Hour {
			_ = os.Remove(filepath.Join(folder, e.Name())) // tried again next time
		}
	}
}
