package api

// Comparison answers POST /api/compare/{name}/versions/{version}/with/{other}: what two versions reply to one request.
type Comparison struct {
	// Reference is that of version, Candidate that of other.
	Reference ComparedReply `json:"reference"`
	Candidate ComparedReply `json:"candidate"`
	// Outputs are those of the reference, and then those that only the candidate has; empty if one of the two failed.
	Outputs List[OutputDifference] `json:"outputs"`
}

// ComparedReply is the reply of one version.
type ComparedReply struct {
	Version string `json:"version"`
	// Status is that of HTTP, and Error the text of a failure.
	Status int    `json:"status"`
	Error  string `json:"error"`
	// Ms is the median time of the requests, until the reply was complete.
	Ms float64 `json:"ms"`
	// Timing is the header Server-Timing of the last reply.
	Timing string `json:"timing"`
	// Body is the last reply in base64, and JSONLength its header Inference-Header-Content-Length.
	Body       string `json:"body"`
	JSONLength string `json:"jsonLength"`
}

// OutputDifference says how much one output differs.
type OutputDifference struct {
	Name     string `json:"name"`
	DataType string `json:"dataType"`
	// Reason says why the outputs cannot be compared, such as another shape; empty if they can.
	Reason    string `json:"reason"`
	Elements  int    `json:"elements"`
	Differing int    `json:"differing"`
	// Special counts elements where one version has NaN or an infinity, and the other does not. No maximum has them.
	Special int `json:"special"`
	// MaxAbs is the largest |a-b|, which element At has, and MaxRel the largest |a-b| / max(|a|, |b|). Texts have none.
	MaxAbs float64 `json:"maxAbs"`
	At     int     `json:"at"`
	MaxRel float64 `json:"maxRel"`
	// TopK is for outputs with a last dimension above K.
	TopK List[TopK] `json:"topK"`
}

// TopK says in how many rows, along the last dimension, the K highest elements are the same ones, in any order.
type TopK struct {
	K    int `json:"k"`
	Rows int `json:"rows"`
	Same int `json:"same"`
}
