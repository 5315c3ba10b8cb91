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
		{"request for a foreign Host, or a change asked by a page of another site", "served", "421 or 403 where --allowed-hosts applies",
			"pages in a browser on the same machine could drive the server otherwise"},
		{"model name in the path with %-escapes", "taken literally", "decoded", "clients quote names before they send them"},
		{"trace setting with an unknown level or name, or trace_mode", "200, ignored", "400 naming it", "a setting that was asked for and is not there must not look as if it were"},
		{"log setting with an unknown name", "200, ignored", "400 naming it", "a setting that was asked for and is not there must not look as if it were"},
		{"log setting of the wrong type", `500 {"error":"attempt to access JSON non-… as …"}`, "400, same text", clientsFault},
		{"unknown log_format", `503 {"error":"invalid argument for --log_format, got: …"}`, "400, same text", clientsFault},
		{"log settings of which one is wrong", "those before it are changed", "nothing is changed", "a change is whole or it is not"},
		{"load or unload of a name with slashes or control characters, or of ..", "depends on the repository", "400", "it cannot be one folder's name"},
	}
}
