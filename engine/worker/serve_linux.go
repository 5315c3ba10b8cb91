package worker

import (
	"os"

	"golang.org/x/sys/unix"

	"nereid/engine/worker/arena"
	"nereid/engine/worker/process"
)

// connect opens the descriptors that the server has given this process.
func connect() (*server, error) {
	unix.CloseOnExec(process.ControlFD)
	down, err := arena.OpenMapping(process.DownFD, "nereid-down")
	if err != nil {
		return nil, err
	}
	up, err := arena.OpenMapping(process.UpFD, "nereid-up")
	if err != nil {
		return nil, err
	}
	s := newServer(down, arena.New(up, 1<<20))
	s.socket = os.NewFile(process.ControlFD, "server")
	return s, nil
}
