package worker

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// The test program as a worker: what it does by itself, without a runtime of its language.

// speak sends a frame to the server; where that has gone, the process ends.
func speak(h header, body []byte) {
	h.length = uint32(len(body))
	packet := make([]byte, headerSize, headerSize+len(body))
	putHeader(packet, h)
	if _, err := unix.Write(controlFD, append(packet, body...)); err != nil {
		os.Exit(0)
	}
}

// greet says hello.
func greet() { speak(header{kind: kindHello}, []byte(`{"protocol": 1, "pid": 1}`)) }

// listen waits for an execution and returns its number and the ticket of its first request.
func listen() (exec, ticket uint64) {
	buf := make([]byte, maxPacket)
	n, err := unix.Read(controlFD, buf)
	if err != nil || n < headerSize+24 {
		os.Exit(0)
	}
	return binary.LittleEndian.Uint64(buf[8:]), binary.LittleEndian.Uint64(buf[headerSize+8+8:])
}
