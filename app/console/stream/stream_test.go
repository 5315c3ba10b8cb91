package stream

import (
	"context"
	"net/http/httptest"
	"testing"

	"nereid/app/console/api"
)

func TestSlowReaderIsDisconnected(t *testing.T) {
	h := NewHub()
	slow, quick := h.join([]string{"event"}), h.join([]string{"event"})
	for range queueSize + 1 {
		h.Publish("event", api.Event{})
		<-quick.queue
	}
	select {
	case <-slow.cut:
	default:
		t.Error("a reader whose queue is full is not cut off")
	}
	select {
	case <-quick.cut:
		t.Error("the quick reader is cut off")
	default:
	}
	h.leave(slow)
	h.Close()
	if h.join([]string{"event"}) != nil {
		t.Error("a closed hub takes readers")
	}
}

func TestStreamEndsWithItsReader(t *testing.T) {
	h := NewHub()
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequest("GET", "/api/events", nil).WithContext(ctx)
	done := make(chan error)
	go func() {
		done <- h.Serve(httptest.NewRecorder(), req, func() api.ModelsEvent { return api.ModelsEvent{} })
	}()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if h.Wanted("event") {
		t.Error("the stream of a reader that left is still there")
	}
}

func TestReadersThatJoinAreNoticed(t *testing.T) {
	h := NewHub()
	if !h.Empty() {
		t.Error("a new hub has readers")
	}
	a, b := h.join(nil), h.join([]string{"event"})
	select {
	case <-h.Joined():
	default:
		t.Error("it is not noticed that readers joined")
	}
	h.leave(a)
	if h.Empty() {
		t.Error("the hub is empty, but a reader is left")
	}
	h.leave(b)
	select {
	case <-h.Joined():
		t.Error("readers that left count as joined")
	default:
	}
}
