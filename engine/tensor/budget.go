package tensor

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/status"
)

// Budget bounds the bytes of the requests and responses that a server works on at one time. A nil Budget has no bound.
// Its methods are safe for concurrent use.
type Budget struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int64 // callers of Take that wait

	mu   sync.Mutex
	room chan struct{} // closed when bytes are given back; nil: no caller waits. Guarded by mu.
}

// reserve is the size in bytes up to which Take may use a quarter more than the limit. So a few large requests do not
// keep out the small ones.
const reserve = 64 << 10

// NewBudget returns a Budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// ErrNoRoom is wrapped by the errors of Take.
var ErrNoRoom = errors.New("no memory left for requests")

// Take takes n bytes. If there is no room, it waits for up to patience. Give returns the bytes. Errors: Unavailable,
// with ErrNoRoom.
func (b *Budget) Take(n int64, patience time.Duration) error {
	if b.try(n) {
		return nil
	}
	if err := b.Check(n); err != nil {
		return err
	}
	if patience > 0 && b.wait(n, patience) {
		return nil
	}
	return noRoom("the server has no memory left for this request: with it, requests and responses would use more "+
		"than the %d bytes of --request-memory-limit; try again later, or send less at once", b.limit)
}

// Check refuses n bytes that Take could never take. Errors: those of Take.
func (b *Budget) Check(n int64) error {
	if b == nil || n <= b.limit {
		return nil
	}
	return noRoom("the request needs %d bytes of memory at once, more than the %d bytes that all requests and "+
		"responses may use; send less at once, or raise --request-memory-limit", n, b.limit)
}

func noRoom(format string, args ...any) error {
	return &status.Error{Code: status.Unavailable, Msg: fmt.Sprintf(format, args...), Err: ErrNoRoom}
}

// Add takes n bytes without regard to the limit. It is for memory that exists already.
func (b *Budget) Add(n int64) {
	if b != nil {
		b.used.Add(n)
	}
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) {
	if b == nil {
		return
	}
	b.used.Add(-n)
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// Limit returns the most bytes in use, 0 for no bound.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return b.limit
}

// Used returns the bytes that are taken.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

func (b *Budget) try(n int64) bool {
	if b == nil {
		return true
	}
	limit := b.limit
	if n <= reserve {
		limit += limit / 4
	}
	for {
		used := b.used.Load()
		if used+n > limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (b *Budget) wait(n int64, patience time.Duration) bool {
	b.waiting.Add(1) // before room is made: each Give from now on closes it
	defer b.waiting.Add(-1)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		if b.room == nil {
			b.room = make(chan struct{})
		}
		room := b.room
		b.mu.Unlock()
		if b.try(n) {
			return true
		}
		select {
		case <-room:
		case <-timeout.C:
			return b.try(n)
		}
	}
}

// Content that is compressed more than maxRatio times is refused if it has more than ratioFrom bytes. A tensor of zeros
// can be compressed a thousand times.
const (
	maxRatio  = 200
	ratioFrom = 16 << 20
)

// ErrRatio is the error of CheckRatio. Its code is InvalidArg.
var ErrRatio = status.Errorf(status.InvalidArg, "the content is compressed more than %d times, which is accepted for "+
	"content of up to %d MiB only; send it without compression", maxRatio, ratioFrom>>20)

// CheckRatio returns ErrRatio if this number of compressed bytes is too small for the number of plain ones.
func CheckRatio(plain, compressed int64) error {
	if plain > ratioFrom && plain > compressed*maxRatio {
		return ErrRatio
	}
	return nil
}
