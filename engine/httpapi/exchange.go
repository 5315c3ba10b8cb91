package httpapi

import (
	"bytes"
	"io"

	"nereid/engine/tensor"
)

const (
	typeJSON   = "application/json"
	typeText   = "text/plain"
	typeBinary = "application/octet-stream"
)

// exchange is one request and its reply, free of the HTTP library. A connection has one while it is served and uses it
// again for the next request. The request's slices are valid until the handler returns.
type exchange struct {
	conn   *conn
	method []byte
	path   []byte // as sent, without the query
	host   []byte
	route  route
	// Headers that say where the request comes from: Origin and Sec-Fetch-Site, which browsers set.
	origin    []byte
	fetchSite []byte
	// authorization is the header of that name, and access what is asked about the request because of it.
	authorization []byte
	access        Access

	// Headers of the inference protocol.
	headerLength    []byte
	hasHeaderLength bool
	contentEncoding []byte
	acceptEncoding  []byte
	wantTiming      bool   // Nereid-Timing: 1 asks for a Server-Timing header in the reply
	fault           string // what is wrong with the headers, "" if nothing is
	http10          bool   // the client speaks HTTP/1.0

	// headers are all headers of the request.
	headers interface{ Peek(name string) []byte }
	// rawHeaders are the lines of the header as they were sent.
	rawHeaders []byte
	// body reads the request's body; length is its size or -1 if it is not known before.
	body   io.Reader
	reader bodyReader // what body is, if there is one
	length int64
	// drained is set once the whole body was read.
	drained bool

	// The reply.
	status      int
	contentType string
	jsonLength  int // of Inference-Header-Content-Length, -1: no such header
	encoding    string
	accept      bool // send Accept-Encoding: gzip, deflate
	reply       *tensor.Buffer
	big         bigParts // what is sent between the bytes of reply
	challenge   bool     // send WWW-Authenticate: Bearer
	closeAfter  bool
	timing      string        // of Server-Timing, "": no such header
	loadReport  string        // of endpoint-load-metrics, "": no such header
	corsOrigin  string        // of Access-Control-Allow-Origin, "": no such headers
	preflight   bool          // the reply is to a preflight of corsOrigin
	stream      io.ReadCloser // the body, if it is not finished yet; whoever sends the reply closes it

	infer inferExchange
}

// reset prepares for the next request.
func (x *exchange) reset() {
	x.headerLength, x.contentEncoding, x.acceptEncoding, x.origin, x.fetchSite, x.host = nil, nil, nil, nil, nil, nil
	x.authorization = nil
	x.hasHeaderLength, x.fault = false, ""
	x.body, x.length, x.drained = nil, 0, false
	x.reader = bodyReader{}
	x.status, x.contentType, x.jsonLength, x.encoding = 0, "", -1, ""
	x.accept, x.challenge, x.closeAfter = false, false, false
	x.wantTiming, x.timing, x.stream = false, "", nil
	x.loadReport, x.corsOrigin, x.preflight = "", "", false
}

const (
	// timingName is the request header that asks for the durations inside the server; its value is 1.
	timingName       = "Nereid-Timing"
	headerLengthName = "Inference-Header-Content-Length"
)

var connClose = []byte("close")

// take notes a header that the protocol needs. Names are in their canonical form.
func (x *exchange) take(key, value []byte) {
	switch string(key) {
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
		if bytes.EqualFold(value, connClose) { // the library knows only small letters
			x.closeAfter = true
		}
	case timingName:
		x.wantTiming = string(value) == "1"
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

// safeMethod reports whether the method cannot change anything here.
func (x *exchange) safeMethod() bool {
	m := string(x.method)
	return m == "GET" || m == "HEAD" || m == "OPTIONS"
}

// empty replies without a body.
func (x *exchange) empty(code int, contentType string) {
	x.status, x.contentType = code, contentType
}

// text replies with a finished body that is not pooled.
func (x *exchange) bytes(code int, contentType string, body []byte) {
	x.status, x.contentType = code, contentType
	x.reply = tensor.NewBuffer(body, nil)
}

// fail replies with {"error":"…"}.
func (x *exchange) fail(code int, contentType, text string) {
	x.bytes(code, contentType, appendError(nil, text))
}

// failWith replies with an error of the engine or of the parser.
func (x *exchange) failWith(contentType string, err error) {
	if x.route.archive {
		x.fail(archiveStatus(err), typeJSON, err.Error())
		return
	}
	x.fail(httpStatus(err), contentType, err.Error())
}

func (x *exchange) notFound() { x.bytes(404, typeText, []byte(`{"error":"Not Found"}`)) }

func (x *exchange) notAllowed(contentType string) {
	x.bytes(405, contentType, []byte(`{"error":"Method Not Allowed"}`))
}

// header returns a header, "" if there is none.
func (x *exchange) header(name string) string { return string(x.headers.Peek(name)) }

// is reports whether the request has a method.
func (x *exchange) is(method string) bool { return string(x.method) == method }
