package api

// WhatIf asks for the latency that the last requests of a model would have had with other settings.
type WhatIf struct {
	BatcherSettings
	// Speed is how much faster the requests come: 1 as they came, 2 twice the load; from 0.01 to 100.
	Speed float64 `json:"speed"`
}

// BatcherSettings are those of a configuration that say how requests wait and run together.
type BatcherSettings struct {
	// Dynamic: with dynamic_batching; then PreferredBatchSizes and MaxQueueDelayUs are its fields.
	Dynamic             bool      `json:"dynamic"`
	MaxBatchSize        int       `json:"maxBatchSize"`
	PreferredBatchSizes List[int] `json:"preferredBatchSizes"`
	MaxQueueDelayUs     int64     `json:"maxQueueDelayUs"`
	// Instances is at least 1, over all groups.
	Instances int `json:"instances"`
}

// Prediction answers POST /api/models/{name}/what-if.
type Prediction struct {
	Version string `json:"version"`
	// Requests are those in memory that were executed since the version was loaded and its instance groups last
	// changed. SpanMs is the time from the first to the last.
	Requests int     `json:"requests"`
	SpanMs   float64 `json:"spanMs"`
	// Settings are those in service.
	Settings BatcherSettings `json:"settings"`
	// Measured is how the requests fared, Present is the prediction for the settings in service, and Other that for
	// those asked for. Present differs from Measured by the error of the method, and by changes of the settings.
	Measured PredictedFigures `json:"measured"`
	Present  PredictedFigures `json:"present"`
	Other    PredictedFigures `json:"other"`
	// LargestBatch is the most rows of an execution whose time is known. Beyond is the share of the executions of
	// Other with more rows, from 0 to 1: their times are a guess.
	LargestBatch int     `json:"largestBatch"`
	Beyond       float64 `json:"beyond"`
}

// PredictedFigures are those of a load. Latencies are those in the server.
type PredictedFigures struct {
	P50Us   float64 `json:"p50Us"`
	P99Us   float64 `json:"p99Us"`
	QueueUs float64 `json:"queueUs"` // mean
	// BatchMean is the rows of an execution.
	BatchMean float64 `json:"batchMean"`
	// Busy is the share of the instances' time that they execute, from 0 to 1.
	Busy float64 `json:"busy"`
}
