package history

import (
	"net/http"

	"nereid/app/console/api"
)

// RefusedRequests returns the requests that the services refused.
func (h *Handler) RefusedRequests(*http.Request) (out api.Refused, err error) {
	counts, end := h.Refusals.Counts()
	out.EndMs = end.UnixMilli()
	for i := range counts {
		c := &counts[i]
		cause := api.RefusedCause{Protocol: c.Protocol, Cause: c.Cause, Total: int64(c.Total),
			PerSecond: make([]float64, len(c.PerSecond))}
		for at, n := range c.PerSecond {
			cause.PerSecond[at] = float64(n)
		}
		out.Causes = append(out.Causes, cause)
	}
	for _, r := range h.Refusals.Last() {
		out.Last = append(out.Last, api.RefusedRequest{TMs: r.Time.UnixMilli(), Protocol: r.Protocol, Cause: r.Cause,
			Target: r.Target, Client: r.Client, Text: r.Text})
	}
	return out, nil
}
