package api

// Refused answers GET /api/refused: requests that the inference services refused, since the server started. They are in
// memory only.
type Refused struct {
	// EndMs is the end of the last second of PerSecond.
	EndMs  int64              `json:"endMs"`
	Causes List[RefusedCause] `json:"causes"`
	// Last are the last 200, newest first.
	Last List[RefusedRequest] `json:"last"`
}

// RefusedCause counts the requests that were refused for one cause over one protocol.
type RefusedCause struct {
	Protocol string `json:"protocol"`
	// Cause is "invalid", "unauthenticated", "forbidden", "not_found", "unsupported", "timeout", "too_large" or
	// "unavailable".
	Cause string `json:"cause"`
	Total int64  `json:"total"`
	// PerSecond are the counts of the last 300 seconds, oldest first.
	PerSecond List[float64] `json:"perSecond"`
}

// RefusedRequest is one refused request.
type RefusedRequest struct {
	TMs      int64  `json:"tMs"`
	Protocol string `json:"protocol"`
	Cause    string `json:"cause"`
	// Target is the method and path, or the gRPC method; empty if the request could not be read.
	Target string `json:"target"`
	// Client is its address.
	Client string `json:"client"`
	// Text is the error that the client got.
	Text string `json:"text"`
}
