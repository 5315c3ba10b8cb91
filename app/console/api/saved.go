package api

// SavedRequests answers GET /api/models/{name}/requests: the files requests/*.json in the model's folder, by name.
type SavedRequests struct {
	Items List[SavedItem] `json:"items"`
	// WhyNot says why no request can be saved here; empty if it can.
	WhyNot string `json:"whyNot"`
}

// SavedItem is one saved request.
type SavedItem struct {
	// Name of the file, without .json.
	Name      string `json:"name"`
	SizeBytes int64  `json:"sizeBytes"`
}

// SavedRequest is a saved request with its content.
type SavedRequest struct {
	Name string `json:"name"`
	// Text of the file: a request of the KServe protocol as JSON. A tensor may have b64 in place of data: base64 of
	// its binary tensor data.
	Text string `json:"text"`
}

// SaveRequest saves a request.
type SaveRequest struct {
	Text string `json:"text"`
	// Replace a saved request of the same name.
	Replace bool `json:"replace"`
	// Golden: it goes into the folder golden, with the answer that a version must give before it serves; Text is as
	// these files are. The reply then lists that folder.
	Golden bool `json:"golden"`
}
