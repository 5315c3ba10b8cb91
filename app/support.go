package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"time"

	"nereid/app/console/catalog"
	"nereid/app/support"
	"nereid/engine"
	"nereid/engine/device"
)

// catchCrash keeps what the program writes if it crashes, and says so if it did before.
func (s *server) catchCrash(context.Context) error {
	crashed, err := support.CatchCrash(s.data.Path, Version)
	if err != nil {
		s.log.Warn("a crash of this program will not be kept in the data folder", "err", err)
	}
	if crashed {
		s.warn("the server crashed before this start; nereid support writes a bundle with what is known of it")
	}
	return nil
}

// support writes a support bundle.
func (s *server) support(ctx context.Context, w io.Writer) error {
	var configs bytes.Buffer
	models := s.engine.Models()
	for _, m := range models {
		if c := catalog.Running(m); c != nil {
			fmt.Fprintf(&configs, "# %s\n%s\n", m.Name, support.RedactedConfig(c))
		}
	}
	lines, _, _ := s.logControl.Lines(0)
	parts := []support.Part{
		{Name: "server.json", About: "versions, the machine, warnings", Write: support.JSON(s.supportServer)},
		{Name: "options.yaml", About: "the options, each with where it comes from", Write: s.c.Show},
		{Name: "models.json", About: "the models and why some are not loaded",
			Write: support.JSON(func() (any, error) { return modelRows(s.engine), nil })},
		{Name: "configs.pbtxt", About: "the configurations of loaded models", Write: support.Text(configs.String())},
		{Name: "log.txt", About: "the newest lines of the log",
			Write: func(w io.Writer) error { return support.Log(w, lines) }},
		support.Events(ctx, s.store),
		{Name: "goroutines.txt", About: "what the server does at this moment",
			Write: func(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }},
		support.Crash(s.data.Path),
	}
	if x := s.fronts.exporter; x != nil {
		parts = append(parts, support.Part{Name: "metrics.txt", About: "the metrics at this moment",
			Write: func(w io.Writer) error {
				_, err := w.Write(x.Append(nil))
				return err
			}})
	}
	return support.Write(w, parts)
}

func (s *server) supportServer() (any, error) {
	host := device.Host()
	return map[string]any{
		"nereid": Version, "triton": engine.ServerVersion, "go": runtime.Version(),
		"os": runtime.GOOS, "architecture": runtime.GOARCH, "cpus": runtime.NumCPU(), "coresInUse": s.cores,
		"memoryBytes": host.Memory, "gpus": s.backends.Machine.IDs(),
		"onnxRuntime": describeRuntime(s.backends.ONNXRuntime),
		"started":     s.engine.Started().UTC().Format(time.RFC3339), "now": time.Now().UTC().Format(time.RFC3339),
		"ready": s.engine.Ready(), "warnings": s.warnings, "history": s.store.Health(), "dataDir": s.data.Path,
	}, nil
}
