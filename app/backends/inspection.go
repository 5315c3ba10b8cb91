package backends

import (
	"errors"
	"log/slog"

	"nereid/app/inspect"
	"nereid/app/options"
	"nereid/engine/modelconfig"
)

// OpenInspection opens the backends for checking models without serving them. The caller closes them. dataDir is the
// option of the command; "": the default. ONNX Runtime is unpacked into the data folder, as by the server.
func OpenInspection(dataDir string, lookup func(string) (string, bool)) (
	o inspect.Options, closeBackends func(), err error) {
	all, err := ForCommand(dataDir, lookup)
	if err != nil {
		return o, nil, err
	}
	return inspect.Options{
		Backends: all.All, AutoComplete: true, DefaultMaxBatchSize: modelconfig.DefaultMaxBatchSize,
		Log: slog.New(slog.DiscardHandler), // the faults have what matters
	}, func() { _ = all.Close() }, nil // without GPUs nothing can fail
}

// ONNXProviders returns the execution providers of the ONNX Runtime that a server with this data folder uses.
func ONNXProviders(dataDir string, lookup func(string) (string, bool)) (names []string, err error) {
	all, err := ForCommand(dataDir, lookup)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	return all.ONNXRuntime.Providers()
}

// ForCommand opens the backends for a command that serves nothing. dataDir is the option of the command; "": the
// default. The caller closes them.
func ForCommand(dataDir string, lookup func(string) (string, bool)) (*Set, error) {
	dir, err := options.CommandDataDir(dataDir, lookup)
	if err != nil {
		return nil, err
	}
	c := options.Default(false)
	if v, ok := lookup("NEREID_ONNXRUNTIME_LIBRARY"); ok {
		c.Backends.ONNXRuntime.Library = v
	}
	return ForInspection(c, dir)
}
