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

// optimizedParameter is the model parameter that keeps the model's optimized graph, so that the next load does not
// optimize again.
const optimizedParameter = "optimized_model_cache"

const (
	// optimizedMost is the largest model file whose optimized graph is kept: it is one protocol buffer of at most 2 GB.
	optimizedMost = 1 << 30
	// optimizedAge is how long a graph that no load uses is kept.
	optimizedAge = 30 * 24 * time.Hour
)

// cachesGraph reports whether the model's optimized graph at a place is to be kept.
func (m *model) cachesGraph(p place) (bool, error) {
	on := m.settings.OptimizedModelCache
	if v := m.spec.Config.GetParameters()[optimizedParameter].GetStringValue(); v != "" {
		var err error
		if on, err = truth(v); err != nil {
			return false, status.Errorf(status.InvalidArg, "parameter %q: %w", optimizedParameter, err)
		}
	}
	c := m.spec.Config
	accelerators := c.GetOptimization().GetExecutionAccelerators()
	switch {
	case !on:
		return false, nil
	case p.gpu, len(accelerators.GetCpuExecutionAccelerator()) > 0: // they compile for a device of theirs
	case m.info.External, strings.HasSuffix(m.path, ".ort"): // there is little to keep
	case len(c.GetModelOperations().GetOpLibraryFilename()) > 0: // the library may change
	case graphLevel(c) == ort.GraphOptimizationLevelDisableAll:
	case m.cache == "":
	default:
		return true, nil
	}
	return false, nil
}

// cachedSession makes a session from the optimized graph that an earlier load has left, or leaves one. Whatever is
// wrong with the cache costs the time to optimize, and a line in the log.
func (m *model) cachedSession(ctx context.Context, o *sessionOptions, p place, cores []int) (*capi.Session, error) {
	path, err := m.graphPath()
	if err != nil {
		m.spec.Log.Warn("the optimized graph cannot be kept", "model", m.spec.ModelName, "err", err)
		return o.newSession(ctx, m.library, m.path)
	}
	if _, err := os.Stat(path); err == nil {
		if s, err := m.fromGraph(ctx, path, p, cores); err == nil {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // else it is removed sooner
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
	_ = part.Close()                    // nothing is in it
	defer os.Remove(part.Name())        // gone if it was renamed
	again, err := m.optionsAt(p, cores) // the caller's stay as they are, for a load without the cache
	if err != nil {
		return nil, err
	}
	defer again.close()
	if err := again.SetOptimizedModelFilePath(part.Name()); err != nil {
		return nil, runtimeError(err)
	}
	s, err := again.newSession(ctx, m.library, m.path)
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

// fromGraph loads an optimized graph as it is.
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

// graphPath is where the optimized graph of this model is kept, for this library, processor and configuration.
func (m *model) graphPath() (string, error) {
	if err := os.MkdirAll(m.cache, 0o700); err != nil {
		return "", err
	}
	f, err := os.Open(m.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > optimizedMost {
		return "", fmt.Errorf("the model file is larger than %d bytes, or cannot be read: %w",
			int64(optimizedMost), err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	m.describeGraph(h)
	return filepath.Join(m.cache, hex.EncodeToString(h.Sum(nil)[:16])+".onnx"), nil
}

// describeGraph adds to a hash what the optimized graph depends on beside the model.
func (m *model) describeGraph(h hash.Hash) {
	fmt.Fprintf(h, "\n%s %d\n%s\n", m.library.Version, graphLevel(m.spec.Config), processor())
	parameters := m.spec.Config.GetParameters()
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if strings.HasPrefix(name, "session.") || strings.HasPrefix(name, "ep.") {
			fmt.Fprintf(h, "%q=%q\n", name, parameters[name].GetStringValue())
		}
	}
}

// processor describes the processor: graphs are laid out for its vector units.
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
		case "": // the first processor stands for all
			return text.String()
		}
	}
	return text.String()
}

// pruneGraphs removes graphs that no load has used for long, and what loads that ended midway have left.
func pruneGraphs(folder string, now time.Time) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // it is looked at again with the next graph
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone
		}
		age := now.Sub(info.ModTime())
		if age > optimizedAge || strings.HasSuffix(e.Name(), ".part") && age > 24*time.Hour {
			_ = os.Remove(filepath.Join(folder, e.Name())) // tried again next time
		}
	}
}
