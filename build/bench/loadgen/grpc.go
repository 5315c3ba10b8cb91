package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"nereid/engine/client"
)

const inferMethod = "/inference.GRPCInferenceService/ModelInfer"

// bytesCodec passes messages through as bytes, so that the client spends nothing on encoding.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("bytesCodec: cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("bytesCodec: cannot receive into a %T", v)
	}
	n := data.Len()
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	data.CopyTo(*b)
	return nil
}

func (bytesCodec) Name() string { return "proto" }

// dialGRPC opens n gRPC connections to addr.
func dialGRPC(addr string, n int) ([]*grpc.ClientConn, error) {
	var conns []*grpc.ClientConn
	for range n {
		c, err := grpc.NewClient("passthrough:///"+addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}),
				grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// grpcSender sends one prepared message through grpc-go, over a connection that it shares with other senders.
type grpcSender struct {
	conn    *grpc.ClientConn
	request []byte
	body    []byte
}

func (s *grpcSender) exchange(ctx context.Context) ([]byte, error) {
	err := s.conn.Invoke(ctx, inferMethod, s.request, &s.body)
	return s.body, err
}

func (s *grpcSender) decode(body []byte) (*client.Response, error) { return decodeGRPC(body) }

func (s *grpcSender) close() {}
