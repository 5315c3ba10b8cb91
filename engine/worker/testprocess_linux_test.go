package worker

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// The test program can be a worker's process: an environment variable says what it does.

// sendFrame sends a frame to the server. If the server has ended, the process exits.
func sendFrame(h frames.Header, body []byte) {
	h.Length = uint32(len(body))
	packet := make([]byte, frames.HeaderSize, frames.HeaderSize+len(body))
	h.Put(packet)
	if _, err := unix.Write(process.ControlFD, append(packet, body...)); err != nil {
		os.Exit(0)
	}
}

// sayHello sends a HELLO.
func sayHello() {
	sendFrame(frames.Header{Kind: frames.KindHello}, []byte(`{"protocol": 1, "pid": 1}`))
}

// awaitExecute waits for an execution and returns its number and the ticket of its first request.
func awaitExecute() (exec, ticket uint64) {
	buf := make([]byte, frames.MaxPacket)
	n, err := unix.Read(process.ControlFD, buf)
	if err != nil || n < frames.HeaderSize+24 {
		os.Exit(0)
	}
	return binary.LittleEndian.Uint64(buf[8:]), binary.LittleEndian.Uint64(buf[frames.HeaderSize+8+8:])
}

// responsesBody is the body of RESPONSES with one response.
func responsesBody(resp *infer.Response, ticket uint64) ([]byte, error) {
	e := &frames.Encoder{}
	e.Begin()
	e.Responses(1)
	if err := e.Response(resp, ticket); err != nil {
		return nil, err
	}
	packet, err := e.Finish(frames.KindResponses, 0, 1)
	if err != nil {
		return nil, err
	}
	return packet[frames.HeaderSize:], nil
}
