package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"nereid/app/console/api"
	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/backend/runtime"
	"nereid/engine/gpumem"
	"nereid/engine/worker"
)

// ortRuntime is the ONNX Runtime backend. Its library is opened with the first model that needs it.
type ortRuntime struct{ b *onnxruntime.Backend }

func newORT(c *Config, d *dataDir, memory *gpumem.Memory, launcher *worker.Launcher, log *slog.Logger) ortRuntime {
	o := onnxruntime.Options{
		Library: c.ONNXRuntimeLibrary, RuntimeFolder: filepath.Join(d.join("runtime"), "onnxruntime"), CacheFolder: d.join("runtime"),
		Settings: c.ONNXRuntime, GPUMemory: memory, Log: log,
	}
	if exe, err := os.Executable(); err != nil {
		log.Warn("models cannot have processes of their own: this program's file is not known", "err", err)
	} else {
		o.Launcher, o.Worker = launcher, []string{exe, "worker"}
	}
	return ortRuntime{onnxruntime.New(o)}
}

// workerCommand is the process of a model that asks for one, or of a framework: its backend's name is the argument.
func workerCommand(args []string, stderr io.Writer) int {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	var err error
	if len(args) == 0 {
		err = onnxruntime.ServeWorker(context.Background(), log)
	} else {
		err = runtime.ServeWorker(context.Background(), args[0], log)
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
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
