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

// String gives Triton's words for the code, as its log and its repository index show them: "Invalid argument".
func (c Code) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Code(%d)", uint8(c))
}

// Error is an error with a code. Its text is the message alone: clients see it as it is.
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

// Errorf makes an error with a code. The format takes %w as fmt.Errorf does.
func Errorf(c Code, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// New makes an error with a code from a finished message.
func New(c Code, msg string) error { return &Error{Code: c, Msg: msg} }

// CodeOf returns the code of the outermost coded error in err's chain. Context errors count as Cancelled
// (a deadline too: the caller is gone); any other error is Internal. It must not be called with nil.
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

// Reason returns "Invalid argument: text", the form of the repository index and of load errors.
func Reason(err error) string { return CodeOf(err).String() + ": " + err.Error() }
