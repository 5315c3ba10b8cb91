package worker

import (
	"os"

	"golang.org/x/sys/unix"
)

// connect takes the descriptors that the server has given this process.
func connect() (*peer, error) {
	unix.CloseOnExec(controlFD)
	p := &peer{socket: os.NewFile(controlFD, "server")}
	var err error
	if p.down, err = openMapping(downFD, "nereid-down"); err != nil {
		return nil, err
	}
	up, err := openMapping(upFD, "nereid-up")
	if err != nil {
		return nil, err
	}
	p.up = newArena(up, 1<<20)
	return p, nil
}
