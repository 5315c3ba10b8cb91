package requests

import (
	"net"
	"sync"
	"sync/atomic"

	"nereid/engine/infer"
)

// Size is how many records a Log has.
const Size = 8192

// chunk is how many records are read at a time, so that requests wait for readers only briefly.
const chunk = 256

// Log has the last requests. It is safe for concurrent use. Nothing is recorded with a nil Log.
type Log struct {
	last   atomic.Int64 // the last ID
	active sync.Pool
	half   chan struct{} // see Half
	offer  atomic.Pointer[Offer]

	mu    sync.Mutex
	ring  []Record // of Size; guarded by mu, as are the following
	next  int64    // the sequence number of the next record; its place is the rest of the division by Size
	await bool     // Half sends at the next record
}

// Offer gets a request with each of its responses, and the ID of its record. It must not block, and must not keep
// either. The responses of a decoupled model may come from several goroutines at once.
type Offer func(id int64, r *infer.Request, resp *infer.Response)

// SetOffer lets f get the requests that models answer from now on; nil: nobody gets them. The log itself does not read
// their contents.
func (l *Log) SetOffer(f Offer) {
	if f == nil {
		l.offer.Store(nil)
		return
	}
	l.offer.Store(&f)
}

// New makes an empty Log.
func New() *Log {
	l := &Log{ring: make([]Record, Size), half: make(chan struct{}, 1)}
	l.active.New = func() any { return &Active{log: l} }
	return l
}

// StartAfter makes the IDs of all records higher than id. Call it before the first record, once for each id that is
// known.
func (l *Log) StartAfter(id int64) { l.last.Store(max(id, l.last.Load())) }

// Begin begins the record of a request whose first bytes came at a moment; 0: now.
func (l *Log) Begin(protocol string, client net.Addr, received infer.Stamp) *Active {
	if l == nil {
		return nil
	}
	if received == 0 {
		received = infer.Now()
	}
	return l.begin(protocol, client, received)
}

func (l *Log) begin(protocol string, client net.Addr, received infer.Stamp) *Active {
	a := l.active.Get().(*Active)
	a.Record = Record{ID: l.id(received), Protocol: protocol, Client: client, Received: received}
	a.private = false
	a.users = 1
	return a
}

// id returns the ID of a request that began at a moment.
func (l *Log) id(began infer.Stamp) int64 {
	at := began.TimeAsKnown().UnixMicro()
	for {
		last := l.last.Load()
		if id := max(at, last+1); l.last.CompareAndSwap(last, id) {
			return id
		}
	}
}

// Add records a request that is refused before it is an inference.
func (l *Log) Add(protocol string, client net.Addr, target string, code int, cause, text string) {
	a := l.Begin(protocol, client, 0)
	if a == nil {
		return
	}
	a.For(target)
	a.Answer(code, cause, text)
	a.Sent()
}

// release ends a use of a record. The last one keeps it.
func (a *Active) release() {
	l := a.log
	if atomic.LoadInt32(&a.users) > 1 && atomic.AddInt32(&a.users, -1) > 0 {
		return
	}
	l.mu.Lock()
	l.ring[l.next%Size] = a.Record
	l.next++
	full := l.await || l.next%(Size/2) == 0
	l.await = false
	l.mu.Unlock()
	l.active.Put(a)
	if full {
		select {
		case l.half <- struct{}{}:
		default:
		}
	}
}

// Half sends when half of the ring was filled since it last did, and at the record that Await asks for.
func (l *Log) Half() <-chan struct{} { return l.half }

// Await reports whether there is no record from seq on. Half then sends at the next one.
func (l *Log) Await(seq int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.await = l.next == seq
	return l.await
}

// Next returns the sequence number of the next record. Records are numbered from 0 in the order of their ends.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Oldest returns the sequence number of the oldest record.
func (l *Log) Oldest() int64 { return max(0, l.Next()-Size) }

// Since calls f with the records from a sequence number on, in order, and returns the number with which to continue and
// how many records have left the ring before they were read. f must not keep its argument, nor call the Log.
func (l *Log) Since(seq int64, f func(seq int64, r *Record)) (next, missed int64) {
	var buf []Record
	for {
		l.mu.Lock()
		end := l.next
		if buf == nil && seq < end {
			buf = make([]Record, 0, chunk)
		}
		if oldest := end - Size; seq < oldest {
			missed += oldest - seq
			seq = oldest
		}
		end = min(end, seq+chunk)
		buf = buf[:0]
		for i := seq; i < end; i++ {
			buf = append(buf, l.ring[i%Size])
		}
		l.mu.Unlock()
		if len(buf) == 0 {
			return seq, missed
		}
		for i := range buf {
			f(seq+int64(i), &buf[i])
		}
		seq = end
	}
}

// Mark notes that a record is of a slow request, unless it has left the ring.
func (l *Log) Mark(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq >= 0 && seq < l.next && seq >= l.next-Size {
		l.ring[seq%Size].Slow = true
	}
}
