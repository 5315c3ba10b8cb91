package app

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// http2Frames opens an HTTP/2 connection and confirms the settings. It calls each for every frame that the server
// sends, with its type, flags and payload, and once with frameEnd when the connection ends. It returns when each
// returns true.
func http2Frames(t *testing.T, address string, each func(write func(kind, flags byte, payload []byte), kind, flags byte,
	payload []byte) bool) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	write := func(kind, flags byte, payload []byte) {
		// after a failure, reading fails too
		_, _ = c.Write(append([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, 0}, payload...))
	}
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	write(4, 0, nil)
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			each(write, frameEnd, 0, nil)
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
		if _, err := io.ReadFull(c, payload); err != nil {
			t.Fatal(err)
		}
		if head[3] == 4 && head[4]&1 == 0 {
			write(4, 1, nil)
		}
		if each(write, head[3], head[4], payload) {
			return
		}
	}
}

const (
	framePing   = 6
	frameGoAway = 7
	frameEnd    = 0xff // the connection ended
)

func TestKeepaliveWorks(t *testing.T) {
	t.Run("B075 a silent client is pinged and dropped", func(t *testing.T) {
		r := runServer(t, "", "--grpc-keepalive-time=1000", "--grpc-keepalive-timeout=300")
		pinged, ended := false, false
		http2Frames(t, r.at("grpc"), func(_ func(kind, flags byte, payload []byte), kind, flags byte, _ []byte) bool {
			pinged = pinged || kind == framePing && flags&1 == 0
			ended = kind == frameEnd
			return ended // the ping is not answered
		})
		if !pinged || !ended {
			t.Errorf("pinged %v, ended %v; want both", pinged, ended)
		}
	})
	t.Run("B075 a connection has an age", func(t *testing.T) {
		r := runServer(t, "", "--grpc-max-connection-age=500", "--grpc-max-connection-age-grace=100")
		gone := false
		http2Frames(t, r.at("grpc"), func(write func(kind, flags byte, payload []byte), kind, flags byte,
			payload []byte) bool {
			if kind == framePing && flags&1 == 0 {
				write(framePing, 1, payload)
			}
			gone = gone || kind == frameGoAway
			return kind == frameEnd
		})
		if !gone {
			t.Error("the connection ended without GOAWAY")
		}
	})
	t.Run("B075 a client that pings too often is disconnected", func(t *testing.T) {
		r := runServer(t, "", "--grpc-http2-min-recv-ping-interval-without-data=60000",
			"--grpc-keepalive-permit-without-calls=true")
		why := ""
		http2Frames(t, r.at("grpc"), func(write func(kind, flags byte, payload []byte), kind, flags byte,
			payload []byte) bool {
			if kind == frameGoAway && len(payload) > 8 {
				why = string(payload[8:])
			}
			if kind == 4 || kind == framePing && flags&1 == 1 {
				write(framePing, 0, make([]byte, 8))
			}
			return kind == frameEnd
		})
		if why != "too_many_pings" {
			t.Errorf("GOAWAY says %q, want too_many_pings", why)
		}
	})
}
