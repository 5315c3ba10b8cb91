//go:build !linux

package shm

import (
	"runtime"

	"nereid/engine/status"
)

const systemSupported = false

func openSystem(_ Options, _, name, _ string, _, _ uint64, _ int) (Memory, []byte, error) {
	return nil, nil, status.Errorf(status.Unsupported,
		"failed to register shared memory region '%s': shared memory is not supported on %s", name, runtime.GOOS)
}
