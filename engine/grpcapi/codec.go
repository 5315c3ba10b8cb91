package grpcapi

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	pb "google.golang.org/protobuf/proto"
)

// codec is the server's encoding.CodecV2. It sends encoded messages as they are. For an *incoming and for plain
// messages it uses protobuf's generated code. A *message takes its bytes without the codec: it is an h2.Receiver.
type codec struct{ generated encoding.CodecV2 }

// incoming receives a message of the generated types. If the message does not parse, err says why: an error that the
// codec returns would reach the client as Internal in place of InvalidArgument.
type incoming struct {
	msg pb.Message
	err error
}

func newCodec() codec { return codec{generated: encoding.GetCodecV2(proto.Name)} }

// Marshal returns the buffers of an encoded message, with their references, and encodes generated messages.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if encoded, ok := v.(mem.BufferSlice); ok {
		return encoded, nil
	}
	return c.generated.Marshal(v)
}

// Unmarshal decodes data into an *incoming or a generated message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *incoming:
		if err := c.generated.Unmarshal(data, v.msg); err != nil {
			v.err = malformed(string(v.msg.ProtoReflect().Descriptor().Name()))
		}
		return nil
	case pb.Message: // of the reflection service
		return c.generated.Unmarshal(data, v)
	}
	return fmt.Errorf("grpcapi: no decoder for %T", v)
}

// Name returns "proto", the content subtype that clients name.
func (codec) Name() string { return proto.Name }

var _ encoding.CodecV2 = codec{}
