package alerts

import "fmt"

// Alert is one finding about a version of a model, or about the server: then it has neither model nor version.
type Alert struct {
	ID      int64  `json:"id"` // rising
	Kind    Kind   `json:"kind"`
	Model   string `json:"model"`
	Version int64  `json:"version"`
	SinceUS int64  `json:"sinceUs"`
	EndUS   int64  `json:"endUs,omitempty"` // 0: it is open
	// Value and Limit have the unit of the kind. For Version, Value is the factor of the times, 0 if it is not known.
	Value float64 `json:"value"`
	Limit float64 `json:"limit,omitempty"`

	// The following are of a Version alert only.
	Slower         bool    `json:"slower,omitempty"`
	FailsMore      bool    `json:"failsMore,omitempty"`
	BeforeVersion  int64   `json:"beforeVersion,omitempty"`
	BeforeUS       float64 `json:"beforeMeanUs,omitempty"` // mean time of a request, in microseconds
	NowUS          float64 `json:"nowMeanUs,omitempty"`
	FailuresBefore float64 `json:"failuresBefore,omitempty"` // shares of the requests
	FailuresNow    float64 `json:"failuresNow,omitempty"`
	CPUBefore      float64 `json:"cpuBefore,omitempty"` // of the machine, from 0 to 1; -1: not known
	CPUNow         float64 `json:"cpuNow,omitempty"`

	clearUS int64 // since when the value is within the limit; 0: it is not
	knownUS int64 // when there was evidence last
}

// Text says in English what the alert found. The page translates it by the formats, so each has its own.
func (a *Alert) Text() string {
	switch a.Kind {
	case Failures:
		return fmt.Sprintf("%.1f %% of the requests of the last minute failed; the limit is %.1f %%", 100*a.Value,
			100*a.Limit)
	case Refused:
		return fmt.Sprintf("%.1f %% of the requests of the last minute were refused; the limit is %.1f %%", 100*a.Value,
			100*a.Limit)
	case P99:
		return fmt.Sprintf("the 99th percentile of the last minute is %.1f ms; the limit is %.1f ms", a.Value/1000,
			a.Limit/1000)
	case Restarts:
		return fmt.Sprintf("processes ended %.0f times within ten minutes; the limit is %.0f", a.Value, a.Limit)
	case Queue:
		return fmt.Sprintf("%.0f requests wait; the limit is %.0f", a.Value, a.Limit)
	case Memory:
		return fmt.Sprintf("the model takes %.0f MiB; the limit is %.0f MiB", a.Value/(1<<20), a.Limit/(1<<20))
	}
	var found string
	switch {
	case a.Slower && a.FailsMore:
		found = fmt.Sprintf("requests take %.1f ms (%.1f ms before, factor %.2f), "+
			"and %.1f %% of them fail (%.1f %% before)", a.NowUS/1000, a.BeforeUS/1000, a.Value, 100*a.FailuresNow,
			100*a.FailuresBefore)
	case a.Slower:
		found = fmt.Sprintf("requests take %.1f ms (%.1f ms before, factor %.2f)", a.NowUS/1000, a.BeforeUS/1000,
			a.Value)
	default:
		found = fmt.Sprintf("%.1f %% of the requests fail (%.1f %% before)", 100*a.FailuresNow, 100*a.FailuresBefore)
	}
	text := fmt.Sprintf("worse than version %d: %s", a.BeforeVersion, found)
	if a.BeforeVersion == a.Version {
		text = fmt.Sprintf("worse than before it was loaded again: %s", found)
	}
	if a.CPUBefore >= 0 && a.CPUNow >= 0 {
		text = fmt.Sprintf("%s; the CPU is %.0f %% busy (%.0f %% before)", text, 100*a.CPUNow, 100*a.CPUBefore)
	}
	return text
}
