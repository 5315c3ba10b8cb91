//go:build !linux

package worker

import (
	"os"
	"runtime"
	"time"

	"nereid/engine/status"
)

// Elsewhere there are no workers: what they stand on (memfd, sealed; seqpacket sockets; the parent-death signal) is Linux's.

func notSupported() error {
	return status.Errorf(status.Unsupported, "models in processes of their own are not supported on %s", runtime.GOOS)
}

type guard struct{}

func (*guard) close() {}

func (l *Launcher) run() {
	<-l.stop
	close(l.done)
}

type process struct {
	l        *Launcher
	proc     *os.Process
	pid      int
	socket   *os.File
	outputs  [2]*os.File
	down, up *mapping
}

func (l *Launcher) spawn(*Spec) (*process, error) { return nil, notSupported() }

func (p *process) wait() (*os.ProcessState, string) { return nil, "" }
func (p *process) hangUp()                          {}
func (p *process) sendNow([]byte) error             { return notSupported() }
func (p *process) drain(time.Time)                  {}
func (p *process) close()                           {}

func (m *mapping) unmap()           {}
func (m *mapping) punch(_, _ int64) {}

// ResidentBytes returns 0: there are no workers.
func (w *Worker) ResidentBytes() int64 { return 0 }

func connect() (*peer, error) { return nil, notSupported() }

func oomKills() int64 { return 0 }

func monotonic() int64 { return 0 }
