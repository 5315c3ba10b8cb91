package api

// TuningState is the state of a tuning.
type TuningState string

// The states of a tuning.
const (
	TuningRunning TuningState = "running"
	TuningDone    TuningState = "done"    // the search or its budget is finished
	TuningStopped TuningState = "stopped" // by a click, or by the end of the server: what was measured counts
	TuningFailed  TuningState = "failed"  // Reason says why
)

// StartTuning asks for a search for a model's best configuration. What is empty or 0 is chosen as nereid tune chooses
// it.
type StartTuning struct {
	// Objective is throughput or latency (p99), or model_analyzer's metrics with weights:
	// perf_throughput=2,perf_latency_p99=1.
	Objective string `json:"objective"`
	// The constraints; 0: none. Latency is the p99, memory that of the model's server.
	LatencyBudgetMs float64 `json:"latencyBudgetMs"`
	MinThroughput   float64 `json:"minThroughput"`
	MaxMemoryMB     float64 `json:"maxMemoryMb"`
	MaxGPUMemoryMB  float64 `json:"maxGpuMemoryMb"`
	// Search is quick, brute or each; Budget is the most measurements of a quick one.
	Search string `json:"search"`
	Budget int    `json:"budget"`
	// What is tried, as nereid tune takes it: "1,2,4", "1:8:1", or "present" for the present value alone.
	MaxBatchSizes  string `json:"maxBatchSizes"`
	QueueDelays    string `json:"queueDelays"`
	InstanceCounts string `json:"instanceCounts"`
	InstanceKinds  string `json:"instanceKinds"`
	Threads        string `json:"threads"`
	Concurrency    string `json:"concurrency"`
	// Batch is the rows of a request, default 1. WindowMs is how long a window is, default 1000.
	Batch    int `json:"batch"`
	WindowMs int `json:"windowMs"`
	// Shapes are those of inputs in requests, without the batch dimension: "INPUT0:3,224,224". Sizes that are free
	// and not given are 1.
	Shapes List[string] `json:"shapes"`
	// With are other models that are measured and tuned at the same time, under the same load each.
	With List[string] `json:"with"`
	// Parts: the configurations of an ensemble's models change too.
	Parts bool `json:"parts"`
}

// TuningPlan is what a tuning will try.
type TuningPlan struct {
	Axes List[TuningAxis] `json:"axes"`
	// Size is how many measurements there could be, Most how many are made at most.
	Size int `json:"size"`
	Most int `json:"most"`
	// LeastMs and MostMs are about how long it takes.
	LeastMs int64 `json:"leastMs"`
	MostMs  int64 `json:"mostMs"`
}

// TuningAxis is one thing that is varied.
type TuningAxis struct {
	// Model whose configuration it is; empty for the load.
	Model string `json:"model"`
	// Field is max_batch_size, max_queue_delay, instance_count, instance_kind, intra_op_threads or load.
	Field string `json:"field"`
	// Values in rising order: as TuningChange has them.
	Values List[int] `json:"values"`
	// Present is the value of the configuration as it is, or the load that the search begins with.
	Present int `json:"present"`
}

// TuningChange is a difference between a configuration and the present one.
type TuningChange struct {
	Model string `json:"model"`
	Field string `json:"field"`
	// From and To: rows, microseconds (-1: no dynamic batching), instances, 0 for KIND_CPU and 1 for KIND_GPU,
	// threads (0: all cores).
	From int `json:"from"`
	To   int `json:"to"`
}

// TuningConfig is a configuration that was measured.
type TuningConfig struct {
	// Changes are none for the present configuration.
	Changes List[TuningChange] `json:"changes"`
}

