//go:build !unix

package python

import (
	"context"
	"runtime"

	"nereid/engine/status"
)

func once(context.Context, string, func() error) error {
	return status.Errorf(status.Unsupported, "environments of Python models are not supported on %s", runtime.GOOS)
}
