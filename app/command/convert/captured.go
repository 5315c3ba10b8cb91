package convert

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"nereid/app/capture"
	"nereid/app/datadir"
	"nereid/app/options"
)

// maxCaptured is how many requests are taken, the newest ones.
const maxCaptured = 512

// takeCaptured copies captured requests into a folder that is only for this user, if --inputs asks for them. forget
// removes it.
func (o *converter) takeCaptured() (forget func() error, err error) {
	forget = func() error { return nil }
	model, ok := strings.CutPrefix(o.inputs, "captured:")
	if !ok {
		return forget, nil
	}
	data, err := options.CommandDataDir(o.dataDir, o.env.Lookup)
	if err != nil {
		return forget, err
	}
	dir, err := os.MkdirTemp("", "nereid-convert-")
	if err != nil {
		return forget, err
	}
	n, err := capture.WriteSaved(datadir.Captures(data), model, dir, maxCaptured)
	if err == nil && n == 0 {
		err = fmt.Errorf("no whole request of the model %s is captured in %s; turn its capture on, on the page of the "+
			"model, while clients send requests", model, data)
	}
	if err != nil {
		return forget, errors.Join(err, os.RemoveAll(dir))
	}
	o.inputs, o.confidential = dir, true
	return func() error { return os.RemoveAll(dir) }, nil
}
