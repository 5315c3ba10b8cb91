package httpapi

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"unsafe"

	"nereid/engine/httpapi/compat"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const (
	typeJSON   = "application/json"
	typeText   = "text/plain"
	typeBinary = "application/octet-stream"
)

// exchange is one request and its reply, independent of the HTTP library. A connection has one while it is served and
// uses it again for the next request. The request's slices are valid until the handler returns.
type exchange struct {
	conn   *conn
	route  matched
	access Access // what Options.Authorize is asked
	requestHead
	requestBody
	response

	// What is kept from one request to the next.
	parser    tensorjson.Parser
	out       tensorjson.Builder
	large     tensorjson.LargeOutputs // of the reply: sent between the bytes of its body
	lastModel struct{ segment, name string }
}

// requestHead is what the protocol needs of a request's line and header.
type requestHead struct {
	method  []byte
	path    []byte // as sent, without the query
	http10  bool   // the client speaks HTTP/1.0
	fault   string // what is wrong with the header, "" if nothing is
	headers interface{ Peek(name string) []byte }
	lines   []byte // the lines of the header as they were sent

	host          []byte
	origin        []byte // set by browsers, as the next
	fetchSite     []byte
	authorization []byte

	headerLength    []byte
	hasHeaderLength bool
	contentEncoding []byte
	acceptEncoding  []byte
	fromPage        bool // Nereid-Page: 1: the page of this server sends it
	fromVisitor     bool // Nereid-Page: kiosk: the public page sends it, and it may not use shared memory
	isReplay        bool // Nereid-Page: replay: the page of this server sends a kept request again
	wantTiming      bool // Nereid-Timing: 1 asks for a Server-Timing header in the reply
}

// requestBody is a request's body.
type requestBody struct {
	body    io.Reader  // nil: there is none
	stream  bodyReader // what body is, if there is one
	length  int64      // -1 if it is not known before
	drained bool       // the whole body was read
}

// response is the reply. An empty header field means that the header is not sent.
type response struct {
	status      int
	contentType string
	reply       *tensor.Buffer // the body, if it is finished
	events      io.ReadCloser  // the body, if it is not; whoever sends the reply closes it
	jsonLength  int            // Inference-Header-Content-Length, -1: not sent
	encoding    string         // Content-Encoding
	accept      bool           // send Accept-Encoding: gzip, deflate
	challenge   bool           // send WWW-Authenticate: Bearer
	denied      bool           // the client may not use what it asks for
	cancelled   bool           // the client has left, or the model says so: the reply is no refusal
	closeAfter  bool           // close the connection after the reply
	timing      string         // Server-Timing
	loadReport  string         // endpoint-load-metrics
	corsOrigin  string         // Access-Control-Allow-Origin
	isPreflight bool           // the reply is to a preflight of corsOrigin
}

// reset prepares for the next request.
func (x *exchange) reset() {
	x.requestHead, x.requestBody, x.response = requestHead{}, requestBody{}, response{jsonLength: -1}
}

const (
	// timingName is the request header that asks for the durations inside the server; its value is 1.
	timingName = "Nereid-Timing"
	// pageName is the request header by which a page of this server names itself, for the record of the request.
	// Its value is 1, or kiosk for the public page.
	pageName         = "Nereid-Page"
	headerLengthName = "Inference-Header-Content-Length"
	// tooLongName is what headerReceived adds to a header.
	tooLongName = "Nereid-Body-Too-Long"
)

