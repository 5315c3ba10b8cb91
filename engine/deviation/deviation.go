package deviation

// Row is an answer that differs from Triton's on purpose.
type Row struct {
	ID       string // "DV01": never given to another row
	Protocol string // "HTTP", "gRPC", "both" or "server"
	Request  string // what is asked, or what happens
	Triton   string // what Triton 2.51 answers or does
	Ours     string
	Why      string
}

// All returns the rows by id.
func All() []Row {
	const clientsFault = "what the client got wrong is 4xx, so that monitoring does not count it as the server's failure"
	const smuggling = "two readings of one request are how requests are smuggled past proxies"
	return []Row{
		{"DV01", "HTTP", "body that is no JSON", `500 {"error":"failed to parse the request JSON buffer: … at N"}`, "400, same text", clientsFault},
		{"DV02", "HTTP", "JSON member missing or of the wrong type; fewer or more data than the shape says",
			`500 {"error":"Unable to parse '…': …"}`, "400, same text", clientsFault},
		{"DV03", "HTTP", "load, unload or index with a parameter of the wrong type",
			`500 {"error":"attempt to access JSON non-… as …"}`, "400, same text", clientsFault},
		{"DV04", "HTTP", "load with an unknown parameter", `500 {"error":"unexpected error on creating Triton parameter"}`, "400, same text", clientsFault},
		{"DV05", "HTTP", "object with two members of one name that matters", "the first one counts", "400", "which of the two was meant cannot be known"},
		{"DV06", "both", "shape whose product passes 2^63", "accepted: the product wraps, and a Python model dies of it", "400, INVALID_ARGUMENT",
			"the server must not compute with wrapped sizes"},
		{"DV07", "HTTP", "JSON nested deeper than 100 levels", "accepted up to the stack's end", "400", "recursion must be bounded; newer Triton does the same"},
		{"DV08", "HTTP", "more than 4096 inputs or outputs", "read to the end, then refused by the model's configuration", "400", "work per request must be bounded"},
		{"DV09", "HTTP", "body over --http-max-input-size", "no limit in 2.51", "413", "newer Triton has the limit; 413 tells proxies and clients what it was"},
		{"DV10", "HTTP", "Inference-Header-Content-Length that is no number", "taken as 0: a raw binary request", "400 naming the header", clientsFault},
		{"DV11", "HTTP", "Inference-Header-Content-Length given twice", "the first one counts", "400, connection closed",
			"proxies may have looked at the other one"},
		{"DV12", "HTTP", "Content-Length beside Transfer-Encoding, folded header lines", "accepted", "400, connection closed", smuggling},
		{"DV13", "HTTP", "Content-Encoding: gzip with a body that is none", "400 about a raw request", "400 failed to decompress the gzip body", "the text names the cause"},
		{"DV14", "HTTP", "id that is not UTF-8 or holds NUL", "accepted; the answer's id ends at the NUL", "400", "the reply would not be JSON, or carry another id"},
		{"DV15", "HTTP", "request for a foreign Host, or a change asked by a page of another site", "served", "421 or 403 where --allowed-hosts applies",
			"pages in a browser on the same machine could drive the server otherwise"},
		{"DV16", "HTTP", "model name in the path with %-escapes", "taken literally", "decoded", "clients quote names before they send them"},
		{"DV17", "HTTP", "load or unload of a name with slashes or control characters, or of ..", "depends on the repository", "400", "it cannot be one folder's name"},
		{"DV18", "gRPC", "more raw_input_contents than inputs", "the surplus is ignored", "INVALID_ARGUMENT", "a client that sends it is wrong about something"},
		{"DV19", "HTTP", "raw binary request of the wrong size", "400 about the input 'raw_input'", "400 about the input by its own name", "no model has an input raw_input"},
		{"DV20", "gRPC", "parameter timeout below 0", "accepted as a huge timeout", "INVALID_ARGUMENT", "a deadline in the past was not meant as none"},
		{"DV21", "gRPC", "uint64_param for timeout, sequence_id or a parameter of one's own", "INVALID_ARGUMENT", "taken", "newer clients send numbers so; nothing is ambiguous"},
		{"DV22", "HTTP", "pipelined requests", "only the first is answered", "all are answered, in order", "HTTP/1.1 asks for it"},
		{"DV23", "both", "statistics of a model with warmup", "warmup counts as inferences", "only clients' requests count", "a dashboard that shows requests nobody sent misleads"},
		{"DV24", "both", "repository index with a configuration that cannot be read", "the name alone, without state and reason", "UNAVAILABLE with the reason",
			"who asks the index wants to know why a model is missing"},
		{"DV25", "HTTP", "unknown path on the metrics port", "200 with the metrics", "404", "a wrong path in a scrape configuration should show"},
		{"DV26", "server", "version folders named 0, -1 or 1x", "taken for versions 0, -1 and 1", "not versions", "versions are whole numbers from 1"},
		{"DV27", "server", "a model that fails to load at start", "the server ends with status 1", "the other models are served, unless --exit-on-error or the name tritonserver says otherwise",
			"on one machine the other models matter more than the exit status"},
		{"DV28", "both", "a load that fails before any version is tried", "failed to load '…', failed to poll from model repository", "the same, a colon, and the cause",
			"the cause is otherwise only in the server's log"},
		{"DV29", "both", "repository index with a model that was only in a load request", "not in the index", "in the index with its state", "what is served should be seen"},
		{"DV30", "HTTP", "GET /v2/models", `404 {"error":"Not Found"}`, "the repository index, as POST /v2/repository/index gives it",
			"people look for it there; no client relies on its absence"},
		{"DV31", "HTTP", "generate on a model that gives none or several responses",
			`200 {"error":"generate expects model to produce exactly 1 response, …"}, once the last came`, "400, same text, at the second response",
			"an error with status 200 is taken for an answer"},
		{"DV32", "HTTP", "generate with lists in lists", "the values of the outer list are counted: refused or misread",
			"the nesting is the shape where it has the input's rank", "there was no way to say a shape"},
		{"DV33", "HTTP", "generate with Content-Encoding: gzip or deflate", "400 Unsupported content-encoding, only 'identity' is supported.",
			"decompressed, as for infer", "one rule for all bodies"},
		{"DV34", "HTTP", "generate_stream over HTTP/1.0", "chunks that such a client cannot read", "400", "the client would take the chunks for data"},
		{"DV35", "HTTP", "infer on a decoupled model with Accept: text/event-stream", "501, as without", "each response is an event in the form of infer's reply",
			"any decoupled model can be used over HTTP"},
		{"DV36", "both", "registering shared memory with a key that cannot be a name", "500 Unable to open shared memory region: '…'",
			"400 … invalid shm key '…', as newer Triton", clientsFault},
		{"DV37", "both", "registering shared memory that another server's Python backend made for itself, or a semaphore", "accepted",
			"400 … reserved prefix …, as newer Triton", "writing there runs code in that server: CVE-2025-23319"},
		{"DV38", "both", "registering a second region of one object", "500 Invalid shared memory region: '…'",
			"200, as newer Triton", "2.51 uses a descriptor that it has closed"},
		{"DV39", "both", "registering a region that does not begin at a page", "400 … unable to process address space…",
			"200", "nothing is mapped, so nothing must begin at a page"},
		{"DV40", "both", "a 1025th region of shared memory", "200",
			"503, UNAVAILABLE", "every region holds a descriptor"},
		{"DV41", "both", "a tensor in shared memory that its client has shrunk", "the server ends with SIGBUS",
			"400, INVALID_ARGUMENT", "one client must not end the service of all"},
		{"DV42", "both", "offset and size of a tensor in shared memory whose sum passes 2^64", "accepted: the sum wraps",
			"400, INVALID_ARGUMENT, as newer Triton", "the server must not compute with wrapped sizes"},
		{"DV43", "both", "unregistering a region that a request uses", "500 Cannot unregister shared memory region '…', it is currently in use.",
			"200: the name goes at once, the memory with the request", "newer Triton accepts it too; a client cannot tell when its request is over in the server"},
		{"DV44", "server", "shared memory while HTTP or gRPC listen beyond loopback", "on",
			"501, UNIMPLEMENTED unless --allow-client-shm=true, newer Triton's option", "clients elsewhere have no memory here to share, and could read that of others"},
	}
}
