package httpapi

// Deviation is a reply that differs from Triton's on purpose.
type Deviation struct {
	Request string // what was asked
	Triton  string // what Triton 2.51 answers or does
	Ours    string
	Why     string
}

// Deviations lists the replies over HTTP that differ from Triton 2.51's on purpose.
func Deviations() []Deviation {
	const clientsFault = "what the client got wrong is 4xx, so that monitoring does not count it as the server's failure"
	return []Deviation{
		{"body that is no JSON", `500 {"error":"failed to parse the request JSON buffer: … at N"}`, "400, same text", clientsFault},
		{"JSON member missing or of the wrong type; fewer or more data than the shape says", `500 {"error":"Unable to parse '…': …"}`,
			"400, same text", clientsFault},
		{"load, unload or index with a parameter of the wrong type", `500 {"error":"attempt to access JSON non-… as …"}`,
			"400, same text", clientsFault},
		{"load with an unknown parameter", `500 {"error":"unexpected error on creating Triton parameter"}`, "400, same text", clientsFault},
		{"object with two members of one name that matters", "the first one counts", "400", "which of the two was meant cannot be known"},
		{"shape whose product passes 2^63", "accepted, the product wraps", "400", "the server must not compute with wrapped sizes"},
		{"JSON nested deeper than 100 levels", "accepted up to the stack's end", "400", "recursion must be bounded; newer Triton does the same"},
		{"more than 4096 inputs or outputs", "accepted", "400", "work per request must be bounded"},
		{"body over --http-max-input-size", "no limit in 2.51", "413", "newer Triton has the limit; 413 tells proxies and clients what it was"},
		{"Inference-Header-Content-Length that is no number", "taken as 0: a raw binary request", "400 naming the header", clientsFault},
		{"Inference-Header-Content-Length or Content-Encoding given twice", "the first one counts", "400, connection closed",
			"proxies may have looked at the other one"},
		{"Content-Length beside Transfer-Encoding, folded header lines", "accepted", "400, connection closed",
			"two readings of one request are how requests are smuggled past proxies"},
		{"Content-Encoding: gzip with a body that is none", "400 about a raw request", "400 failed to decompress the gzip body", "the text names the cause"},
		{"id that is not UTF-8 or holds NUL", "accepted", "400", "the reply would not be JSON"},
		{"GET /v2/models", `404 {"error":"Not Found"}`, "the repository index, as POST /v2/repository/index gives it", "people look for it there; no client relies on its absence"},
		{"generate on a model that gives none or several responses", `200 {"error":"generate expects model to produce exactly 1 response, …"}, once the last came`,
			"400, same text, at the second response", "an error with status 200 is taken for an answer"},
		{"generate with lists in lists", "the values of the outer list are counted: refused or misread", "the nesting is the shape where it has the input's rank", "there was no way to say a shape"},
		{"generate with Content-Encoding: gzip or deflate", "400 Unsupported content-encoding, only 'identity' is supported.", "decompressed, as for infer", "one rule for all bodies"},
		{"generate_stream over HTTP/1.0", "chunks that such a client cannot read", "400", "the client would take the chunks for data"},
		{"infer on a decoupled model with Accept: text/event-stream", "501, as without", "each response is an event in the form of infer's reply",
			"any decoupled model can be used over HTTP"},
		{"request for a foreign Host, or a change asked by a page of another site", "served", "421 or 403 where --allowed-hosts applies",
			"pages in a browser on the same machine could drive the server otherwise"},
		{"model name in the path with %-escapes", "taken literally", "decoded", "clients quote names before they send them"},
		{"load or unload of a name with slashes or control characters, or of ..", "depends on the repository", "400", "it cannot be one folder's name"},
	}
}
