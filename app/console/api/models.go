package api

import "encoding/json"

// Models answers GET /api/models, sorted by name.
type Models struct {
	Models List[Model] `json:"models"`
}

// Model is one model of the repositories, loaded or not. Its configuration is the one in service, if any.
type Model struct {
	Name string `json:"name"`
	// State is the best of its versions: READY when any is, else LOADING, UNLOADING, UNAVAILABLE.
	State State `json:"state"`
	// Condition says more than the state; empty if there is no more to say.
	Condition Condition `json:"condition"`
	// Reason in full when the model as a whole could not be loaded or reloaded (also while an older
	// configuration or version keeps serving); else empty.
	Reason   string        `json:"reason"`
	Versions List[Version] `json:"versions"`
	Backend  string        `json:"backend"`
	Platform string        `json:"platform"`
	// MaxBatchSize 0: the model does not batch.
	MaxBatchSize    int  `json:"maxBatchSize"`
	DynamicBatching bool `json:"dynamicBatching"`
	Decoupled       bool `json:"decoupled"`
	Ensemble        bool `json:"ensemble"`
	// Sequences: its requests belong to sequences and must name theirs.
	Sequences bool         `json:"sequences"`
	Inputs    List[Tensor] `json:"inputs"`
	Outputs   List[Tensor] `json:"outputs"`
	// Instances is the number of instances of one version, over all groups.
	Instances int `json:"instances"`
	// Repository is the path of the repository it comes from.
	Repository string `json:"repository"`
	// Folder is the path of the model's folder.
	Folder string `json:"folder"`
	// ConfigPath is the path of the configuration file, which need not exist (ConfigExists).
	ConfigPath   string `json:"configPath"`
	ConfigExists bool   `json:"configExists"`
	// MemoryBytes is what its loaded versions take of the machine's memory, as measured last; 0 when nothing was.
	MemoryBytes int64 `json:"memoryBytes"`
	// GPUBytes is the same of all GPUs together.
	GPUBytes int64 `json:"gpuBytes"`
	// MemorySource says how it is known: "process", "allocator", "files" (their size); empty when nothing was measured.
	MemorySource string `json:"memorySource"`
	// GPUSource is the source of GPUBytes; it may also be "difference": by how much the memory in use grew as it
	// was loaded.
	GPUSource string `json:"gpuSource"`
	// Pinned: it stays in memory whatever the budget.
	Pinned bool `json:"pinned"`
	// Resident: a version is loaded. A model that is READY and not resident is loaded by its next request.
	Resident bool `json:"resident"`
}

// SetPin keeps a model in memory, or lets it go again.
type SetPin struct {
	Pinned bool `json:"pinned"`
}

// Condition is what the page says in place of a state, in the words of people. The inference protocols know only the
// states.
type Condition string

// The conditions.
const (
	ConditionNone Condition = ""
	// ConditionUnloaded: a user or a client has unloaded it.
	ConditionUnloaded Condition = "unloaded"
	// ConditionInstalling: the packages that it needs are being installed.
	ConditionInstalling Condition = "installing"
	// ConditionOverBudget: nothing is loaded, and the last load did not fit into the memory budget.
	ConditionOverBudget Condition = "over_budget"
)

// Version is one version of a model.
type Version struct {
	Version string `json:"version"`
	State   State  `json:"state"`
	// Condition as in Model.
	Condition Condition `json:"condition"`
	// Reason in full, as the repository index answers it; empty for READY.
	Reason string `json:"reason"`
	// SinceMs is when the state began; 0 when unknown.
	SinceMs int64 `json:"sinceMs"`
	// LastMinute is what happened in the last 60 seconds.
	LastMinute Recent `json:"lastMinute"`
	// LoadMs is how long the last load took, warmup included; 0 when it is not loaded.
	LoadMs float64 `json:"loadMs"`
	// Evicted: it is READY although nothing is loaded; its next request loads it.
	Evicted bool `json:"evicted"`
	// Golden counts the golden requests that the version has answered as it should when it was loaded.
	Golden int `json:"golden"`
	// FetchedBytes of its FetchBytes are downloaded; FetchBytes is 0 unless that is under way.
	FetchedBytes int64 `json:"fetchedBytes"`
	FetchBytes   int64 `json:"fetchBytes"`
}

