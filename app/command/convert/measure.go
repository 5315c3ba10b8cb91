package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"nereid/app/command"
	"nereid/app/console/api"
	"nereid/app/datadir"
	"nereid/app/options"
	"nereid/engine/system/glob"
)

// ErrNotInstalled is the error of Measure if the converters are not there. A measurement installs nothing.
var ErrNotInstalled = errors.New("the converters are not installed; nereid convert installs them")

// Measure converts an ONNX file to another precision, "fp16" or "int8", and compares the outputs of both models. It
// keeps no file. The inputs are those of the model's saved requests, or generated ones if there are none.
func Measure(ctx context.Context, e *command.Env, dataDir, file, target string) (r api.ParityReport, err error) {
	dataDir, err = options.CommandDataDir(dataDir, e.Lookup)
	if err != nil {
		return r, err
	}
	if !environment(kindONNX).Installed(datadir.Python(dataDir)) {
		return r, ErrNotInstalled
	}
	o := converter{env: e, python: "python3", dataDir: dataDir, name: "model", tolerance: -1, fp16: target == "fp16",
		int8: target == "int8", source: source{kind: kindONNX, file: file}}
	if err := o.check(); err != nil {
		return r, err
	}
	requests := filepath.Join(filepath.Dir(filepath.Dir(file)), "requests")
	if len(glob.In(requests, "*.json")) > 0 {
		o.inputs = requests
	}
	workspace, err := os.MkdirTemp("", "nereid-inspect-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(workspace)) }()
	_, r, err = o.make(ctx, workspace)
	return r, err
}
