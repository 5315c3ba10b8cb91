//go:build !linux

package worker

import (
	"runtime"

	"nereid/engine/status"
)

// Models run in processes on Linux only.

func connect() (*server, error) {
	return nil, status.Errorf(status.Unsupported, "models in separate processes are not supported on %s",
		runtime.GOOS)
}

func monotonic() int64 { return 0 }
