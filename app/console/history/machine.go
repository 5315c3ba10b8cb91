package history

import (
	"net/http"
	"time"

	"nereid/app/console/api"
)

// Machine returns what the machine took, or with model=name in the query what that model took.
func (h *Handler) Machine(r *http.Request) (out api.MachineHistory, err error) {
	ask, err := seriesQuery(r.URL.Query())
	if err != nil {
		return out, err
	}
	least := time.Duration(ask.ToUS-ask.FromUS) * time.Microsecond / autoPoints
	gauges, step, err := h.Store.GaugeSteps(r.Context(), ask.Model, ask.FromUS, ask.ToUS, max(least, ask.Step))
	if err != nil {
		return out, err
	}
	out = api.MachineHistory{FromMs: ask.FromUS / 1000, ToMs: ask.ToUS / 1000, StepMs: step.Milliseconds()}
	for _, g := range gauges {
		last := len(out.Readings) - 1
		if last < 0 || out.Readings[last].Name != g.Name {
			out.Readings = append(out.Readings, api.Reading{Name: g.Name})
			last++
		}
		to := &out.Readings[last]
		to.TMs = append(to.TMs, g.StartUS/1000)
		to.Mean, to.Most = append(to.Mean, g.Mean), append(to.Most, g.Most)
	}
	return out, nil
}