// TuningTrial is one measurement: a configuration under a load. Latencies are a client's.
type TuningTrial struct {
	// Config is an index into Tuning.Configs.
	Config int `json:"config"`
	// Load is how many requests are under way.
	Load int `json:"load"`
	// Rate is rows per second.
	Rate      float64 `json:"rate"`
	P50Us     float64 `json:"p50Us"`
	P90Us     float64 `json:"p90Us"`
	P99Us     float64 `json:"p99Us"`
	QueueUs   float64 `json:"queueUs"`
	ComputeUs float64 `json:"computeUs"`
	// Cores that the server used, and its memory.
	Cores          float64 `json:"cores"`
	MemoryBytes    int64   `json:"memoryBytes"`
	GPUMemoryBytes int64   `json:"gpuMemoryBytes"`
	// GPUUtilization is the mean of the GPUs, in percent; GPUPowerW the power of all of them. 0 where there is none.
	GPUUtilization float64 `json:"gpuUtilization"`
	GPUPowerW      float64 `json:"gpuPowerW"`
	// Stable: the windows agreed. Keeps: every constraint is kept.
	Stable bool `json:"stable"`
	Keeps  bool `json:"keeps"`
	// Failed says why there are no figures; empty: there are.
	Failed string `json:"failed"`
	// Models are the figures of each model, if there are several; Rate is then their sum, latencies are the highest.
	Models List[TuningFigures] `json:"models"`
}

// TuningFigures are those of one of several models that were measured at the same time.
type TuningFigures struct {
	Model string  `json:"model"`
	Rate  float64 `json:"rate"`
	P50Us float64 `json:"p50Us"`
	P99Us float64 `json:"p99Us"`
}

// TuningNow is what is being measured.
type TuningNow struct {
	Changes List[TuningChange] `json:"changes"`
	Load    int                `json:"load"`
	// Rate and P99Us of the last window; 0 before the first has ended, such as while the server starts.
	Rate  float64 `json:"rate"`
	P99Us float64 `json:"p99Us"`
}

// TuningHead is a tuning as a list shows it.
type TuningHead struct {
	ID        int64       `json:"id"`
	Model     string      `json:"model"`
	State     TuningState `json:"state"`
	Reason    string      `json:"reason"`
	StartedMs int64       `json:"startedMs"`
	EndedMs   int64       `json:"endedMs"` // 0 while it runs
	Request   StartTuning `json:"request"`
	// Measured of Most measurements at most; Most is 0 until the model is known.
	Measured int `json:"measured"`
	Most     int `json:"most"`
	// Best is the best trial that keeps the constraints, Present the best of the present configuration; null: there
	// is none.
	Best    *TuningTrial `json:"best"`
	Present *TuningTrial `json:"present"`
	// BestChanges are those of the best trial's configuration.
	BestChanges List[TuningChange] `json:"bestChanges"`
	// Applied is the last revision by which one of its configurations was applied, 0 if none was; AppliedConfig which.
	Applied       int64 `json:"applied"`
	AppliedConfig int   `json:"appliedConfig"`
}

// Tuning is a search for a model's best configuration, running or ended.
type Tuning struct {
	TuningHead
	Plan    TuningPlan         `json:"plan"`
	Configs List[TuningConfig] `json:"configs"`
	// Trials in the order of measuring, from the one that was asked for.
	Trials List[TuningTrial] `json:"trials"`
	// From is the index of the first of Trials.
	From int `json:"from"`
	// Now is what is being measured; null when nothing is.
	Now *TuningNow `json:"now"`
	// Stale says what has changed since, so that the figures are not of the model as it is and nothing is applied.
	Stale TuningStale `json:"stale"`
}

// TuningStale is what has changed since a tuning began.
type TuningStale string

// What can have changed.
const (
	TuningCurrent     TuningStale = "" // nothing
	TuningStaleFiles  TuningStale = "files"
	TuningStaleConfig TuningStale = "configuration"
)

// Tunings answers GET …/tunings: newest first.
type Tunings struct {
	Tunings List[TuningHead] `json:"tunings"`
	// Writable: the best configuration can be applied here. Why not says WhyNot.
	Writable bool   `json:"writable"`
	WhyNot   string `json:"whyNot"`
}

// TuningTexts are the files of a configuration that was measured.
type TuningTexts struct {
	Texts List[TuningText] `json:"texts"`
}

// TuningText is a model's config.pbtxt, as it was when the tuning began and with the changes.
type TuningText struct {
	Model  string `json:"model"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// ApplyTuning writes a configuration that was measured into the repository.
type ApplyTuning struct {
	Config int `json:"config"`
}

// AppliedTuning has a save of each model that changed, by model name.
type AppliedTuning struct {
	Saves List[SaveResult] `json:"saves"`
}
