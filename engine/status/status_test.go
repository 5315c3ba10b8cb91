package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestCodeOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want Code
	}{
		{"coded", New(NotFound, "no"), NotFound},
		{"wrapped", fmt.Errorf("load: %w", Errorf(Unavailable, "full")), Unavailable},
		{"outermost wins", Errorf(InvalidArg, "outer: %w", New(NotFound, "inner")), InvalidArg},
		{"plain", io.EOF, Internal},
		{"cancelled context", context.Canceled, Cancelled},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), Cancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CodeOf(tt.err); got != tt.want {
				t.Errorf("CodeOf(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

func TestErrorfKeepsTheCause(t *testing.T) {
	err := Errorf(Internal, "read model: %w", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("errors.Is(%v, io.ErrUnexpectedEOF) = false", err)
	}
	if got, want := Reason(err), "Internal: read model: unexpected EOF"; got != want {
		t.Errorf("Reason = %q, want %q", got, want)
	}
}
