package h2

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"

	"nereid/engine/tensor"
)

// Options says how to serve. Codec is needed.
type Options struct {
	Codec encoding.CodecV2 // of the messages that SendMsg and RecvMsg are given
	Log   *slog.Logger     // nil: slog.Default
	TLS   *tls.Config      // nil: plain text
	Pool  *tensor.Pool     // of received messages; nil: one of its own

	// MaxReceiveBytes bounds one received message, decompressed. 0: 2 GiB - 1.
	MaxReceiveBytes int
	// MaxConcurrentStreams bounds the calls at once on one connection. 0: 4096.
	MaxConcurrentStreams uint32
	// MaxHeaderBytes bounds a call's headers as RFC 9113 counts them (names, values and 32 a field). 0: 64 KiB.
	MaxHeaderBytes uint32
	// MaxFrameBytes bounds the payload of a frame that a client sends, 16 KiB to 16 MiB - 1. 0: 256 KiB: large messages in
	// large frames are read to where they belong.
	MaxFrameBytes uint32
	// ConnectionTimeout bounds TLS and the first frames. 0: 20 s.
	ConnectionTimeout time.Duration

	// Keepalive's zero fields: no idle limit, no age limit, no grace limit, 2 h, 20 s.
	Keepalive keepalive.ServerParameters
	// Enforcement's zero fields: 5 minutes, no.
	Enforcement keepalive.EnforcementPolicy
}

const (
	defaultMaxStreams = 4096
	defaultMaxHeaders = 64 << 10
	defaultMaxFrame   = 256 << 10

	streamWindow = 1 << 20       // what a client may send of a call before it is read
	connWindow   = 16 << 20      // of all calls of a connection
	maxUnread    = 64 << 20      // whole messages that handlers have not taken; beyond, the connection's window is not renewed
	maxBuffer    = 64 << 10      // of a connection's reads
	maxSend      = math.MaxInt32 // bytes of a message to a client
	maxUnsent    = 4 << 20       // bytes waiting for the socket, beyond which answers wait in their streams
	maxControl   = 1 << 20       // the same, beyond which the reader waits
)

func (o *Options) setDefaults() error {
	if o.Codec == nil {
		return errors.New("h2: Options.Codec is nil")
	}
	if o.MaxReceiveBytes < 0 {
		return fmt.Errorf("h2: MaxReceiveBytes %d is negative; use 0 for 2 GiB", o.MaxReceiveBytes)
	}
	if o.MaxFrameBytes != 0 && (o.MaxFrameBytes < maxFrame || o.MaxFrameBytes > maxFrameLimit) {
		return fmt.Errorf("h2: MaxFrameBytes %d is not in %d to %d, or 0 for %d", o.MaxFrameBytes, maxFrame, maxFrameLimit, defaultMaxFrame)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Pool == nil {
		o.Pool = &tensor.Pool{}
	}
	o.MaxReceiveBytes = orElse(o.MaxReceiveBytes, math.MaxInt32)
	o.MaxConcurrentStreams = orElse(o.MaxConcurrentStreams, defaultMaxStreams)
	o.MaxHeaderBytes = orElse(o.MaxHeaderBytes, defaultMaxHeaders)
	o.MaxFrameBytes = orElse(o.MaxFrameBytes, defaultMaxFrame)
	o.ConnectionTimeout = orElse(o.ConnectionTimeout, 20*time.Second)
	k := &o.Keepalive
	k.MaxConnectionIdle = orElse(k.MaxConnectionIdle, forever)
	k.MaxConnectionAge = orElse(k.MaxConnectionAge, forever)
	k.MaxConnectionAgeGrace = orElse(k.MaxConnectionAgeGrace, forever)
	k.Time = max(orElse(k.Time, 2*time.Hour), time.Second)
	k.Timeout = orElse(k.Timeout, 20*time.Second)
	o.Enforcement.MinTime = orElse(o.Enforcement.MinTime, 5*time.Minute)
	return nil
}

const forever = time.Duration(math.MaxInt64)

func orElse[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
