package requests

import (
	"net/http"
	"net/url"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

const (
	livePeriod = 500 * time.Millisecond
	maxLists   = 32 // filters of a stream: a browser's tabs share one
)

// Live streams the requests that match filters, as they end. Each "of" of the query is a query of List; "after" says
// where its filter begins. Without readers it costs nothing.
func (h *Handler) Live(w http.ResponseWriter, r *http.Request) error {
	if h.Keeper == nil {
		return rest.Errorf(api.CodeNotFound, "this server does not record requests; see --record-requests")
	}
	of := r.URL.Query()["of"]
	if len(of) < 1 || len(of) > maxLists {
		return rest.Errorf(api.CodeInvalid, "the query must have one to %d filters named of", maxLists)
	}
	lists := make([]filter, len(of))
	for i := range of {
		q, err := url.ParseQuery(of[i])
		if err != nil {
			return rest.Errorf(api.CodeInvalid, "of=%s is not a query", rest.Quote(of[i]))
		}
		if lists[i], err = filterOf(q); err != nil {
			return err
		}
	}
	return h.Streams.Follow(w, r, "requests", livePeriod, func() []any {
		return h.changes(lists)
	})
}

// changes returns an event for each filter that has not seen the newest requests, and moves it on.
func (h *Handler) changes(lists []filter) (out []any) {
	log := h.Keeper.Log()
	newest := log.Next()
	for i := range lists {
		f := &lists[i]
		if f.after == newest {
			continue
		}
		e := api.RequestsEvent{Of: i, Dropped: h.Store.Health().DroppedRequests}
		e.Requests, e.LeftOut = h.newest(f, f.since(log, f.after, &e.Next, &e.Missed))
		f.after = e.Next
		out = append(out, e)
	}
	return out
}
