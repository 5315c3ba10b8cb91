package backends

import (
	"log/slog"

	"nereid/app/inspect"
	"nereid/app/options"
	"nereid/engine/modelconfig"
)

// OpenInspection opens the backends that check models without serving them. dataDir is as a command got it, "" for the
// default. What ONNX Runtime needs is unpacked into the data folder, as the server does. The caller closes them.
func OpenInspection(dataDir string, lookup func(string) (string, bool)) (
	o inspect.Options, closeBackends func(), err error) {
	dir, err := options.CommandDataDir(dataDir, lookup)
	if err != nil {
		return o, nil, err
	}
	c := options.Default(false)
	if v, ok := lookup("NEREID_ONNXRUNTIME_LIBRARY"); ok {
		c.Backends.ONNXRuntime.Library = v
	}
	all, err := ForInspection(c, dir)
	if err != nil {
		return o, nil, err
	}
	return inspect.Options{
		Backends: all.All, AutoComplete: true, DefaultMaxBatchSize: modelconfig.DefaultMaxBatchSize,
		Log: slog.New(slog.DiscardHandler), // the faults say what matters
	}, func() { _ = all.Close() }, nil // it has no GPUs to release
}
