package requests

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"nereid/app/capture"
	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/inference"
	"nereid/app/console/rest"
	"nereid/app/console/stream"
	"nereid/app/history"
	"nereid/app/requestlog"
	record "nereid/engine/requests"
	"nereid/store"
)

// Handler serves the routes about requests.
type Handler struct {
	Keeper *requestlog.Keeper // nil: requests are not recorded
	Store  *store.Store
	// Streams has the streams of Live.
	Streams *stream.Hub
	// Capture is nil if contents cannot be captured.
	Capture  *capture.Recorder
	Catalog  *catalog.Catalog
	Recorder *history.Recorder
	// Comparer sends kept requests again.
	Comparer *inference.Comparer
}

// List returns the requests that match a filter: the newest, or those before an ID, in memory and in the history; or
// those that ended since a moment.
func (h *Handler) List(r *http.Request) (out api.Requests, err error) {
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return out, err
	}
	if h.Keeper == nil {
		return api.Requests{Off: true}, nil
	}
	found := f.since(h.Keeper.Log(), f.after, &out.Next, &out.Missed)
	out.Dropped = h.Store.Health().DroppedRequests
	if out.Keeps = h.Keeper.Keeps(); out.Keeps && f.after < 0 {
		kept, err := h.Store.Requests(r.Context(), f.query())
		if err != nil {
			return out, err
		}
		found = append(found, kept...)
		oldest, err := h.Store.OldestRequest(r.Context())
		if err != nil {
			return out, err
		}
		out.OldestMs = float64(oldest) / 1000
	}
	if out.Requests, out.LeftOut = h.newest(&f, found); out.LeftOut > 0 && f.after < 0 {
		out.More, out.LeftOut = true, 0
	}
	return out, nil
}

// since returns the requests in memory that match and ended since a position of the log, and sets the next position
// and how many are no longer there. A position of a log that was there before the server started, or -1, means all.
func (f *filter) since(log *record.Log, after int64, next, missed *int64) (found []store.Request) {
	if after < 0 || after > log.Next() {
		after = log.Oldest()
	}
	*next, *missed = log.Since(after, func(_ int64, r *record.Record) {
		if f.matches(r) {
			found = append(found, requestlog.Row(r))
		}
	})
	return found
}

// newest returns the newest requests, the latest first, and how many are above the limit.
func (h *Handler) newest(f *filter, found []store.Request) (out api.List[api.Request], leftOut int) {
	found = ordered(found)
	slices.Reverse(found)
	if leftOut = max(0, len(found)-f.limit); leftOut > 0 {
		found = found[:f.limit]
	}
	for i := range found {
		out = append(out, h.apiRequest(&found[i]))
	}
	return out, leftOut
}

// ordered sorts requests by their IDs and leaves one of each.
func ordered(list []store.Request) []store.Request {
	slices.SortFunc(list, func(a, b store.Request) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b store.Request) bool { return a.ID == b.ID })
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
	var own record.Record
	var all []store.Request
	log.Since(log.Oldest(), func(_ int64, r *record.Record) {
		if r.ID == id {
			own = *r
		}
		if r.ID == id || r.Parent != 0 {
			all = append(all, requestlog.Row(r))
		}
	})
	if h.Keeper.Keeps() {
		kept, err := h.Store.RequestFamily(r.Context(), id)
		if err != nil {
			return out, err
		}
		all = append(all, kept...)
	}
	all = ordered(all)
	out.AheadBatches, out.AheadRows = ahead(log, &own)
	family := map[int64]bool{id: true} // parents have smaller IDs than their children
	found := false
	for i := range all {
		switch q := &all[i]; {
		case q.ID == id:
			out.Request, found = h.apiRequest(q), true
		case family[q.Parent]:
			family[q.ID] = true
			out.Steps = append(out.Steps, h.apiRequest(q))
		}
	}
	if !found {
		return out, rest.Errorf(api.CodeNotFound, "request %d was not kept, or is too old", id)
	}
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

func (h *Handler) apiRequest(r *store.Request) api.Request {
	out := api.Request{
		ID: r.ID, Parent: r.Parent, TMs: float64(r.TimeUS) / 1000, Protocol: r.Protocol, Client: r.Client,
		Model: r.Model, RequestID: r.RequestID, Outcome: api.Outcome(r.Outcome), Slow: r.Slow, Cached: r.Cached,
		Status: r.Status, Cause: r.Cause, Text: r.Text, Target: r.Target, BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		Responses: r.Responses, Rows: r.Rows, Instance: r.Instance, BatchRows: r.BatchRows,
		BatchRequests: r.BatchRequests, BusyUs: us(r.BusyNS), BusyRows: r.BusyRows, BusyRequests: r.BusyRequests,
	}
	out.Kept = h.Capture != nil && h.Capture.Kept(r.Model, r.ID)
	if r.Version > 0 {
		out.Version = strconv.FormatInt(r.Version, 10)
	}
	var all int64
	for _, ns := range r.PhasesNS {
		all += ns
		out.PhasesUs = append(out.PhasesUs, us(ns))
	}
	out.DurationUs = us(all)
	return out
}

func us(ns int64) float64 { return float64(ns) / 1000 }
