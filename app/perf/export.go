package perf

import (
	"encoding/json"
	"io"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// The JSON of the export.
type (
	exportDoc struct {
		Experiments []exportExperiment `json:"experiments"`
		Version     string             `json:"version"`
		ServiceKind string             `json:"service_kind"`
		Endpoint    string             `json:"endpoint"`
	}
	exportExperiment struct {
		Experiment exportMode      `json:"experiment"`
		Requests   []exportRequest `json:"requests"`
		Windows    []int64         `json:"window_boundaries"`
	}
	exportMode struct {
		Mode  string  `json:"mode"`
		Value float64 `json:"value"`
	}
	exportRequest struct {
		Timestamp int64                        `json:"timestamp"`
		Sequence  uint64                       `json:"sequence_id,omitempty"`
		Inputs    map[string]json.RawMessage   `json:"request_inputs"`
		Times     []int64                      `json:"response_timestamps"`
		Outputs   []map[string]json.RawMessage `json:"response_outputs"`
	}
)

// WriteExport writes every request: when it was sent and when its responses came, in nanoseconds since 1970, with its
// inputs and outputs. Format: perf_analyzer's --profile-export-file.
func WriteExport(w io.Writer, experiments []Experiment, version string) error {
	doc := exportDoc{Experiments: []exportExperiment{}, Version: version, ServiceKind: "triton"}
	for i := range experiments {
		e := &experiments[i]
		out := exportExperiment{Experiment: exportMode{Mode: "request_rate", Value: e.Level},
			Requests: []exportRequest{}, Windows: []int64{}}
		if e.Concurrency {
			out.Experiment.Mode = "concurrency"
		}
		for k := range e.Records {
			out.Requests = append(out.Requests, exported(&e.Records[k]))
		}
		for _, t := range e.Windows {
			out.Windows = append(out.Windows, t.UnixNano())
		}
		doc.Experiments = append(doc.Experiments, out)
	}
	return json.NewEncoder(w).Encode(doc)
}

func exported(r *Record) exportRequest {
	out := exportRequest{Timestamp: r.Start.UnixNano(), Sequence: r.Sequence, Inputs: values(r.Inputs),
		Times: []int64{}, Outputs: []map[string]json.RawMessage{}}
	for _, a := range r.Answers {
		out.Times = append(out.Times, a.At.UnixNano())
		out.Outputs = append(out.Outputs, values(a.Response.Outputs))
	}
	return out
}

// values returns tensors by name: one value by itself, several as an array, null if JSON cannot express them.
func values(list []client.Tensor) map[string]json.RawMessage {
	m := make(map[string]json.RawMessage, len(list))
	for i := range list {
		t := &list[i]
		m[t.Name] = json.RawMessage("null")
		text, err := client.ToJSON(t)
		if err != nil {
			continue // FP16, NaN, shared memory
		}
		if n, err := tensor.Elements(t.Shape); err == nil && n == 1 {
			text = text[1 : len(text)-1]
		}
		m[t.Name] = text
	}
	return m
}
