package worker

import (
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/frames"
)

// questions are what a process that is written in Go asks of the server: calls, and requests to other models. The main
// goroutine reads the answers between the frames that it handles. From the first question on that is asked, or waits,
// while it handles a frame, another goroutine reads all frames, and hands those that are no answers to the main one.
type questions struct {
	s    *server
	dec  *frames.Decoder // of the goroutine that reads
	pool tensor.Pool
	work chan []byte // frames for the main goroutine, once another one reads
	err  error       // why work was closed

	mu       sync.Mutex
	last     uint64                    // guarded by mu, as are the next
	calls    map[uint64]chan []byte    // unanswered
	requests map[uint64]*infer.Request // unanswered, each with a reference
	busy     bool                      // the main goroutine handles a frame
	apart    bool                      // another goroutine reads
}

func (q *questions) init(s *server) {
	q.s, q.work = s, make(chan []byte)
	q.calls, q.requests = map[uint64]chan []byte{}, map[uint64]*infer.Request{}
	q.dec = frames.NewProcessDecoder(s.down, &q.pool)
}

// next returns the next frame for the main goroutine. buf is used if that reads itself.
func (s *server) next(buf []byte) ([]byte, error) {
	q := &s.asked
	q.mu.Lock()
	q.busy = false
	apart := q.apart
	q.mu.Unlock()
	if apart {
		packet, ok := <-q.work
		if !ok {
			return nil, q.err
		}
		return packet, nil
	}
	packet, err := s.read(buf)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = true
	if len(q.calls)+len(q.requests) > 0 {
		q.readApart()
	}
	return packet, err
}

// readApart makes another goroutine read. It ends with the connection. q.mu is held, and the main goroutine handles a
// frame.
func (q *questions) readApart() {
	if q.apart {
		return
	}
	q.apart = true
	go func() {
		defer close(q.work)
		buf := make([]byte, frames.MaxPacket+1)
		for {
			packet, err := q.s.read(buf)
			answered := false
			if err == nil {
				answered, err = q.answer(packet)
			}
			if err != nil {
				q.err = err
				return
			}
			if !answered {
				q.work <- append([]byte(nil), packet...)
			}
		}
	}()
}

// ask adds a question and returns its number. call is nil for a request to another model.
func (q *questions) ask(call chan []byte, r *infer.Request) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	if call != nil {
		q.calls[q.last] = call
	} else {
		q.requests[q.last] = r
	}
	if q.busy {
		q.readApart()
	}
	return q.last
}

// answer hands an answer to the one who asked. It returns false for another frame.
func (q *questions) answer(packet []byte) (bool, error) {
	switch frames.KindOf(packet) {
	case frames.KindReply, frames.KindBLSResponse, frames.KindBLSWait:
	default:
		return false, nil
	}
	defer q.dec.Close()
	h, body, err := q.dec.Open(packet)
	if err != nil {
		return true, err
	}
	switch h.Kind {
	case frames.KindReply:
		q.mu.Lock()
		call := q.calls[h.ID]
		delete(q.calls, h.ID)
		q.mu.Unlock()
		if call != nil {
			call <- append([]byte(nil), body...)
		}
	case frames.KindBLSResponse:
		return true, q.respond(h.ID, body)
	case frames.KindBLSWait: // code waits for all requests
		return true, q.s.sendBytes(frames.KindBLSWait, h.ID, []byte{1})
	}
	return true, nil
}

// respond gives a request to another model its next response.
func (q *questions) respond(id uint64, body []byte) error {
	q.mu.Lock()
	r := q.requests[id]
	q.mu.Unlock()
	all, err := frames.ReadResponses(body)
	if err != nil {
		return err
	}
	rec, err := all.Next()
	if err != nil {
		return err
	}
	if r == nil {
		return q.dec.Discard(&rec)
	}
	resp := r.NewResponse()
	if err := q.dec.Response(&rec, r, resp); err != nil {
		resp.Release()
		resp.Err = status.Errorf(status.Internal, "%w", err)
	}
	resp.Final, resp.Empty = rec.Final(), rec.Final() && rec.Empty()
	if resp.Final {
		q.mu.Lock()
		delete(q.requests, id)
		q.mu.Unlock()
		defer r.Release()
	}
	_ = r.Respond(resp) // fails only after the final response
	return nil
}

// Cancelled asks the server to cancel a request to another model; see infer.Queue.
func (q *questions) Cancelled(r *infer.Request) {
	q.mu.Lock()
	id := uint64(0)
	for n, open := range q.requests {
		if open == r {
			id = n
		}
	}
	q.mu.Unlock()
	if id != 0 {
		_ = q.s.sendBytes(frames.KindBLSCancel, id, nil) // without a connection the process ends
	}
}
