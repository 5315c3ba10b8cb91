package status

import (
	"context"
	"errors"
	"fmt"
)

// Code is a Triton error code. The numbers are those of TRITONSERVER_Error_Code.
type Code uint8

// The codes, in Triton's order.
const (
	Unknown Code = iota
	Internal
	NotFound
	InvalidArg
	Unavailable
	Unsupported
	AlreadyExists
	Cancelled
)

var names = [...]string{
	Unknown:       "Unknown",
	Internal:      "Internal",
	NotFound:      "Not found",
	InvalidArg:    "Invalid argument",
	Unavailable:   "Unavailable",
	Unsupported:   "Unsupported",
	AlreadyExists: "Already exists",
	Cancelled:     "Cancelled",
}

// String returns Triton's name for the code, as its log and its repository index show it: "Invalid argument".
func (c Code) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Code(%d)", uint8(c))
}

// Error is an error with a code. Clients see its message unchanged.
type Error struct {
	Code Code
	Msg  string
	// Err is the cause, or nil. Its text is already part of Msg when Errorf made the error.
	Err error
}

// Error returns the message without the code.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error with a code. The format may contain one %w, as for fmt.Errorf.
func Errorf(c Code, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// New returns an error with a code and a message.
func New(c Code, msg string) error { return &Error{Code: c, Msg: msg} }

// CodeOf returns the code of the outermost Error that err wraps. A cancelled context and an exceeded deadline are
// Cancelled, and any other error is Internal. err must not be nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Cancelled
	}
	return Internal
}

// Reason returns the code and the message, "Invalid argument: text", as in the repository index and load errors.
func Reason(err error) string { return CodeOf(err).String() + ": " + err.Error() }
