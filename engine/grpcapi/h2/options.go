package h2

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

// Options configure a Server. Only Codec is required.
type Options struct {
	Codec encoding.CodecV2 // of the messages that SendMsg and RecvMsg are given
	Log   *slog.Logger     // nil: slog.Default
	TLS   *tls.Config      // nil: plain text
	Pool  *tensor.Pool     // for received messages; nil: a new one

	// MaxReceiveBytes bounds one received message. 0: 2 GiB - 1.
	MaxReceiveBytes int
	// MaxInflatedBytes bounds the content of a compressed message in addition. 0: 256 MiB.
	MaxInflatedBytes int
	// MaxConcurrentStreams bounds the concurrent calls of one connection. 0: 4096.
	MaxConcurrentStreams uint32
	// MaxHeaderBytes bounds a call's headers as RFC 9113 counts them: names, values and 32 bytes per field. 0: 64 KiB.
	MaxHeaderBytes uint32
	// MaxFrameBytes bounds the payload of a frame that a client sends, 16 KiB to 16 MiB - 1. 0: 256 KiB. The content of
	// large frames is read directly into the message's buffer.
	MaxFrameBytes uint32
	// ConnectionTimeout bounds the TLS handshake and the time to the client's first settings. 0: 20 s.
	ConnectionTimeout time.Duration

	// StallTimeout is how long a client may send nothing within a frame or a message, or read nothing of what is sent.
	// For its first call it has firstCallStalls times as long. 0: a minute.
	StallTimeout time.Duration
	// MaxConnections bounds the connections; others are closed at once. 0: 65536.
	MaxConnections int

	// Failed, if not nil, is called for each call that ends with another status than OK. begun: it
	// is an inline call whose message was handed on. It must not block.
	Failed func(method string, client net.Addr, st *grpcstatus.Status, begun bool)

	// Keepalive's zero fields mean: no idle limit, no age limit, no grace limit, 2 h, 20 s.
	Keepalive keepalive.ServerParameters
	// Enforcement's zero fields mean: 5 minutes, no.
	Enforcement keepalive.EnforcementPolicy
}

const (
	defaultMaxStreams = 4096
	defaultMaxHeaders = 64 << 10
	defaultMaxFrame   = 256 << 10

	defaultMaxInflated = 256 << 20

	streamWindow = 1 << 20       // bytes of a call that a client may send before the handler has taken them
	connWindow   = 16 << 20      // the same of all calls of a connection
	maxUnread    = 64 << 20      // bytes of messages that no handler has taken, above which the window stays closed
	maxBuffer    = 64 << 10      // bytes of a connection's read buffer
	maxSend      = math.MaxInt32 // bytes of a message to a client
	maxUnsent    = 4 << 20       // bytes of pending output above which answers stay queued in their streams
	maxControl   = 1 << 20       // bytes of pending frames above which the reader stops reading
)

func (o *Options) setDefaults() error {
	if o.Codec == nil {
		return errors.New("h2: Options.Codec is nil")
	}
	if o.MaxInflatedBytes < 0 {
		return fmt.Errorf("h2: MaxInflatedBytes %d is negative; use 0 for 256 MiB", o.MaxInflatedBytes)
	}
	if o.MaxReceiveBytes < 0 {
		return fmt.Errorf("h2: MaxReceiveBytes %d is negative; use 0 for 2 GiB", o.MaxReceiveBytes)
	}
	if o.MaxFrameBytes != 0 && (o.MaxFrameBytes < maxFrame || o.MaxFrameBytes > maxFrameLimit) {
		return fmt.Errorf("h2: MaxFrameBytes %d is not in %d to %d, or 0 for %d",
			o.MaxFrameBytes, maxFrame, maxFrameLimit, defaultMaxFrame)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Pool == nil {
		o.Pool = &tensor.Pool{}
	}
	o.MaxReceiveBytes = cmp.Or(o.MaxReceiveBytes, math.MaxInt32)
	o.MaxInflatedBytes = cmp.Or(o.MaxInflatedBytes, defaultMaxInflated)
	o.MaxConcurrentStreams = cmp.Or(o.MaxConcurrentStreams, defaultMaxStreams)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, defaultMaxHeaders)
	o.MaxFrameBytes = cmp.Or(o.MaxFrameBytes, defaultMaxFrame)
	o.ConnectionTimeout = cmp.Or(o.ConnectionTimeout, 20*time.Second)
	o.StallTimeout = cmp.Or(o.StallTimeout, time.Minute)
	o.MaxConnections = cmp.Or(o.MaxConnections, 65536)
	k := &o.Keepalive
	k.MaxConnectionIdle = cmp.Or(k.MaxConnectionIdle, forever)
	k.MaxConnectionAge = cmp.Or(k.MaxConnectionAge, forever)
	k.MaxConnectionAgeGrace = cmp.Or(k.MaxConnectionAgeGrace, forever)
	k.Time = max(cmp.Or(k.Time, 2*time.Hour), time.Second)
	k.Timeout = cmp.Or(k.Timeout, 20*time.Second)
	o.Enforcement.MinTime = cmp.Or(o.Enforcement.MinTime, 5*time.Minute)
	return nil
}

const forever = time.Duration(math.MaxInt64)
