//go:build !linux

package process

import (
	"runtime"
	"time"

	"nereid/engine/status"
)

// Elsewhere there are no processes of models: sealed memfds, seqpacket sockets and the parent-death signal are Linux's.

// Start returns Unsupported.
func (l *Launcher) Start(Spec) (*Process, error) {
	return nil, status.Errorf(status.Unsupported, "models in separate processes are not supported on %s",
		runtime.GOOS)
}

type (
	guard struct{}
	kin   struct{}
)

func (*guard) close() {}

func (l *Launcher) run() {
	<-l.stop
	close(l.done)
}

// The methods of a Process are never called: there is none.

func (p *Process) Wait() string         { return "" }
func (p *Process) NoteKin()             {}
func (p *Process) HangUp()              {}
func (p *Process) TrySend([]byte) error { return nil }
func (p *Process) StopOutput(time.Time) {}
func (p *Process) Close()               {}
func (p *Process) ResidentBytes() int64 { return 0 }

func oomKills() int64 { return 0 }
