package api

// Requests answers GET /api/requests: recorded requests that match the filter, the newest first.
type Requests struct {
	Requests List[Request] `json:"requests"`
	// Next is the value of after that continues here: it gives the requests that ended since.
	Next int64 `json:"next"`
	// More: there are older ones. The ID of the last one is the value of before that gives them.
	More bool `json:"more"`
	// Missed counts requests that left memory between after and now.
	Missed int64 `json:"missed"`
	// LeftOut counts matching requests that ended since after and are above the limit.
	LeftOut int `json:"leftOut"`
	// Off: the server does not record requests.
	Off bool `json:"off"`
	// Keeps: the server keeps requests in its data folder. The oldest of them began at OldestMs; 0: there is none.
	Keeps    bool    `json:"keeps"`
	OldestMs float64 `json:"oldestMs"`
	// Dropped counts the requests since the start that were to be kept and were not, because they came too fast.
	Dropped uint64 `json:"dropped"`
}

// RequestsEvent is an event of GET /api/requests/live: the requests of one of its filters that ended since the last
// event.
type RequestsEvent struct {
	// Of is the place of the filter among those of the address.
	Of int `json:"of"`
	// Requests are the newest first, and at most as many as the filter's limit. LeftOut counts those above it.
	Requests List[Request] `json:"requests"`
	LeftOut  int           `json:"leftOut"`
	// Missed counts requests that left memory before they were looked at.
	Missed int64 `json:"missed"`
	// Next is the value of after that continues here.
	Next    int64  `json:"next"`
	Dropped uint64 `json:"dropped"`
}

// Request is one request. A model's request has a Parent.
type Request struct {
	// ID is higher than those of all requests before.
	ID     int64 `json:"id"`
	Parent int64 `json:"parent"`
	// TMs is when it began, in milliseconds since 1970, with a fraction.
	TMs float64 `json:"tMs"`
	// Protocol is "http", "grpc", "page" (HTTP from this page), "replay" (a kept request that this page
	// sent again), or "ensemble" or "bls" for what a model asked for.
	Protocol string `json:"protocol"`
	// Client is its address without the port; empty for what a model asked for.
	Client string `json:"client"`
	// Model is empty if the request could not be read, and Version if it reached no version.
	Model   string `json:"model"`
	Version string `json:"version"`
	// RequestID is the ID that the client gave, up to 64 bytes.
	RequestID string  `json:"requestId"`
	Outcome   Outcome `json:"outcome"`
	// Slow: it took longer than 99 % of its model's requests of the last hour.
	Slow   bool `json:"slow"`
	Cached bool `json:"cached"`
	// Kept: its contents are there; see GET /api/requests/{id}/contents.
	Kept bool `json:"kept"`
	// Status is the code of HTTP or gRPC; 0 for what a model asked for.
	Status int `json:"status"`
	// Cause is that of a refusal; see RefusedCause.
	Cause string `json:"cause"`
	Text  string `json:"text"`
	// Target is what a request asked for that was no inference.
	Target string `json:"target"`
	// BytesIn and BytesOut are those of the tensors.
	BytesIn   int64 `json:"bytesIn"`
	BytesOut  int64 `json:"bytesOut"`
	Responses int   `json:"responses"`
	// Rows is its own batch size; 0 if it reached no model.
	Rows int `json:"rows"`
	// Instance is where it ran; empty if it did not, or for an ensemble.
	Instance string `json:"instance"`
	// BatchRows and BatchRequests are those of the batch in which it ran.
	BatchRows     int     `json:"batchRows"`
	BatchRequests int     `json:"batchRequests"`
	DurationUs    float64 `json:"durationUs"`
	// PhasesUs are the times of the phases, which follow each other: receive, check, queue, input, compute, output,
	// encode, send. Their sum is DurationUs.
	PhasesUs List[float64] `json:"phasesUs"`
	// BusyUs is how much of the queue's time its instance ran the execution before, which had BusyRows in BusyRequests.
	BusyUs       float64 `json:"busyUs"`
	BusyRows     int     `json:"busyRows"`
	BusyRequests int     `json:"busyRequests"`
}

// Outcome says how a request ended.
type Outcome string

// The outcomes.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeFailed    Outcome = "failed"
	OutcomeRefused   Outcome = "refused"
	OutcomeCancelled Outcome = "cancelled"
)

// RequestDetail answers GET /api/requests/{id}.
type RequestDetail struct {
	Request Request `json:"request"`
	// Steps are the requests that its execution made, and those of these, in the order in which they began.
	Steps List[Request] `json:"steps"`
	// AheadBatches is how many batches of its model began while it waited, with AheadRows rows, as far as it is known.
	AheadBatches int `json:"aheadBatches"`
	AheadRows    int `json:"aheadRows"`
}
