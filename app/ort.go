package app

import (
	"log/slog"
	"path/filepath"

	"nereid/app/console/api"
	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
)

// ortRuntime is the ONNX Runtime backend. Its library is opened with the first model that needs it.
type ortRuntime struct{ b *onnxruntime.Backend }

func newORT(c *Config, d *dataDir, log *slog.Logger) ortRuntime {
	return ortRuntime{onnxruntime.New(onnxruntime.Options{
		Library: c.ONNXRuntimeLibrary, RuntimeFolder: filepath.Join(d.join("runtime"), "onnxruntime"), CacheFolder: d.join("runtime"),
		Settings: c.ONNXRuntime, Log: log,
	})}
}

func (o ortRuntime) backend() backend.Backend { return o.b }

// describe tells the page which library is in use.
func (o ortRuntime) describe() api.Runtime {
	version, err := o.b.Version()
	if err != nil {
		return api.Runtime{Error: err.Error()}
	}
	return api.Runtime{Version: version, Library: o.b.LibraryPath()}
}
