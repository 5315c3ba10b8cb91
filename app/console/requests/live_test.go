package requests

import (
	"testing"

	"nereid/app/console/api"
	"nereid/app/requestlog"
	record "nereid/engine/requests"
	"nereid/store"
)

func TestEventsAreSentOnlyWhenRequestsEnded(t *testing.T) {
	s, err := store.OpenMemory(t.Context(), store.Options{KeepRequests: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := record.New()
	h := &Handler{Keeper: requestlog.New(log, nil), Store: s}
	lists := []filter{{limit: 2}, {limit: 2, show: showFailed}}
	if got := h.changes(lists); got != nil {
		t.Errorf("without requests: %+v", got)
	}
	for range 3 {
		log.Add(record.HTTP, nil, "/nothing", 404, "unknown_path", "no such path")
	}
	got := h.changes(lists)
	if len(got) != 2 {
		t.Fatalf("events: %+v", got)
	}
	all, failed := got[0].(api.RequestsEvent), got[1].(api.RequestsEvent)
	if len(all.Requests) != 2 || all.LeftOut != 1 || all.Next != 3 || all.Requests[0].ID < all.Requests[1].ID {
		t.Errorf("all requests: %+v", all)
	}
	if failed.Of != 1 || len(failed.Requests) != 0 || failed.Next != 3 {
		t.Errorf("failed requests: %+v", failed)
	}
	if got := h.changes(lists); got != nil {
		t.Errorf("again: %+v", got)
	}
	for range record.Size + 5 {
		log.Add(record.HTTP, nil, "/nothing", 404, "unknown_path", "no such path")
	}
	if e := h.changes(lists)[0].(api.RequestsEvent); e.Missed != 5 || e.LeftOut != record.Size-2 {
		t.Errorf("after more than fit: missed %d, left out %d", e.Missed, e.LeftOut)
	}
}
