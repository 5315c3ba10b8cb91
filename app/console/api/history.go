package api

// History answers GET /api/history.
type History struct {
	FromMs int64 `json:"fromMs"`
	ToMs   int64 `json:"toMs"`
	// StepMs is the step used.
	StepMs int64        `json:"stepMs"`
	Series List[Series] `json:"series"`
	// Total is the sum of all versions that fit the query, without latencies; nil unless the query has most=n. Then
	// Series has only the n busiest of the Busy versions with requests, and Models has the names of all models.
	Total  *Series      `json:"total"`
	Busy   int          `json:"busy"`
	Models List[string] `json:"models"`
}

// MachineHistory answers GET /api/history/machine: what the machine took, or one model.
type MachineHistory struct {
	FromMs int64 `json:"fromMs"`
	ToMs   int64 `json:"toMs"`
	// StepMs is the step used.
	StepMs   int64         `json:"stepMs"`
	Readings List[Reading] `json:"readings"`
}

// Reading is a column of readings. TMs is the start of each step, ascending; a step without a record is left out.
type Reading struct {
	// Name is cpu and gpu0, gpu1 and so on (the busy share, 0 to 1), memory and gpu_memory0 and so on (bytes used). Of
	// a model it is memory or gpu_memory.
	Name string        `json:"name"`
	TMs  List[int64]   `json:"tMs"`
	Mean List[float64] `json:"mean"`
	Most List[float64] `json:"most"`
}

// Series is the history of one model version in columns of equal length. TMs is the start of each step, ascending. A
// step in which the version was loaded but idle has 0 requests and null latencies. A step without a record is left out,
// and the page shows a gap.
type Series struct {
	Model   string      `json:"model"`
	Version string      `json:"version"`
	TMs     List[int64] `json:"tMs"`
	// Requests answered, failures included.
	Requests List[float64] `json:"requests"`
	Failures List[float64] `json:"failures"`
	// QPS is Requests over the recorded time of the step.
	QPS List[float64] `json:"qps"`
	// P50Us, P95Us, P99Us of the latency inside the server.
	P50Us List[*float64] `json:"p50Us"`
	P95Us List[*float64] `json:"p95Us"`
	P99Us List[*float64] `json:"p99Us"`
	// QueueUs and ComputeUs are means per request.
	QueueUs   List[*float64] `json:"queueUs"`
	ComputeUs List[*float64] `json:"computeUs"`
	// BatchMean is the mean number of rows executed together.
	BatchMean List[*float64] `json:"batchMean"`
}

// Event is one row of the event history.
type Event struct {
	ID       int64     `json:"id"`
	TMs      int64     `json:"tMs"`
	Kind     EventKind `json:"kind"`
	Severity Severity  `json:"severity"`
	// Model and Version are empty for events of the server.
	Model   string `json:"model"`
	Version string `json:"version"`
	// Text in full: for failures the reason.
	Text string `json:"text"`
	// DurationMs of a load, reload, unload, load test or tuning; 0 when it does not apply.
	DurationMs float64 `json:"durationMs"`
	// Revision of the configuration; 0 if it concerns none.
	Revision int64 `json:"revision"`
	// Config is the digest of the configuration that a version was loaded with; empty if it concerns none.
	Config string `json:"config"`
}

// EventKind says what happened.
type EventKind string

// The kinds.
const (
	EventServerStart  EventKind = "server_start"
	EventServerStop   EventKind = "server_stop"
	EventLoad         EventKind = "load"
	EventLoadFailed   EventKind = "load_failed"
	EventReload       EventKind = "reload"
	EventReloadFailed EventKind = "reload_failed" // the version before still serves
	EventUnload       EventKind = "unload"
	EventEvict        EventKind = "evict" // unloaded from memory; its next request loads it
	// EventProcessEnded: a process of a model ended without being asked to.
	EventProcessEnded     EventKind = "process_ended"
	EventProcessRestarted EventKind = "process_restarted"
	EventLoadTest         EventKind = "load_test" // it has ended
	EventTuning           EventKind = "tuning"    // it has ended
	EventImport           EventKind = "import"
	EventImportFailed     EventKind = "import_failed"
	EventConfigSaved      EventKind = "config_saved"
	EventConfigRestored   EventKind = "config_restored"
	EventModelDeleted     EventKind = "model_deleted"
	EventModelRestored    EventKind = "model_restored"
	EventRepositoryError  EventKind = "repository_error"
	EventClientError      EventKind = "client_error"
	EventHistoryDropped   EventKind = "history_dropped"
	EventAlert            EventKind = "alert"
	EventAlertEnded       EventKind = "alert_ended"
	EventCapture          EventKind = "capture" // of contents of requests: on, off or removed
)

// Events answers GET /api/history/events, newest first.
type Events struct {
	Events List[Event] `json:"events"`
	// More: there are older events that fit the filter.
	More bool `json:"more"`
}

// ModelsEvent is the stream's topic models.
type ModelsEvent struct {
	// TMs is the server's time.
	TMs int64 `json:"tMs"`
	// Full: Models has all models. Otherwise it has those that changed, and Removed has the names of removed ones.
	Full    bool         `json:"full"`
	Models  List[Model]  `json:"models"`
	Removed List[string] `json:"removed"`
}

// SamplesEvent is the stream's topic samples: one second of all loaded model versions. Those without a request in the
// last minute are left out.
type SamplesEvent struct {
	// TMs is the start of the second.
	TMs     int64        `json:"tMs"`
	Samples List[Sample] `json:"samples"`
	// RefusedMinute is how many requests were refused in the last minute, over all causes and models.
	RefusedMinute int64 `json:"refusedMinute"`
}

// Sample is one second of one model version; the fields are those of Series.
type Sample struct {
	Model     string   `json:"model"`
	Version   string   `json:"version"`
	Requests  float64  `json:"requests"`
	Failures  float64  `json:"failures"`
	P50Us     *float64 `json:"p50Us"`
	P95Us     *float64 `json:"p95Us"`
	P99Us     *float64 `json:"p99Us"`
	QueueUs   *float64 `json:"queueUs"`
	ComputeUs *float64 `json:"computeUs"`
	BatchMean *float64 `json:"batchMean"`
	// MinuteP50Us and MinuteP99Us are of the 60 seconds that end with this second.
	MinuteP50Us *float64 `json:"minuteP50Us"`
	MinuteP99Us *float64 `json:"minuteP99Us"`
}