// take keeps a header that the protocol needs. Names are in their canonical form.
func (x *exchange) take(key, value []byte) {
	switch string(key) {
	case tooLongName:
		x.body, x.length = http.NoBody, math.MaxInt64
	case "Host":
		x.host = value
	case "Origin":
		x.origin = value
	case "Authorization":
		if x.authorization != nil {
			x.fault = "a request must not have two Authorization headers"
		}
		x.authorization = value
	case "Sec-Fetch-Site":
		x.fetchSite = value
	case "Connection":
		if bytes.EqualFold(value, []byte("close")) { // the library knows only small letters
			x.closeAfter = true
		}
	case timingName:
		x.wantTiming = string(value) == "1"
	case pageName:
		x.fromVisitor = string(value) == "kiosk"
		x.isReplay = string(value) == "replay"
		x.fromPage = x.fromVisitor || string(value) == "1"
	case "Accept-Encoding":
		x.acceptEncoding = value
	case "Content-Encoding":
		if x.contentEncoding != nil {
			x.fault = "a request must not have two Content-Encoding headers"
		}
		x.contentEncoding = value
	case headerLengthName:
		if x.hasHeaderLength {
			x.fault = "a request must not have two Inference-Header-Content-Length headers"
		}
		x.headerLength, x.hasHeaderLength = value, true
	}
}

// takeContentType reads the length of the JSON part from a content type that begins with binaryType.
func (x *exchange) takeContentType(binaryType string) error {
	x.hasHeaderLength, x.headerLength = false, nil
	got := x.headers.Peek("Content-Type")
	switch i := bytes.Index(got, []byte(binaryType)); {
	case i < 0:
		return nil
	case i > 0:
		return status.New(status.InvalidArg, "expect MIME type for binary data starts with '"+binaryType+"', got: "+
			tensorjson.Printable(got))
	}
	size := got[len(binaryType):]
	if _, err := strconv.ParseUint(string(size), 10, 31); err != nil {
		return status.New(status.InvalidArg, "Unable to parse inference header size, got: "+tensorjson.Printable(size))
	}
	x.headerLength, x.hasHeaderLength = size, true
	return nil
}

// header returns a header, "" if there is none.
func (x *exchange) header(name string) string { return string(x.headers.Peek(name)) }

// is reports whether the request has a method.
func (x *exchange) is(method string) bool { return string(x.method) == method }

// safeMethod reports whether the method cannot change anything here.
func (x *exchange) safeMethod() bool { return x.is("GET") || x.is("HEAD") || x.is("OPTIONS") }

// empty replies without a body.
func (x *exchange) empty(code int, contentType string) {
	x.status, x.contentType = code, contentType
}

// bytes replies with a body that is not pooled.
func (x *exchange) bytes(code int, contentType string, body []byte) {
	x.status, x.contentType = code, contentType
	x.reply = tensor.NewBuffer(body, nil)
}

// json replies with a JSON body.
func (x *exchange) json(body []byte) { x.bytes(200, typeJSON, body) }

// fail replies with {"error":"…"}.
func (x *exchange) fail(code int, contentType, text string) {
	x.bytes(code, contentType, tensorjson.Error(text))
}

// typedError is an error whose reply has another content type than the route's errors have.
type typedError struct {
	error
	contentType string
	status      int // 0: by the error's code
}

// Unwrap returns the coded error.
func (e typedError) Unwrap() error { return e.error }

// asJSON makes the reply of an error JSON on any route.
func asJSON(err error) error {
	if err == nil || errors.As(err, new(typedError)) {
		return err
	}
	return typedError{error: err, contentType: typeJSON}
}

// failWith replies with an error of a handler. The content type is the route's, unless the error has one.
func (x *exchange) failWith(contentType string, err error) {
	var typed typedError
	if errors.As(err, &typed) {
		contentType = typed.contentType
	}
	code := typed.status
	if code == 0 && x.route.archive {
		code, contentType = compat.ArchiveStatus(err), typeJSON
	} else if code == 0 {
		code = httpStatus(err)
	}
	x.cancelled = status.CodeOf(err) == status.Cancelled
	x.fail(code, contentType, err.Error())
}

// httpStatus maps Triton's codes.
func httpStatus(err error) int {
	switch status.CodeOf(err) {
	case status.Internal:
		return 500
	case status.NotFound:
		return 404
	case status.Unavailable:
		return 503
	case status.Unsupported:
		return 501
	}
	return 400
}

// view returns b as a string without a copy. It is valid as long as b's memory is, and b must not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
