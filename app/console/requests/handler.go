package requests

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/requestlog"
	record "nereid/engine/requests"
)

// Handler serves the routes about requests.
type Handler struct {
	Keeper *requestlog.Keeper // nil: requests are not recorded
}

// List returns the requests that match a filter: the newest, those before an ID, or those that ended since a moment.
func (h *Handler) List(r *http.Request) (out api.Requests, err error) {
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return out, err
	}
	if h.Keeper == nil {
		return api.Requests{Off: true}, nil
	}
	log := h.Keeper.Log()
	from := f.after
	if from < 0 {
		from = log.Oldest()
	}
	var found []record.Record
	out.Next, out.Missed = log.Since(from, func(_ int64, r *record.Record) {
		if f.matches(r) {
			found = append(found, *r)
		}
	})
	slices.SortFunc(found, func(a, b record.Record) int { return cmp.Compare(b.ID, a.ID) })
	if n := len(found) - f.limit; n > 0 {
		found = found[:f.limit]
		if out.LeftOut = n; f.after < 0 {
			out.More, out.LeftOut = true, 0
		}
	}
	for i := range found {
		out.Requests = append(out.Requests, apiRequest(&found[i]))
	}
	return out, nil
}

// Get returns one request with its steps.
func (h *Handler) Get(r *http.Request) (out api.RequestDetail, err error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return out, rest.Errorf(api.CodeInvalid, "%s is not the number of a request", rest.Quote(r.PathValue("id")))
	}
	if h.Keeper == nil {
		return out, rest.Errorf(api.CodeNotFound, "this server does not record requests; see --record-requests")
	}
	log := h.Keeper.Log()
	var found *record.Record
	var others []record.Record
	log.Since(log.Oldest(), func(_ int64, r *record.Record) {
		if r.ID == id {
			own := *r
			found = &own
		} else if r.Parent != 0 {
			others = append(others, *r)
		}
	})
	if found == nil {
		return out, rest.Errorf(api.CodeNotFound, "request %d is no longer in memory", id)
	}
	out.Request = apiRequest(found)
	slices.SortFunc(others, func(a, b record.Record) int { return cmp.Compare(a.ID, b.ID) })
	family := map[int64]bool{id: true} // parents have smaller IDs than their children
	for i := range others {
		if family[others[i].Parent] {
			family[others[i].ID] = true
			out.Steps = append(out.Steps, apiRequest(&others[i]))
		}
	}
	out.AheadBatches, out.AheadRows = ahead(log, found)
	return out, nil
}

// ahead returns how many batches of a request's model began while it waited, and their rows.
func ahead(log *record.Log, r *record.Record) (batches, rows int) {
	if r.Taken == 0 || r.Ran.Instance == "" {
		return 0, 0
	}
	type batch struct {
		instance string
		began    int64
	}
	seen := map[batch]bool{}
	log.Since(log.Oldest(), func(_ int64, o *record.Record) {
		b := batch{o.Ran.Instance, int64(o.Taken)}
		if o.Model == r.Model && o.Version == r.Version && o.Taken > r.Queued && o.Taken < r.Taken && !seen[b] {
			seen[b] = true
			rows += o.Ran.Rows
		}
	})
	return len(seen), rows
}

func apiRequest(r *record.Record) api.Request {
	out := api.Request{
		ID: r.ID, Parent: r.Parent, TMs: float64(r.Began().Time().UnixMicro()) / 1000, Protocol: r.Protocol,
		Client: r.Host(), Model: r.Model, RequestID: r.RequestID(), Outcome: api.Outcome(r.Outcome.String()),
		Slow: r.Slow, Cached: r.Cached, Status: r.Status, Cause: r.Cause, Text: r.Text, Target: r.Target,
		BytesIn: int64(r.BytesIn), BytesOut: int64(r.BytesOut), Responses: r.Responses, Rows: r.Rows,
		Instance: r.Ran.Instance, DurationUs: us(int64(r.Ended().Sub(r.Began()))),
		BusyUs: us(int64(r.Busy())),
	}
	if r.Version > 0 {
		out.Version = strconv.FormatInt(r.Version, 10)
	}
	if out.Instance != "" {
		out.BatchRows, out.BatchRequests = r.Ran.Rows, r.Ran.Requests
	}
	if out.BusyUs > 0 {
		out.BusyRows, out.BusyRequests = r.Ran.Before.Rows, r.Ran.Before.Requests
	}
	for _, d := range r.Phases() {
		out.PhasesUs = append(out.PhasesUs, us(int64(d)))
	}
	return out
}

func us(ns int64) float64 { return float64(ns) / 1000 }