// Recent summarises the last 60 seconds of one model version.
type Recent struct {
	// QPS is requests answered a second, failures included.
	QPS      float64 `json:"qps"`
	Requests int64   `json:"requests"`
	Failures int64   `json:"failures"`
	// P50Us and P99Us are latencies inside the server; null without requests.
	P50Us *float64 `json:"p50Us"`
	P99Us *float64 `json:"p99Us"`
	// Spark is requests for each of the last 60 seconds, oldest first.
	Spark List[float64] `json:"spark"`
	// FailureSpark is the failures among Spark; empty if nothing failed.
	FailureSpark List[float64] `json:"failureSpark"`
	// EndMs is the end of the last second of Spark; 0 if the version is not loaded.
	EndMs int64 `json:"endMs"`
}

// ModelDetail answers GET /api/models/{name}.
type ModelDetail struct {
	Model
	// ConfigText is the file at ConfigPath as it is on disk now; empty when there is none.
	ConfigText string `json:"configText"`
	// RunningText is the configuration file as it was read by the load that now serves; empty when not loaded.
	RunningText string `json:"runningText"`
	// CompletedText is the configuration with everything that the model file and the defaults add, as pbtxt.
	CompletedText string `json:"completedText"`
	// Effective is the configuration as /v2/models/{name}/config answers it; null when not loaded.
	Effective json.RawMessage `json:"effective"`
	// Revision is the id of the newest revision of ConfigText; 0 when none was kept yet.
	Revision int64 `json:"revision"`
	// Writable: the configuration can be saved.
	Writable bool `json:"writable"`
	// OtherVersions are in the folder and unknown to the engine: they can be loaded alone.
	OtherVersions List[string] `json:"otherVersions"`
	Files         List[File]   `json:"files"`
	// Labels by output name, from the outputs' label files.
	Labels map[string]List[string] `json:"labels"`
	// Failed is the configuration on disk if it did not load and an earlier one serves; else null. All other fields
	// describe the one in service, except ConfigText.
	Failed *FailedConfig `json:"failed"`
	// Provenance is null unless nereid get or the page fetched the model.
	Provenance *Provenance `json:"provenance"`
}

// Provenance says where a model came from. It is the model's file provenance.json, which anybody may have written.
type Provenance struct {
	// From is the URL, the package's file or the folder; File is in it, or "".
	From string `json:"from"`
	File string `json:"file"`
	// Revision is the hub's commit or the digest of a registry's manifest, or "".
	Revision string `json:"revision"`
	// License as the source names it, or "".
	License string `json:"license"`
	// SHA256 of what was downloaded, or "".
	SHA256 string `json:"sha256"`
	// Fetched is an RFC 3339 time.
	Fetched string `json:"fetched"`
}

// FailedConfig is a configuration that did not load.
type FailedConfig struct {
	// Revision is the ID of the change that brought it, which can be undone; 0: it is not known.
	Revision int64 `json:"revision"`
	// Readable: the text has no errors, so the fields below are known.
	Readable        bool         `json:"readable"`
	MaxBatchSize    int          `json:"maxBatchSize"`
	DynamicBatching bool         `json:"dynamicBatching"`
	Inputs          List[Tensor] `json:"inputs"`
	Outputs         List[Tensor] `json:"outputs"`
}

// LoadResult answers load and unload.
type LoadResult struct {
	OK bool `json:"ok"`
	// Reason in full when it failed.
	Reason string `json:"reason"`
	// KeepsServing: it failed, and what was in service before still is.
	KeepsServing bool  `json:"keepsServing"`
	Model        Model `json:"model"`
}

// Trashed is a model folder moved to the trash in the data directory.
type Trashed struct {
	ID    string `json:"id"`
	Model string `json:"model"`
	// From is the folder it was moved from.
	From      string `json:"from"`
	TMs       int64  `json:"tMs"`
	SizeBytes int64  `json:"sizeBytes"`
}

// Trash answers GET /api/trash, newest first.
type Trash struct {
	Items List[Trashed] `json:"items"`
}

// WarmupRequest runs made-up requests through the real scheduler: the model's own model_warmup samples when it
// has any, else zeros of the signature's shape (each -1 taken as 1).
type WarmupRequest struct {
	// Version, empty for the newest that is ready.
	Version string `json:"version"`
	// Count of requests, 2..1000, default 20.
	Count int `json:"count"`
	// Batch size of each, 1..max batch size, default 1. Ignored by a model that does not batch.
	Batch int `json:"batch"`
}

// WarmupResult says how the latency settled.
type WarmupResult struct {
	Version string `json:"version"`
	Batch   int    `json:"batch"`
	// FirstUs is the first request's latency inside the server.
	FirstUs float64 `json:"firstUs"`
	// SettledUs is the median of the second half of the requests.
	SettledUs float64 `json:"settledUs"`
	// SamplesUs are all latencies in order.
	SamplesUs List[float64] `json:"samplesUs"`
	// Source of the inputs: "model_warmup" or "zeros".
	Source string `json:"source"`
}
