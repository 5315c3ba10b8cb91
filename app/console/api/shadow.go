package api

// Shadow answers GET /api/models/{name}/shadow: the candidate version of a model, or the last one. A candidate is
// loaded and not served: it gets copies of requests, and its answers are compared.
type Shadow struct {
	// Version is the candidate; empty if the model never had one since the server started.
	Version string `json:"version"`
	// Served is the version in service whose requests are copied.
	Served  string  `json:"served"`
	SinceMs int64   `json:"sinceMs"`
	Percent float64 `json:"percent"`
	// Ended says why the candidate is gone; empty while it is there.
	Ended string `json:"ended"`
	// Flagged: with 95 % certainty, more than one answer in 1,000 disagrees or is missing.
	Flagged bool `json:"flagged"`
	// Seen counts requests of the version in service.
	Seen     int64 `json:"seen"`
	Compared int64 `json:"compared"`
	Agreed   int64 `json:"agreed"`
	// Failed counts copies that the candidate did not answer, and LastError says why the last one.
	Failed    int64  `json:"failed"`
	LastError string `json:"lastError"`
	// Dropped counts sampled requests for which there was no room or time, Skipped those that failed, were answered by
	// the cache or are in the memory of a GPU. Waiting copies are not compared yet.
	Dropped int64 `json:"dropped"`
	Skipped int64 `json:"skipped"`
	Waiting int   `json:"waiting"`
	// GapUs is by how much the candidate's executions took longer, on average. The true mean is within GapErrorUs of it
	// with 95 %; -1 if that is not known yet.
	GapUs      float64              `json:"gapUs"`
	GapErrorUs float64              `json:"gapErrorUs"`
	Outputs    List[ShadowedOutput] `json:"outputs"`
}

// ShadowedOutput is what was compared of one output.
type ShadowedOutput struct {
	Name string `json:"name"`
	// Rule is "top", "near" or "equal"; see StartShadow.
	Rule   string `json:"rule"`
	Agreed int64  `json:"agreed"`
	// Mismatched says why the last one could not be compared, such as another shape.
	Mismatched string `json:"mismatched"`
	// The worst differences; see OutputDifference.
	MaxAbs float64 `json:"maxAbs"`
	MaxRel float64 `json:"maxRel"`
}

// StartShadow is the body of POST /api/models/{name}/shadow.
type StartShadow struct {
	Version string `json:"version"`
	// Percent of the requests are copied, above 0 and up to 100.
	Percent float64 `json:"percent"`
	// Rule says when outputs agree: "top", the highest element of each row is the same; "near", no element differs by
	// more than Tolerance (absolute below 1, else relative; 0: 0.001); "equal". Empty: "top" for floating point numbers
	// with a last dimension above 1, "near" for others, "equal" for other types.
	Rule      string  `json:"rule"`
	Tolerance float64 `json:"tolerance"`
	// WhenBusy copies requests also while less than half a core of the machine is idle.
	WhenBusy bool `json:"whenBusy"`
}
