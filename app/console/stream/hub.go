// Package stream sends the console's live messages to its readers as server-sent events.
//
// The package starts no goroutine. A reader occupies the goroutine of its request.
package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

const (
	heartbeat  = 15 * time.Second
	queueSize  = 128 // messages that wait for a slow reader before it is disconnected
	maxReaders = 256
)

var topics = []string{"models", "samples", "event", "import", "machine", "framework"}

// Hub passes messages to the readers of their topics. It is safe for concurrent use.
type Hub struct {
	joined  chan struct{} // see Joined
	mu      sync.Mutex
	readers map[*reader]bool // guarded by mu, as is closed
	closed  bool
}

// reader is one event stream.
type reader struct {
	topics  []string
	own     *source
	queue   chan []byte
	cut     chan struct{} // closed to disconnect the reader
	cutOnce sync.Once
}

func (r *reader) disconnect() { r.cutOnce.Do(func() { close(r.cut) }) }

// NewHub makes a Hub without readers.
func NewHub() *Hub { return &Hub{joined: make(chan struct{}, 1), readers: map[*reader]bool{}} }

// Joined sends when a reader has joined since it last did.
func (h *Hub) Joined() <-chan struct{} { return h.joined }

// Empty reports whether there is no reader.
func (h *Hub) Empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.readers) == 0
}

// join adds a reader; nil if there are too many, or the Hub is closed.
func (h *Hub) join(topics []string) *reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.readers) >= maxReaders {
		return nil
	}
	r := &reader{topics: topics, queue: make(chan []byte, queueSize), cut: make(chan struct{})}
	h.readers[r] = true
	select {
	case h.joined <- struct{}{}:
	default:
	}
	return r
}

func (h *Hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
}

// Close disconnects all readers and refuses new ones.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.readers {
		r.disconnect()
	}
}

// Wanted reports whether a topic has a reader.
func (h *Hub) Wanted(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if slices.Contains(r.topics, topic) {
			return true
		}
	}
	return false
}

// Publish sends a value to all readers of a topic. It does not wait: a reader whose queue is full is disconnected.
func (h *Hub) Publish(topic string, v any) {
	if !h.Wanted(topic) {
		return
	}
	msg := message(topic, v)
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if !slices.Contains(r.topics, topic) {
			continue
		}
		select {
		case r.queue <- msg:
		default:
			r.disconnect()
		}
	}
}

// message returns one event of the stream. JSON has no line breaks, so it is one data line.
func message(topic string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		data, _ = json.Marshal(api.Error{Error: err.Error(), Code: api.CodeInternal})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", topic, data)
	return b.Bytes()
}

// Serve sends events to one reader until it leaves or the Hub closes. models returns the first message of the topic
// models.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, models func() api.ModelsEvent) error {
	chosen := topics
	if q := r.URL.Query().Get("topics"); q != "" {
		chosen = strings.Split(q, ",")
		for _, t := range chosen {
			if !slices.Contains(topics, t) {
				return rest.Errorf(api.CodeInvalid, "there is no topic %s; there are %s", rest.Quote(t),
					strings.Join(topics, ", "))
			}
		}
	}
	first := []byte(": connected\n\n")
	if slices.Contains(chosen, "models") {
		first = message("models", models())
	}
	return h.serve(w, r, chosen, first, nil)
}

// Follow sends one reader the values that next returns, which is called in every period. It ends as Serve does.
func (h *Hub) Follow(w http.ResponseWriter, r *http.Request, topic string, period time.Duration,
	next func() []any,
) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	return h.serve(w, r, nil, []byte(": connected\n\n"), &source{tick: tick.C, next: func() (all []byte) {
		for _, v := range next() {
			all = append(all, message(topic, v)...)
		}
		return all
	}})
}

// source has messages for one reader only.
type source struct {
	tick <-chan time.Time // when to ask for one
	next func() []byte
}

// serve sends a first message, those of topics, and those of a source (nil: there is none).
func (h *Hub) serve(w http.ResponseWriter, r *http.Request, topics []string, first []byte, own *source) error {
	s := h.join(topics)
	if s == nil {
		return rest.Errorf(api.CodeUnavailable, "too many event streams are open, or the server is stopping")
	}
	defer h.leave(s)
	s.own = cmp.Or(own, &source{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	var z *gzip.Writer
	if rest.AcceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		var err error
		if z, err = gzip.NewWriterLevel(w, gzip.BestSpeed); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	s.copyTo(w, z, r, first)
	return nil
}

// copyTo writes the reader's messages until it leaves or is disconnected. z compresses them into w; nil: they are not
// compressed.
func (r *reader) copyTo(w http.ResponseWriter, z *gzip.Writer, req *http.Request, first []byte) {
	out := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for msg := first; ; {
		if msg != nil {
			_ = out.SetWriteDeadline(time.Now().Add(2 * heartbeat)) // only the writers of tests do not support it
			if err := writeTo(w, z, msg); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
		select {
		case <-req.Context().Done():
			return
		case <-r.cut:
			return
		case msg = <-r.queue:
		case <-r.own.tick:
			msg = r.own.next()
		case <-beat.C:
			msg = []byte(": still here\n\n")
		}
	}
}

// writeTo writes a message, through z unless that is nil, so that the client can read all of it after a flush of w.
func writeTo(w io.Writer, z *gzip.Writer, msg []byte) error {
	if z == nil {
		_, err := w.Write(msg)
		return err
	}
	if _, err := z.Write(msg); err != nil {
		return err
	}
	return z.Flush()
}
