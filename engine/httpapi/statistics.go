package httpapi

import (
	"maps"
	"slices"
	"strconv"

	"nereid/engine/inferencepb"
)

func appendStatistics(b []byte, m *inferencepb.ModelStatisticsResponse) []byte {
	b = append(b, `{"model_stats":[`...)
	for i, st := range m.GetModelStats() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModelStatistics(b, st)
	}
	return append(b, ']', '}')
}

func appendModelStatistics(b []byte, st *inferencepb.ModelStatistics) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, st.GetName())
	b = append(b, `,"version":`...)
	b = appendString(b, st.GetVersion())
	b = appendCount(b, "last_inference", st.GetLastInference())
	b = appendCount(b, "inference_count", st.GetInferenceCount())
	b = appendCount(b, "execution_count", st.GetExecutionCount())
	is := st.GetInferenceStats()
	b = append(b, `,"inference_stats":{`...)
	b = appendDurations(b,
		duration{"success", is.GetSuccess()}, duration{"fail", is.GetFail()}, duration{"queue", is.GetQueue()},
		duration{"compute_input", is.GetComputeInput()}, duration{"compute_infer", is.GetComputeInfer()},
		duration{"compute_output", is.GetComputeOutput()}, duration{"cache_hit", is.GetCacheHit()}, duration{"cache_miss", is.GetCacheMiss()},
	)
	b = append(b, `},"response_stats":{`...)
	for i, key := range slices.Sorted(maps.Keys(st.GetResponseStats())) {
		if i > 0 {
			b = append(b, ',')
		}
		rs := st.GetResponseStats()[key]
		b = appendString(b, key)
		b = append(b, ':', '{')
		b = appendDurations(b,
			duration{"compute_infer", rs.GetComputeInfer()}, duration{"compute_output", rs.GetComputeOutput()},
			duration{"success", rs.GetSuccess()}, duration{"fail", rs.GetFail()}, duration{"empty_response", rs.GetEmptyResponse()},
			duration{"cancel", rs.GetCancel()},
		)
		b = append(b, '}')
	}
	b = append(b, `},"batch_stats":[`...)
	for i, bs := range st.GetBatchStats() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"batch_size":`...)
		b = strconv.AppendUint(b, bs.GetBatchSize(), 10)
		b = append(b, ',')
		b = appendDurations(b,
			duration{"compute_input", bs.GetComputeInput()}, duration{"compute_infer", bs.GetComputeInfer()},
			duration{"compute_output", bs.GetComputeOutput()},
		)
		b = append(b, '}')
	}
	b = append(b, `],"memory_usage":[`...)
	for i, mu := range st.GetMemoryUsage() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":`...)
		b = appendString(b, mu.GetType())
		b = append(b, `,"id":`...)
		b = strconv.AppendInt(b, mu.GetId(), 10)
		b = appendCount(b, "byte_size", mu.GetByteSize())
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

func appendCount(b []byte, key string, n uint64) []byte {
	b = append(b, `,"`+key+`":`...)
	return strconv.AppendUint(b, n, 10)
}

type duration struct {
	key string
	d   *inferencepb.StatisticDuration
}

// appendDurations writes members of an object, each with a comma before it but the first.
func appendDurations(b []byte, list ...duration) []byte {
	for i, d := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `"`+d.key+`":{"count":`...)
		b = strconv.AppendUint(b, d.d.GetCount(), 10)
		b = appendCount(b, "ns", d.d.GetNs())
		b = append(b, '}')
	}
	return b
}
