package alerts

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"nereid/store"
)

const (
	webhookKey = "alerts.webhook" // a setting
	// toSend is how many messages may wait for the webhook. More are dropped, the newest first.
	toSend = 64
	// tries is how often a message is sent; the pauses between double, from firstPause.
	tries      = 8
	firstPause = time.Second
	sendLimit  = 10 * time.Second // of one try
)

// Target is where a Webhook sends to.
type Target struct {
	URL    string `json:"url"`    // "": nowhere
	Secret string `json:"secret"` // "": messages are not signed
}

// Check returns why a target cannot be used, nil if it can. It never quotes the address, which may have a secret.
func (t Target) Check() error {
	if t.URL == "" {
		return nil
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the address of a webhook must begin with http:// or https:// and name a host")
	}
	return nil
}

// Message is the body of a webhook's request.
type Message struct {
	Event string  `json:"event"` // "alert", "alert_ended", or "test"
	Text  string  `json:"text"`  // in English
	Alert *Alert  `json:"alert,omitempty"`
	Sent  float64 `json:"sent"` // seconds since 1970
}

// Webhook posts messages to an address that the user chose. Each has the header X-Nereid-Timestamp, in seconds since
// 1970. If there is a secret, it also has X-Nereid-Signature: "sha256=" and, in hexadecimal, the HMAC-SHA256 with the
// secret of the timestamp, a dot, and the body. A request that fails, or that is answered with 429 or 5xx, is sent
// again. Its methods are safe for concurrent use and do not wait for the receiver, but Run runs once.
type Webhook struct {
	store *store.Store
	log   *slog.Logger
	queue chan Message
	pause time.Duration
	http  http.Client

	mu     sync.Mutex // guards the following
	target Target
	state  WebhookState
}

// WebhookState says how the last messages fared.
type WebhookState struct {
	Delivered, Dropped int64
	Waiting            int
	// LastError is why the last message was not delivered, "" if it was.
	LastError string
}

// NewWebhook makes a Webhook with the target of the store.
func NewWebhook(ctx context.Context, s *store.Store, log *slog.Logger) (*Webhook, error) {
	h := &Webhook{store: s, log: log, queue: make(chan Message, toSend), pause: firstPause,
		http: http.Client{Timeout: sendLimit, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a signed message is for one receiver
		}}}
	text, err := s.Setting(ctx, webhookKey)
	if err == nil {
		err = json.Unmarshal(text, &h.target)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("reading %s: %w", webhookKey, err)
	}
	return h, nil
}

// Notify queues an alert.
func (h *Webhook) Notify(a Alert) {
	event := "alert"
	if a.EndUS != 0 {
		event = "alert_ended"
	}
	h.send(Message{Event: event, Text: "model " + a.Model + ": " + a.Text(), Alert: &a})
}

// Test queues a message without an alert.
func (h *Webhook) Test() { h.send(Message{Event: "test", Text: "this is a test of Nereid's webhook"}) }

func (h *Webhook) send(m Message) {
	if target, _ := h.State(); target.URL == "" {
		return
	}
	select {
	case h.queue <- m:
	default:
		h.note(func(s *WebhookState) { s.Dropped++ })
	}
}

func (h *Webhook) note(f func(*WebhookState)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.state)
}

// State returns the target, with its secret, and how the last messages fared.
func (h *Webhook) State() (Target, WebhookState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.state
	s.Waiting = len(h.queue)
	return h.target, s
}

// Set keeps a target. It holds for messages that wait, too.
func (h *Webhook) Set(ctx context.Context, t Target) error {
	if err := t.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := h.store.SetSetting(ctx, webhookKey, text); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.target, h.state.LastError = t, ""
	return nil
}

// Run sends until ctx is done. What then waits is lost; the history has it.
func (h *Webhook) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-h.queue:
			h.deliver(ctx, m)
		}
	}
}

// deliver sends a message until it is received, refused, or sent too often.
func (h *Webhook) deliver(ctx context.Context, m Message) {
	for try := range tries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(h.pause << (try - 1)):
			}
		}
		target, _ := h.State()
		if target.URL == "" {
			return
		}
		again, err := h.post(ctx, target, m)
		if err == nil {
			h.note(func(s *WebhookState) { s.Delivered++; s.LastError = "" })
			return
		}
		h.note(func(s *WebhookState) { s.LastError = err.Error() })
		if !again {
			break
		}
	}
	_, s := h.State()
	h.log.Warn("an alert was not delivered to the webhook", "err", s.LastError)
	h.note(func(s *WebhookState) { s.Dropped++ })
}

// post sends a message once. again says that another try may succeed. The error has neither address nor secret.
func (h *Webhook) post(ctx context.Context, t Target, m Message) (again bool, err error) {
	now := time.Now()
	m.Sent = float64(now.UnixMilli()) / 1000
	body, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address of the webhook cannot be used")
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "nereid")
	req.Header.Set("X-Nereid-Timestamp", stamp)
	if t.Secret != "" {
		req.Header.Set("X-Nereid-Signature", "sha256="+sign(t.Secret, stamp, body))
	}
	resp, err := h.http.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the address
		}
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	if resp.StatusCode < 300 {
		return false, nil
	}
	again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("the receiver answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

// sign returns the signature of a body at a time, in hexadecimal.
func sign(secret, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
