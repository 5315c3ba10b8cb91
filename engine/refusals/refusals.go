package refusals

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Seconds is how many seconds of counts a Log has.
const Seconds = 300

const (
	lastKept = 200 // refusals
	maxText  = 300 // bytes of a target or a text
)

// Refusal is one refused request.
type Refusal struct {
	Time     time.Time
	Protocol string // "http" or "grpc"
	Cause    string // see HTTPCause
	// Target is the method and path, or the name of the gRPC method; empty if the request could not be read.
	Target string
	Client string // the address
	Text   string // the error that the client got
}

// Count is how many requests were refused for one cause.
type Count struct {
	Protocol, Cause string
	Total           uint64
	// PerSecond has the last seconds that are complete, oldest first.
	PerSecond [Seconds]uint32
}

// Log counts refusals. A nil Log ignores them. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	counts map[key]*counter
	last   []Refusal // a ring: next is the oldest if it is full
	next   int
}

type key struct{ protocol, cause string }

// counter has one second more than it shows: the present one.
type counter struct {
	total   uint64
	now     int64 // the newest second of seconds, since 1970
	seconds [Seconds + 1]uint32
}

// New makes an empty Log.
func New() *Log { return &Log{counts: map[key]*counter{}} }

// Add counts a refusal. It copies the strings. A refusal without a Cause is ignored.
func (l *Log) Add(r Refusal) {
	if l == nil || r.Cause == "" {
		return
	}
	r.Target, r.Text, r.Time = clip(r.Target), clip(r.Text), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := key{r.Protocol, r.Cause}
	c := l.counts[k]
	if c == nil {
		c = &counter{}
		l.counts[k] = c
	}
	c.advance(r.Time.Unix())
	c.total++
	c.seconds[c.now%(Seconds+1)]++
	if len(l.last) < lastKept {
		l.last = append(l.last, r)
		return
	}
	l.last[l.next] = r
	l.next = (l.next + 1) % lastKept
}

func clip(s string) string { return strings.ToValidUTF8(strings.Clone(s[:min(len(s), maxText)]), "?") }

// advance empties the seconds after c.now, up to now.
func (c *counter) advance(now int64) {
	for range min(max(now-c.now, 0), Seconds+1) {
		c.now++
		c.seconds[c.now%(Seconds+1)] = 0
	}
	if now > c.now { // all are empty
		c.now = now
	}
}

// Counts returns the counts of all causes that have occurred, ordered by protocol and cause, and the end of their last
// second.
func (l *Log) Counts() (counts []Count, end time.Time) {
	now := time.Now().Unix()
	end = time.Unix(now, 0)
	if l == nil {
		return nil, end
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, c := range l.counts {
		c.advance(now)
		out := Count{Protocol: k.protocol, Cause: k.cause, Total: c.total}
		for i := range out.PerSecond {
			out.PerSecond[i] = c.seconds[(c.now+1+int64(i))%(Seconds+1)]
		}
		counts = append(counts, out)
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Cause, b.Cause))
	})
	return counts, end
}

// Total returns how many requests were refused.
func (l *Log) Total() (n uint64) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.counts {
		n += c.total
	}
	return n
}

// LastMinute returns how many requests were refused in the last 60 complete seconds.
func (l *Log) LastMinute() (n int64) {
	counts, _ := l.Counts()
	for i := range counts {
		for _, refused := range counts[i].PerSecond[Seconds-60:] {
			n += int64(refused)
		}
	}
	return n
}

// Last returns the last refusals, newest first.
func (l *Log) Last() []Refusal {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Concat(l.last[l.next:], l.last[:l.next])
	slices.Reverse(out)
	return out
}

// HTTPCause returns the cause that a status means; "" if a reply with it is not a refusal.
func HTTPCause(status int) string {
	switch status {
	case 401:
		return "unauthenticated"
	case 403, 421:
		return "forbidden"
	case 404:
		return "not_found"
	case 405, 501:
		return "unsupported"
	case 408:
		return "timeout"
	case 413, 431:
		return "too_large"
	case 429, 503, 507:
		return "unavailable"
	}
	if status >= 400 && status < 500 {
		return "invalid"
	}
	return ""
}

// GRPCCause is HTTPCause for gRPC.
func GRPCCause(st *status.Status) string {
	switch st.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists:
		return "invalid"
	case codes.Unauthenticated:
		return "unauthenticated"
	case codes.PermissionDenied:
		return "forbidden"
	case codes.NotFound:
		return "not_found"
	case codes.Unimplemented:
		return "unsupported"
	case codes.ResourceExhausted:
		// As over HTTP: what finds no memory is unavailable. The texts of tensor.Budget name its option.
		if strings.Contains(st.Message(), "--request-memory-limit") {
			return "unavailable"
		}
		return "too_large"
	case codes.Unavailable:
		return "unavailable"
	}
	return ""
}
