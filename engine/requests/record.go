package requests

import (
	"cmp"
	"net"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// Outcome says how a request ended.
type Outcome uint8

// The outcomes. A request is refused if its answer has a cause of package refusals.
const (
	OK Outcome = iota
	Failed
	Refused
	Cancelled

	NumOutcomes
)

// String returns the outcome as the console's interface has it.
func (o Outcome) String() string { return [...]string{"ok", "failed", "refused", "cancelled"}[o] }

// The protocols of requests. Steps of ensembles and calls of models (BLS) have names of their own.
const (
	HTTP     = "http"
	GRPC     = "grpc"
	Page     = "page"   // HTTP, from the page of this server
	Replay   = "replay" // HTTP, a kept request that the page sends again
	Ensemble = "ensemble"
	BLS      = "bls"
)

const (
	maxID   = 64  // bytes of a request's ID
	maxText = 300 // bytes of a text
)

// Record is one request. A stamp of 0 means that the request did not come that far.
type Record struct {
	// ID is higher than those before. It is when the request began, in microseconds since 1970, unless the clock was
	// set back or there were several requests in a microsecond.
	ID     int64
	Parent int64 // the ID of the request whose execution made this one; 0: a client made it
	Root   int64 // the first of the parents; 0: a client made it

	Protocol string
	Client   net.Addr // nil: a model made it
	Model    string   // as the client wrote it if there is none of that name; "" if it could not be read
	Version  int64    // 0 if it reached no version
	id       [maxID]byte
	idLen    uint8

	Outcome Outcome
	Slow    bool   // set by Mark
	Cached  bool   // answered by the response cache
	Status  int    // of HTTP or gRPC; 0 for what a model made
	Cause   string // of a refusal; see package refusals
	Text    string // the error
	Target  string // of a request that has no record of an inference: what it asked for

	BytesIn, BytesOut int // of all tensors
	Responses         int
	Rows              int // its own; 0 if it reached no model
	Ran               infer.Ran

	Received infer.Stamp // its first bytes
	infer.Times
	Encoded infer.Stamp // the answer is complete
	Sent    infer.Stamp // the answer is handed to the connection
}

// RequestID returns the ID that the client gave the request.
func (r *Record) RequestID() string { return string(r.id[:r.idLen]) }

// Host returns the client's address without the port; "" if there is no client.
func (r *Record) Host() string {
	if r.Client == nil {
		return ""
	}
	text := r.Client.String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}

// Began returns the first stamp, and Ended the last one.
func (r *Record) Began() infer.Stamp {
	if r.Received != 0 {
		return r.Received
	}
	return r.Arrived
}

// Ended returns the last stamp.
func (r *Record) Ended() infer.Stamp { return max(r.Began(), r.Finished, r.Encoded, r.Sent) }

// Active is a request that has not ended. Its methods do nothing if it is nil, which it is if nothing is recorded. It
// belongs to the goroutine that answers the request, except for those of infer.Record.
type Active struct {
	log   *Log
	users int32 // the front end and the request; changed atomically once both are at work
	// private: its contents are offered to nobody.
	private bool
	Record
}

var _ infer.Record = (*Active)(nil)

// Attach makes the record follow a request. It must be called before the request is handed on, and only once.
func (a *Active) Attach(r *infer.Request) {
	if a != nil {
		a.users++
		r.Record = a
	}
}

// AsPage says that the page of this server sent the request.
func (a *Active) AsPage() {
	if a != nil {
		a.Protocol = Page
	}
}

// AsVisitor says that the public page of this server sent the request.
func (a *Active) AsVisitor() {
	if a != nil {
		a.Protocol, a.private = Page, true
	}
}

// AsReplay says that the page of this server sends a kept request again.
func (a *Active) AsReplay() {
	if a != nil {
		a.Protocol, a.private = Replay, true
	}
}

// About names the model of a request that may not reach it. The name is copied.
func (a *Active) About(model string) {
	if a != nil {
		a.Model = clip(model)
	}
}

// For names what a request without a record of an inference asks for. The text is copied.
func (a *Active) For(target string) {
	if a != nil {
		a.Target = clip(target)
	}
}

// Answer says how the client is answered: with a code of HTTP or gRPC, and with a cause and a text if it is an error.
// An error without a cause is a failure. It stamps the answer as complete.
func (a *Active) Answer(code int, cause, text string) {
	if a == nil {
		return
	}
	a.Encoded, a.Status = infer.Now(), code
	a.Cause, a.Text, a.Outcome = cause, clip(text), OK
	switch {
	case cause != "":
		a.Outcome = Refused
	case code == 0, a.Protocol != GRPC && code < 400:
	case a.Protocol == GRPC && codes.Code(code) == codes.Canceled, a.Protocol != GRPC && code == clientLeft:
		a.Outcome = Cancelled
	default:
		a.Outcome = Failed
	}
}

// Answered reports whether it is known how the client is answered.
func (a *Active) Answered() bool { return a != nil && a.Encoded != 0 }

// clientLeft is the status of a request whose client did not wait, as in logs of nginx.
const clientLeft = 499

// Cancel is Answer for a request that the model has cancelled. code is that of HTTP.
func (a *Active) Cancel(code int) {
	if a != nil {
		a.Answer(code, "", "")
		a.Outcome = Cancelled
	}
}

// Left says that the client did not wait for the answer.
func (a *Active) Left() {
	if a != nil && a.Protocol == GRPC {
		a.Answer(int(codes.Canceled), "", "the client cancelled the call or disconnected")
	} else if a != nil {
		a.Answer(clientLeft, "", "the client disconnected")
	}
}

// Sent says that the answer is on its way. It ends the front end's use: the caller must forget the record.
func (a *Active) Sent() {
	if a == nil {
		return
	}
	a.Record.Sent = infer.Now()
	a.release()
}

// Released implements infer.Record.
func (a *Active) Released(r *infer.Request) {
	n, size := r.Answers()
	a.Times, a.Ran, a.Rows, a.Cached, a.Responses, a.BytesOut = r.Times, r.Ran, r.BatchSize, r.Cache.Hit, n, size
	if s := r.Served; s != nil {
		a.Model, a.Version = s.Name(), s.Version()
	} else if a.Model == "" {
		a.Model = clip(r.ModelName)
	}
	for i := range r.Inputs {
		a.BytesIn += r.Inputs[i].Size()
	}
	a.idLen = uint8(copy(a.id[:], r.ID[:whole(r.ID, maxID)]))
	if a.Parent != 0 {
		a.fail(r.Failed)
	}
	a.release()
}

// fail sets the outcome of a request without a front end.
func (a *Active) fail(err error) {
	if err == nil {
		return
	}
	a.Text, a.Outcome = clip(err.Error()), Failed
	switch status.CodeOf(err) {
	case status.Cancelled:
		a.Outcome = Cancelled
	case status.InvalidArg, status.AlreadyExists:
		a.Outcome, a.Cause = Refused, "invalid"
	case status.NotFound:
		a.Outcome, a.Cause = Refused, "not_found"
	case status.Unavailable:
		a.Outcome, a.Cause = Refused, "unavailable"
	case status.Unsupported:
		a.Outcome, a.Cause = Refused, "unsupported"
	}
}

// Responded implements infer.Record.
func (a *Active) Responded(r *infer.Request, resp *infer.Response) {
	if f := a.log.offer.Load(); f != nil && !a.private {
		(*f)(a.ID, r, resp)
	}
}

// Child implements infer.Record.
func (a *Active) Child(kind string) infer.Record {
	c := a.log.begin(kind, nil, infer.Now())
	c.Received, c.private = 0, a.private
	c.Parent, c.Root = a.ID, cmp.Or(a.Root, a.ID)
	return c
}

// whole returns the length of the longest part of s, up to n bytes, that does not end within a character.
func whole(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

func clip(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToValidUTF8(strings.Clone(s[:whole(s, maxText)]), "?")
}
