package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/history"
	"nereid/store"
)

const (
	heartbeat   = 15 * time.Second
	streamQueue = 128 // messages that wait for a slow reader before it is cut off
	maxStreams  = 256
)

var topics = []string{"models", "samples", "event", "import", "machine", "framework"}

// hub hands messages to the event streams.
type hub struct {
	mu      sync.Mutex
	streams map[*stream]bool // guarded by mu, as is closed
	closed  bool
}

// stream is one reader.
type stream struct {
	topics  []string
	queue   chan []byte
	cut     chan struct{} // closed when the reader is to be let go
	cutOnce sync.Once
}

func (s *stream) end() { s.cutOnce.Do(func() { close(s.cut) }) }

func newHub() *hub { return &hub{streams: map[*stream]bool{}} }

// join adds a reader; nil when there are too many, or the hub is closed.
func (h *hub) join(topics []string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= maxStreams {
		return nil
	}
	s := &stream{topics: topics, queue: make(chan []byte, streamQueue), cut: make(chan struct{})}
	h.streams[s] = true
	return s
}

func (h *hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.streams {
		s.end()
	}
}

// wants says whether anybody reads a topic.
func (h *hub) wants(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if slices.Contains(s.topics, topic) {
			return true
		}
	}
	return false
}

// publish sends a value to all who read a topic. It does not wait: a reader whose queue is full is cut off.
func (h *hub) publish(topic string, v any) {
	if !h.wants(topic) {
		return
	}
	msg := message(topic, v)
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if !slices.Contains(s.topics, topic) {
			continue
		}
		select {
		case s.queue <- msg:
		default:
			s.end()
		}
	}
}

// message is one event of the stream. JSON has no line breaks, so it is one data line.
func message(topic string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		data, _ = json.Marshal(api.Error{Error: err.Error(), Code: api.CodeInternal})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", topic, data)
	return b.Bytes()
}

func (c *Console) getStream(w http.ResponseWriter, r *http.Request) error {
	chosen := topics
	if q := r.URL.Query().Get("topics"); q != "" {
		chosen = strings.Split(q, ",")
		for _, t := range chosen {
			if !slices.Contains(topics, t) {
				return fail(api.CodeInvalid, "there is no topic %s; there are %s", quote(t), strings.Join(topics, ", "))
			}
		}
	}
	s := c.hub.join(chosen)
	if s == nil {
		return fail(api.CodeUnavailable, "too many event streams are open, or the server is stopping")
	}
	defer c.hub.leave(s)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	first := []byte(": connected\n\n")
	if slices.Contains(chosen, "models") {
		first = message("models", api.ModelsEvent{Full: true, Models: c.tellModels()})
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for msg := first; ; {
		// A reader that takes nothing for two heartbeats is gone.
		_ = out.SetWriteDeadline(time.Now().Add(2 * heartbeat)) // unsupported only by test writers
		if _, err := w.Write(msg); err != nil {
			return nil
		}
		if err := out.Flush(); err != nil {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.cut:
			return nil
		case msg = <-s.queue:
		case <-beat.C:
			msg = []byte(": still here\n\n")
		}
	}
}

// watch tells the readers of the topic models what changed, once a second and when ModelsChanged is called, and removes
// imports that were left alone.
func (c *Console) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	machine := time.NewTicker(machineEvery)
	defer machine.Stop()
	clean := time.NewTicker(time.Minute)
	defer clean.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-clean.C:
			c.imports.expire(c.log)
			continue
		case <-machine.C:
			if c.hub.wants("machine") {
				c.hub.publish("machine", c.machine())
			}
			continue
		case <-tick.C:
			if !c.hub.wants("models") {
				continue
			}
		case <-c.poke:
			for _, st := range c.o.Engine.Models() {
				c.texts.note(st)
			}
			if !c.hub.wants("models") {
				continue
			}
		}
		c.tellModels()
	}
}

// tellModels answers all models, and tells the readers of the topic what changed since the last call.
func (c *Console) tellModels() []api.Model {
	c.told.Lock()
	defer c.told.Unlock()
	all := c.allModels()
	if e, changed := modelsDiff(c.told.models, all); changed {
		c.hub.publish("models", e)
	}
	return all
}

// toldModels are the models as the readers of the topic know them.
type toldModels struct {
	sync.Mutex
	models map[string]api.Model // guarded by the mutex
}

// modelsDiff answers what changed since known, which it brings up to date. The numbers of the last minute do not count:
// they come with the samples.
func modelsDiff(known map[string]api.Model, now []api.Model) (e api.ModelsEvent, changed bool) {
	seen := map[string]bool{}
	for _, m := range now {
		seen[m.Name] = true
		bare := m
		bare.Versions = slices.Clone(m.Versions)
		for i := range bare.Versions {
			bare.Versions[i].LastMinute = api.Recent{}
		}
		if old, ok := known[m.Name]; !ok || !reflect.DeepEqual(old, bare) {
			known[m.Name] = bare
			e.Models = append(e.Models, m)
		}
	}
	for name := range known {
		if !seen[name] {
			delete(known, name)
			e.Removed = append(e.Removed, name)
		}
	}
	slices.Sort(e.Removed)
	return e, len(e.Models)+len(e.Removed) > 0
}

func (c *Console) publishSecond(s history.Second) {
	if len(s.Samples) == 0 || !c.hub.wants("samples") {
		return
	}
	out := api.SamplesEvent{TMs: s.StartUS / 1000}
	for i := range s.Samples {
		p := &s.Samples[i]
		v := values(p)
		out.Samples = append(out.Samples, api.Sample{Model: p.Model, Version: strconv.FormatInt(p.Version, 10),
			Requests: float64(p.Requests), Failures: float64(p.Failures.Total()),
			P50Us: v.p50, P95Us: v.p95, P99Us: v.p99, QueueUs: v.queue, ComputeUs: v.compute, BatchMean: v.batch})
	}
	c.hub.publish("samples", out)
}

func (c *Console) publishEvent(e store.Event) { c.hub.publish("event", apiEvent(e)) }
