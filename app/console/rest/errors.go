package rest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"nereid/app/console/api"
	"nereid/engine/status"
	"nereid/store"
)

// Error is an error with the code that the page acts on.
type Error struct {
	Code   api.Code
	Text   string
	Faults []api.Fault // places in a configuration text, if the error is about one
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Errorf returns an *Error without faults.
func Errorf(code api.Code, format string, args ...any) error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

var httpStatus = map[api.Code]int{
	api.CodeInvalid:         http.StatusBadRequest,
	api.CodeUnauthenticated: http.StatusUnauthorized,
	api.CodeForbidden:       http.StatusForbidden,
	api.CodeNotFound:        http.StatusNotFound,
	api.CodeConflict:        http.StatusConflict,
	api.CodeConsent:         http.StatusPreconditionFailed,
	api.CodeTooLarge:        http.StatusRequestEntityTooLarge,
	api.CodeUnsupported:     http.StatusNotImplemented,
	api.CodeUnavailable:     http.StatusServiceUnavailable,
	api.CodeInternal:        http.StatusInternalServerError,
	api.CodeDiskFull:        http.StatusInsufficientStorage,
}

// CodeOf returns the code of an error: its own if it is an *Error, or that of the error of the package below.
func CodeOf(err error) api.Code {
	var own *Error
	var tooLarge *http.MaxBytesError
	var coded *status.Error
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &tooLarge):
		return api.CodeTooLarge
	case errors.Is(err, store.ErrNotFound):
		return api.CodeNotFound
	case DiskFull(err):
		return api.CodeDiskFull
	case errors.Is(err, store.ErrClosed):
		return api.CodeUnavailable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return api.CodeForbidden
	case errors.As(err, &coded):
		switch coded.Code {
		case status.InvalidArg:
			return api.CodeInvalid
		case status.NotFound:
			return api.CodeNotFound
		case status.Unavailable, status.Cancelled:
			return api.CodeUnavailable
		case status.Unsupported:
			return api.CodeUnsupported
		case status.AlreadyExists:
			return api.CodeConflict
		}
	}
	return api.CodeInternal
}

// DiskFull reports whether an error is that a disk, or the quota of the server's user, has no space left.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, store.ErrFull)
}

// Quote makes a value from a request safe to show: short, in quotes and without control characters.
func Quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return "\"" + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s) + "\""
}

// Clip shortens a text for the log to 4000 bytes and makes it valid UTF-8.
func Clip(s string) string {
	const most = 4000
	s = strings.ToValidUTF8(s, "?")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
