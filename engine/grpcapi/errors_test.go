package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/status"
)

func TestWireError(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want codes.Code
	}{
		{"B071 Unknown", status.New(status.Unknown, "x"), codes.Unknown},
		{"B071 Internal", status.New(status.Internal, "x"), codes.Internal},
		{"B071 NotFound", status.New(status.NotFound, "x"), codes.NotFound},
		{"B071 InvalidArg", status.New(status.InvalidArg, "x"), codes.InvalidArgument},
		{"B071 Unavailable", status.New(status.Unavailable, "x"), codes.Unavailable},
		{"B071 Unsupported", status.New(status.Unsupported, "x"), codes.Unimplemented},
		{"B071 AlreadyExists", status.New(status.AlreadyExists, "x"), codes.AlreadyExists},
		{"B071 Cancelled", status.New(status.Cancelled, "x"), codes.Canceled},
		{"no code", errors.New("x"), codes.Internal},
		{"wrapped", fmt.Errorf("y: %w", status.New(status.NotFound, "x")), codes.NotFound},
		{"context", context.Canceled, codes.Canceled},
		{"deadline", context.DeadlineExceeded, codes.DeadlineExceeded},
		{"a gRPC status", grpcstatus.Error(codes.Unauthenticated, "x"), codes.Unauthenticated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := grpcstatus.Convert(wireError(tt.err))
			want := tt.err.Error()
			if tt.want == codes.Unauthenticated {
				want = "x"
			}
			if got.Code() != tt.want || got.Message() != want {
				t.Errorf("wireError(%v) = %v: %s, want %v: %s", tt.err, got.Code(), got.Message(), tt.want, want)
			}
		})
	}
}
