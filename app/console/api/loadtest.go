package api

// LoadTestState says how far a load test is.
type LoadTestState string

// The states of a load test.
const (
	LoadTestNone    LoadTestState = "none"    // there was none
	LoadTestRunning LoadTestState = "running" //
	LoadTestDone    LoadTestState = "done"    // all levels were measured
	LoadTestStopped LoadTestState = "stopped" // by a click, or by the end of the server
	LoadTestFailed  LoadTestState = "failed"  // Reason says why
)

// StartLoadTest starts a load test. A level is a number of concurrent requests.
type StartLoadTest struct {
	// From, To and Step are the levels, 1..1024 and at most 64 of them.
	From int `json:"from"`
	To   int `json:"to"`
	Step int `json:"step"`
	// Batch size of each request, 1..max batch size, default 1.
	Batch int `json:"batch"`
	// WindowMs is how long a window is, 100..60000, default 1000. A level ends when three windows agree, or after ten.
	WindowMs int `json:"windowMs"`
}

// LoadTest is the running load test of a model, or the last one.
type LoadTest struct {
	State     LoadTestState `json:"state"`
	Reason    string        `json:"reason"`
	StartedMs int64         `json:"startedMs"`
	EndedMs   int64         `json:"endedMs"` // 0 while it runs
	Batch     int           `json:"batch"`
	// Levels are all that will be measured.
	Levels List[int]       `json:"levels"`
	Points List[LoadPoint] `json:"points"`
	// Now is the last window of the level that is being measured; null when there is none.
	Now *LoadPoint `json:"now"`
}

// LoadPoint is the result of a level. Latencies are those of an HTTP client on this machine.
type LoadPoint struct {
	Level    int     `json:"level"`
	Requests float64 `json:"requests"`
	// Rate is rows per second.
	Rate   float64 `json:"rate"`
	MeanUs float64 `json:"meanUs"`
	P50Us  float64 `json:"p50Us"`
	P95Us  float64 `json:"p95Us"`
	P99Us  float64 `json:"p99Us"`
	// QueueUs and ComputeUs are the server's averages.
	QueueUs   float64 `json:"queueUs"`
	ComputeUs float64 `json:"computeUs"`
	// Stable: the last three windows agreed within a tenth.
	Stable bool `json:"stable"`
}
