package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"syscall"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/staging"
	"nereid/engine/status"
	"nereid/store"
)

const maxJSONBody = 20 << 20 // a configuration may have 16 MiB

// apiError is an error with the code that the page is to see.
type apiError struct {
	code   api.Code
	text   string
	faults []api.Fault
}

func (e *apiError) Error() string { return e.text }

func fail(code api.Code, format string, args ...any) error {
	return &apiError{code: code, text: fmt.Sprintf(format, args...)}
}

var httpStatus = map[api.Code]int{
	api.CodeInvalid: http.StatusBadRequest, api.CodeForbidden: http.StatusForbidden, api.CodeNotFound: http.StatusNotFound,
	api.CodeConflict: http.StatusConflict, api.CodeConsent: http.StatusPreconditionFailed,
	api.CodeTooLarge: http.StatusRequestEntityTooLarge, api.CodeUnsupported: http.StatusNotImplemented,
	api.CodeUnavailable: http.StatusServiceUnavailable, api.CodeInternal: http.StatusInternalServerError,
}

// codeOf chooses the code for an error of the packages below.
func codeOf(err error) api.Code {
	var own *apiError
	var staged *staging.Error
	var tooBig *http.MaxBytesError
	var coded *status.Error
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &staged):
		return map[staging.Kind]api.Code{staging.Invalid: api.CodeInvalid, staging.TooLarge: api.CodeTooLarge, staging.Conflict: api.CodeConflict}[staged.Kind]
	case errors.As(err, &tooBig):
		return api.CodeTooLarge
	case errors.Is(err, store.ErrNotFound):
		return api.CodeNotFound
	case errors.Is(err, store.ErrClosed), errors.Is(err, syscall.ENOSPC):
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

// handle turns a function into a handler: the error that it answers, before it wrote anything, is the reply.
func (c *Console) handle(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if err := h(w, r); err != nil {
			c.writeError(w, r, err)
		}
	})
}

func (c *Console) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // nobody listens
	}
	code := codeOf(err)
	if code == api.CodeInternal {
		c.log.Error("console request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	body := api.Error{Error: err.Error(), Code: code}
	var own *apiError
	if errors.As(err, &own) {
		body.Faults = own.faults
	}
	writeJSON(w, httpStatus[code], body)
}

// writeJSON encodes before it writes, so that a value that cannot be encoded is an error and not half an answer.
func writeJSON(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if err := enc.Encode(v); err != nil {
		code = http.StatusInternalServerError
		b.Reset()
		_ = enc.Encode(api.Error{Error: "the answer cannot be encoded: " + err.Error(), Code: api.CodeInternal})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // an error here is the reader's leaving
}

func reply(w http.ResponseWriter, v any) error {
	writeJSON(w, http.StatusOK, v)
	return nil
}

func noContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readJSON reads the request's body, one JSON value with known fields, into v. An empty body leaves v as it is.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJSONBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == io.EOF {
		return nil
	}
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("something follows the JSON value")
		}
	}
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return fail(api.CodeTooLarge, "the request has more than %d bytes", maxJSONBody)
	case err != nil:
		return fail(api.CodeInvalid, "the request's body is not the JSON that is expected: %v", err)
	}
	return nil
}

// rateLimit allows n things a minute.
type rateLimit struct {
	mu    sync.Mutex
	begin time.Time // guarded by mu, as is n
	n     int
}

func (l *rateLimit) allow(most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.begin) >= time.Minute {
		l.begin, l.n = now, 0
	}
	l.n++
	return l.n <= most
}
