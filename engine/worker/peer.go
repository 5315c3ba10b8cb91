package worker

import (
	"encoding/binary"
	"log/slog"

	"nereid/engine/tensor"
	"nereid/engine/worker/frames"
)

// Connector is a Handler that asks the server for something.
type Connector interface {
	// Connect is called once, before the other methods.
	Connect(p *Peer)
}

// Peer is the server, for a process that is written in Go. Its methods are safe for concurrent use.
type Peer struct{ s *server }

// Reserve returns n bytes of shared memory for an output; nil: there is no room. The caller has the one reference.
func (p *Peer) Reserve(n int) *tensor.Buffer { return p.s.up.Reserve(n) }

// Log sends a line of the model's log. file may be empty.
func (p *Peer) Log(level slog.Level, file string, line int, text string) {
	file = file[:min(len(file), 1<<12)]
	n := byte(0)
	switch {
	case level >= slog.LevelError:
		n = 3
	case level >= slog.LevelWarn:
		n = 2
	case level >= slog.LevelInfo:
		n = 1
	}
	body := binary.LittleEndian.AppendUint16([]byte{n, 0}, uint16(len(file)))
	body = binary.LittleEndian.AppendUint32(body, uint32(line))
	body = append(append(body, file...), text...)
	_ = p.s.sendBytes(frames.KindLog, 0, body) // without a connection the process ends
}
