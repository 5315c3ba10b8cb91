package alerts

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nereid/store"
)

// webhookTo starts a Webhook that sends to a receiver. It ends with the test.
func webhookTo(t *testing.T, receiver http.HandlerFunc, secret string) (*Webhook, *bytes.Buffer) {
	t.Helper()
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	h, err := NewWebhook(t.Context(), db, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h.pause = time.Millisecond
	if err := h.Set(t.Context(), Target{URL: server.URL + "/hook?key=in-the-address", Secret: secret}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, log
}

// settled waits until a Webhook has nothing to send, and n messages have been delivered or dropped.
func settled(t *testing.T, h *Webhook, n int64) WebhookState {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, s := h.State(); s.Delivered+s.Dropped >= n {
			return s
		}
	}
	t.Fatal("the messages were not delivered")
	return WebhookState{}
}

func TestWebhookIsSignedAndRetried(t *testing.T) {
	type received struct {
		header http.Header
		body   []byte
	}
	got := make(chan received, 10)
	h, log := webhookTo(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- received{r.Header, body}
		if len(got) < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}, "a secret")
	h.Notify(Alert{ID: 7, Kind: Failures, Model: "m", Version: 2, Value: 0.5, Limit: 0.05})
	if s := settled(t, h, 1); s.Delivered != 1 || s.LastError != "" {
		t.Errorf("state %+v, want one delivered", s)
	}
	if len(got) != 3 {
		t.Fatalf("%d requests, want two that failed and one more", len(got))
	}
	for range 3 {
		r := <-got
		mac := hmac.New(sha256.New, []byte("a secret"))
		mac.Write([]byte(r.header.Get("X-Nereid-Timestamp") + "." + string(r.body)))
		want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		if sig := r.header.Get("X-Nereid-Signature"); sig != want {
			t.Errorf("signature %q, want %q", sig, want)
		}
		var m Message
		if err := json.Unmarshal(r.body, &m); err != nil || m.Event != "alert" || m.Alert == nil || m.Alert.ID != 7 ||
			!strings.Contains(m.Text, "50.0 % of the requests") {
			t.Errorf("message %s, %v", r.body, err)
		}
	}
	if log.Len() != 0 {
		t.Errorf("the log has %s", log)
	}
}

func TestWebhookGivesUpAndKeepsSecretsOutOfTheLog(t *testing.T) {
	requests := make(chan struct{}, 2*tries)
	h, log := webhookTo(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		w.WriteHeader(http.StatusServiceUnavailable)
	}, "a secret")
	h.Test()
	if s := settled(t, h, 1); s.Dropped != 1 || !strings.Contains(s.LastError, "503") {
		t.Errorf("state %+v, want one dropped", s)
	}
	if len(requests) != tries {
		t.Errorf("%d requests, want %d", len(requests), tries)
	}
	if err := h.Set(t.Context(), Target{URL: "http://127.0.0.1:1/in-the-address", Secret: "a secret"}); err != nil {
		t.Fatal(err)
	}
	h.Test()
	s := settled(t, h, 2)
	for _, text := range []string{log.String(), s.LastError} {
		if text == "" || strings.Contains(text, "a secret") || strings.Contains(text, "in-the-address") {
			t.Errorf("log or error %q; want it without the secret and the address", text)
		}
	}
}

func TestWebhookDoesNotRetryWhatIsRefused(t *testing.T) {
	requests := make(chan struct{}, 2*tries)
	h, _ := webhookTo(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		if len(requests) == 1 {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}, "")
	h.Test()
	settled(t, h, 1)
	h.Test()
	if s := settled(t, h, 2); s.Dropped != 2 || len(requests) != 2 {
		t.Errorf("state %+v after %d requests; want each sent once", s, len(requests))
	}
}

func TestWebhookNeverBlocks(t *testing.T) {
	hold := make(chan struct{})
	entered := make(chan struct{}, 4*toSend)
	h, _ := webhookTo(t, func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-hold }, "")
	h.Test()
	<-entered // one is under way, and waits for the receiver
	for range toSend + 5 {
		h.Notify(Alert{Model: "m"}) // returns although the receiver does not
	}
	if _, s := h.State(); s.Dropped != 5 || s.Waiting != toSend {
		t.Errorf("state %+v; want %d waiting and 5 dropped", s, toSend)
	}
	close(hold)
	if s := settled(t, h, toSend+6); s.Delivered != toSend+1 {
		t.Errorf("state %+v; want those that waited delivered", s)
	}
}

func TestWebhookTargets(t *testing.T) {
	for address, ok := range map[string]bool{"": true, "http://host/x": true, "https://host": true, "host": false,
		"file:///etc/passwd": false, "http://": false, "://": false} {
		if err := (Target{URL: address}).Check(); (err == nil) != ok {
			t.Errorf("Check of %q = %v", address, err)
		}
	}
}
