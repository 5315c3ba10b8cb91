package grpcapi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// codeOf maps Triton's codes to gRPC's.
func codeOf(c status.Code) codes.Code {
	switch c {
	case status.Internal:
		return codes.Internal
	case status.NotFound:
		return codes.NotFound
	case status.InvalidArg:
		return codes.InvalidArgument
	case status.Unavailable:
		return codes.Unavailable
	case status.Unsupported:
		return codes.Unimplemented
	case status.AlreadyExists:
		return codes.AlreadyExists
	case status.Cancelled:
		return codes.Canceled
	}
	return codes.Unknown
}

// wireError turns an error of the engine into a gRPC status with the same text. gRPC statuses are returned as they are.
func wireError(err error) error {
	if _, ok := grpcstatus.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return grpcstatus.Error(codes.DeadlineExceeded, err.Error())
	}
	if errors.Is(err, tensor.ErrNoRoom) {
		return grpcstatus.Error(codes.ResourceExhausted, err.Error())
	}
	return grpcstatus.Error(codeOf(status.CodeOf(err)), err.Error())
}

func unimplemented(text string) error { return grpcstatus.Error(codes.Unimplemented, text) }
