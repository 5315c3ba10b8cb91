package triton

import (
	"context"
	"log/slog"
	"path/filepath"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

var (
	errNoServer = status.New(status.Unsupported, "a cache, an agent and a batching strategy cannot use models here")
	// errNoMetrics has the code that Triton's has without metrics: libraries go on without them.
	errNoMetrics = status.New(status.Unsupported, "metrics not supported")
)

// cacheHost is the process of a cache, an agent or a strategy. It has no models, and its metrics are not shown.
type cacheHost struct{ log *slog.Logger }

var _ capi.Host = cacheHost{}

// Wake implements capi.Host.
func (cacheHost) Wake() {}

// Reserve implements capi.Host.
func (cacheHost) Reserve(int) *tensor.Buffer { return nil }

// Normalize implements capi.Host.
func (cacheHost) Normalize([]byte) ([]byte, error) {
	return nil, status.New(status.Unsupported, "a cache has no models")
}

// Log implements capi.Host.
func (h cacheHost) Log(level slog.Level, file string, line int, text string) {
	h.log.Log(context.Background(), level, text, "file", filepath.Base(file), "line", line)
}

// Logs implements capi.Host.
func (h cacheHost) Logs(level slog.Level) bool { return level >= slog.LevelInfo }

// Live implements capi.Server.
func (cacheHost) Live() bool { return true }

// Ready implements capi.Server.
func (cacheHost) Ready() bool { return true }

// Infer implements capi.Server.
func (cacheHost) Infer(*infer.Request) error { return errNoServer }

// FindModel implements capi.Server.
func (cacheHost) FindModel(string, int64) error { return errNoServer }

// ModelReady implements capi.Server.
func (cacheHost) ModelReady(string, int64) (bool, error) { return false, errNoServer }

// ModelDecoupled implements capi.Server.
func (cacheHost) ModelDecoupled(string, int64) (bool, error) { return false, errNoServer }

// LoadModel implements capi.Server.
func (cacheHost) LoadModel(string, string, map[string][]byte) error { return errNoServer }

// UnloadModel implements capi.Server.
func (cacheHost) UnloadModel(string, bool) error { return errNoServer }

// Family implements capi.Metrics.
func (cacheHost) Family(capi.MetricKind, string, string) (uint64, error) { return 0, errNoMetrics }

// Metric implements capi.Metrics.
func (cacheHost) Metric(uint64, map[string]string, []float64) (uint64, error) { return 0, errNoMetrics }

// DeleteMetric implements capi.Metrics.
func (cacheHost) DeleteMetric(uint64, bool) error { return errNoMetrics }

// MetricValue implements capi.Metrics.
func (cacheHost) MetricValue(uint64) (float64, error) { return 0, errNoMetrics }

// ChangeMetric implements capi.Metrics.
func (cacheHost) ChangeMetric(uint64, uint32, float64) {}

// hostLibrary reads what the library of a cache, an agent or a strategy needs, and makes this process its host. The
// caller opens it. Errors: those of the file, and of what this machine lacks.
func hostLibrary(path string, log *slog.Logger) (dependencies, error) {
	needs, err := dependenciesOf(path)
	if err == nil {
		err = needs.check(path, capi.GlibcVersion())
	}
	if err == nil {
		capi.SetHost(cacheHost{log: log})
	}
	return needs, err
}
