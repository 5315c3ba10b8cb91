package api

// Capture answers GET /api/models/{name}/capture: whether the contents of a model's requests are kept, and what there
// is.
type Capture struct {
	On bool `json:"on"`
	// UntilMs is when it ends or ended, in milliseconds since 1970; 0: it was never on, or was turned off.
	UntilMs int64 `json:"untilMs"`
	// MaxBytes is of the tensors of one request, BudgetBytes of all files of the model.
	MaxBytes    int64 `json:"maxBytes"`
	BudgetBytes int64 `json:"budgetBytes"`
	// LeaveOut has patterns with * and ?: inputs, outputs and parameters of such a name are left out.
	LeaveOut List[string] `json:"leaveOut"`
	// Captured and Dropped count requests since the settings were made. Those that were dropped found no room.
	Captured int64 `json:"captured"`
	Dropped  int64 `json:"dropped"`
	// Kept counts the requests whose contents are there, with KeptBytes in files.
	Kept      int   `json:"kept"`
	KeptBytes int64 `json:"keptBytes"`
}

// SetCapture is the body of PUT /api/models/{name}/capture.
type SetCapture struct {
	// On false turns it off; what was captured stays.
	On bool `json:"on"`
	// Minutes is after how long it turns itself off; at most 10080, a week. 0: 60.
	Minutes int64 `json:"minutes"`
	// MaxBytes is of the tensors of one request; at most 16 MiB. 0: 256 KiB.
	MaxBytes int64 `json:"maxBytes"`
	// BudgetBytes is of all files of the model; the oldest are removed first. 0: 256 MiB.
	BudgetBytes int64 `json:"budgetBytes"`
	// LeaveOut has patterns with * and ?: inputs, outputs and parameters of such a name are left out.
	LeaveOut List[string] `json:"leaveOut"`
}

// RequestContents answers GET /api/requests/{id}/contents.
type RequestContents struct {
	Inputs List[CapturedTensor] `json:"inputs"`
	// Outputs are those of all responses. An output of several responses is joined along its first dimension.
	Outputs List[CapturedTensor] `json:"outputs"`
	// Responses counts the responses, without an empty one at the end; 0: it is not known.
	Responses  int                     `json:"responses"`
	Parameters List[CapturedParameter] `json:"parameters"`
	// Error is the text of a failure. ErrorLeftOut is "rule" if it may quote what a rule left out.
	Error        string `json:"error"`
	ErrorLeftOut string `json:"errorLeftOut"`
}

// CapturedTensor is an input or an output.
type CapturedTensor struct {
	Name     string      `json:"name"`
	DataType string      `json:"dataType"`
	Shape    List[int64] `json:"shape"`
	// Data is in base64, with the bytes of the protocol's binary form.
	Data string `json:"data"`
	// LeftOut says why there is no Data: "rule", "size" or "gpu".
	LeftOut string `json:"leftOut"`
}

// CapturedParameter is a parameter of a request.
type CapturedParameter struct {
	Name string `json:"name"`
	// Value is JSON.
	Value string `json:"value"`
	// LeftOut is "rule" if there is no Value.
	LeftOut string `json:"leftOut"`
}

// ReplayRequest is the body of POST /api/requests/{id}/replay.
type ReplayRequest struct {
	// Version is a loaded version of the model; empty: the newest.
	Version string `json:"version"`
}

// ReplayRequests is the body of POST /api/models/{name}/replay.
type ReplayRequests struct {
	// Version is a loaded version of the model; empty: the newest.
	Version string `json:"version"`
	// Count is how many of the newest kept requests are sent again, at most 100. 0: 10.
	Count int `json:"count"`
}

// Replays answers POST /api/models/{name}/replay, the newest first, without the outputs of the new answers.
type Replays struct {
	Replays List[Replay] `json:"replays"`
}

// Replay says how the new answer to a kept request differs from the kept one.
type Replay struct {
	// ID is that of the kept request, TMs when that ended, in milliseconds since 1970.
	ID  int64   `json:"id"`
	TMs float64 `json:"tMs"`
	// WhyNot says why the request was not sent again; empty if it was.
	WhyNot string `json:"whyNot"`
	// Version is the one that answered.
	Version string `json:"version"`
	// Status is that of HTTP, and Error the text of a failure.
	Status int    `json:"status"`
	Error  string `json:"error"`
	// Ms is the time until the new answer was complete.
	Ms float64 `json:"ms"`
	// Compared: both answers have an output. Same: all outputs are equal, but for those that were left out of the kept
	// answer.
	Compared bool `json:"compared"`
	Same     bool `json:"same"`
	// Differences are those of the outputs of the kept answer.
	Differences List[OutputDifference] `json:"differences"`
	// Outputs are those of the new answer.
	Outputs List[CapturedTensor] `json:"outputs"`
}
