package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/engine/tensor"
)

// MaxBody is the largest JSON body of a request, in bytes. A configuration may have 16 MiB.
const MaxBody = 20 << 20

// Endpoint is the handler of one route.
type Endpoint struct {
	// Request and Response are the names of the JSON bodies in package api, "" for none.
	Request, Response string
	// Status of success.
	Status int

	// serve returns the value to reply with; nil for none.
	serve func(w http.ResponseWriter, r *http.Request) (any, error)
	raw   bool // serve writes the reply
	cache string
	limit int64        // of the JSON body, in bytes
	scope access.Scope // of which a client needs one; one with access.Admin may use every route
}

// Reply is an Endpoint without a request body that replies with a value.
func Reply[Out any](f func(*http.Request) (Out, error)) Endpoint {
	return Endpoint{Response: nameOf[Out](), Status: http.StatusOK,
		serve: func(_ http.ResponseWriter, r *http.Request) (any, error) { return f(r) }}
}

// Call is an Endpoint that reads a JSON body and replies with a value. An empty body is a zero In.
func Call[In, Out any](f func(*http.Request, *In) (Out, error)) Endpoint {
	return Endpoint{Request: nameOf[In](), Response: nameOf[Out](), Status: http.StatusOK, limit: MaxBody,
		serve: func(_ http.ResponseWriter, r *http.Request) (any, error) {
			in := new(In)
			if err := Read(r, in); err != nil {
				return nil, err
			}
			return f(r, in)
		}}
}

// Do is an Endpoint without any JSON body. It replies with 204.
func Do(f func(*http.Request) error) Endpoint {
	return Endpoint{Status: http.StatusNoContent,
		serve: func(_ http.ResponseWriter, r *http.Request) (any, error) { return nil, f(r) }}
}

// Raw is an Endpoint that writes its own reply. f returns an error only before it has written anything.
func Raw(f func(http.ResponseWriter, *http.Request) error) Endpoint {
	return Endpoint{Status: http.StatusOK, raw: true,
		serve: func(w http.ResponseWriter, r *http.Request) (any, error) { return nil, f(w, r) }}
}

// With returns e with another status of success.
func (e Endpoint) With(status int) Endpoint {
	e.Status = status
	return e
}

// For returns e for clients with one of these scopes too. Without it an Endpoint is for access.Admin only.
func (e Endpoint) For(scope access.Scope) Endpoint {
	e.scope = scope
	return e
}

// Cached returns e with replies that a browser may keep for an hour.
func (e Endpoint) Cached() Endpoint {
	e.cache = "max-age=3600"
	return e
}

// Reads returns e, made by Raw, with a JSON body of a type of package api that has at most limit bytes.
func (e Endpoint) Reads(request string, limit int64) Endpoint {
	e.Request, e.limit = request, limit
	return e
}

// Handler serves e. The log receives internal errors. memory counts JSON bodies of requests and replies; nil: nobody
// does.
func (e Endpoint) Handler(log *slog.Logger, memory *tensor.Budget) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", cmp.Or(e.cache, "no-store"))
		if has := ScopeOf(r); has&(e.scope|access.Admin) == 0 {
			WriteError(w, r, Errorf(api.CodeForbidden, "the token does not open this; it needs the scope %s",
				cmp.Or(e.scope, access.Admin)), log)
			return
		}
		var out any
		size, err := e.takeBody(r, memory)
		if err == nil {
			defer memory.Give(size)
			if e.Request != "" {
				r.Body = http.MaxBytesReader(w, r.Body, e.limit)
			}
			out, err = e.serve(w, r)
		}
		switch {
		case err != nil:
			WriteError(w, r, err, log)
		case e.raw:
		case out == nil:
			w.WriteHeader(e.Status)
		default:
			body, status := encode(e.Status, out)
			if err := memory.Take(int64(len(body)), 0); err != nil {
				WriteError(w, r, err, log)
				return
			}
			defer memory.Give(int64(len(body)))
			if len(body) >= leastGzip && AcceptsGzip(r) {
				if packed, err := Gzip(body, gzip.BestSpeed); err == nil {
					body = packed
					w.Header().Set("Content-Encoding", "gzip")
				}
			}
			write(w, status, body)
		}
	})
}

// takeBody takes the memory of a JSON body, whose size it returns. It refuses one that is announced and too large
// without waiting for it.
func (e Endpoint) takeBody(r *http.Request, memory *tensor.Budget) (int64, error) {
	if e.Request == "" || r.ContentLength == 0 {
		return 0, nil
	}
	if r.ContentLength > e.limit {
		return 0, tooLarge(e.limit)
	}
	size := r.ContentLength
	if size < 0 { // not announced
		size = e.limit
	}
	return size, memory.Take(size, 0)
}

func tooLarge(limit int64) error {
	return Errorf(api.CodeTooLarge, "the request has more than %d bytes", limit)
}

func nameOf[T any]() string { return reflect.TypeFor[T]().Name() }

// WriteError replies with an error. It writes nothing if the client has gone.
func WriteError(w http.ResponseWriter, r *http.Request, err error, log *slog.Logger) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	code := CodeOf(err)
	if code == api.CodeInternal {
		log.Error("console request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	body := api.Error{Error: err.Error(), Code: code}
	if code == api.CodeDiskFull {
		body.Error = "a disk of the server is full: " + body.Error + "; free some space, then try again"
	}
	var own *Error
	if errors.As(err, &own) {
		body.Faults = own.Faults
	}
	Write(w, httpStatus[code], body)
}

// Write replies with a JSON value. A value that cannot be encoded becomes an internal error.
func Write(w http.ResponseWriter, status int, v any) {
	body, status := encode(status, v)
	write(w, status, body)
}

// encode returns a JSON value and its status.
func encode(status int, v any) ([]byte, int) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if err := enc.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		_ = enc.Encode(api.Error{Error: "the answer cannot be encoded: " + err.Error(), Code: api.CodeInternal})
	}
	return b.Bytes(), status
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has gone
}

// Number reads a whole number of a query that is from least to most; an absent one is def.
func Number(q url.Values, name string, def, least, most int64) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, Errorf(api.CodeInvalid, "%s=%s must be a whole number from %d to %d", name, Quote(text), least, most)
	}
	return n, nil
}

// Read decodes the request's body, one JSON value with known fields, into v. An empty body leaves v as it is. The body
// has the limit of its Endpoint.
func Read(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
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
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(over.Limit)
	case err != nil:
		return Errorf(api.CodeInvalid, "the request's body is not the JSON that is expected: %v", err)
	}
	return nil
}
