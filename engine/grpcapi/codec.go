package grpcapi

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	pb "google.golang.org/protobuf/proto"
)

// codec is the server's encoding.CodecV2. *message and *reply are ours, *incoming and plain messages protobuf's.
// A message that does not parse is noted in its holder, not returned: grpc-go would answer Internal, and the client is
// told InvalidArgument.
type codec struct{ generated encoding.CodecV2 }

// incoming receives a message of the generated types.
type incoming struct {
	msg pb.Message
	err error // what is wrong with it, for the client
}

func newCodec() codec { return codec{generated: encoding.GetCodecV2(proto.Name)} }

// Marshal hands out the buffers of a *reply, and encodes generated messages.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*reply); ok {
		return r.bufs, nil
	}
	return c.generated.Marshal(v)
}

// Unmarshal decodes data into a *message or an *incoming. A received *message refers to data's memory and holds
// references on it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *message:
		v.unmarshal(data)
		return nil
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
