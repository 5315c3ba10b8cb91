package inference

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A request whose time is over gets an answer that says so, and not an empty success.
func TestARequestThatTakesTooLongIsAnswered(t *testing.T) {
	hangs := Server{Dial: func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("it took too long"))
	defer cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/infer/m", strings.NewReader("{}"))
	if err := NewVisitorProxy(hangs).Infer(w, r); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "it took too long") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
