package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options bound a Store. The zero value is ready: zero fields get the defaults named with them.
type Options struct {
	// KeepSeconds, KeepMinutes and KeepHours are how long samples of a second (default 24 h), of a minute (30 days) and
	// of an hour (2 years) are kept. KeepEvents is how long events are kept (1 year).
	KeepSeconds, KeepMinutes, KeepHours, KeepEvents time.Duration
	// MaxBytes limits the database file (default 1 GiB). Above it, the oldest requests are removed first, then
	// the oldest samples, then the oldest events. Configuration revisions and settings are never removed.
	MaxBytes int64
	// KeepRequests is how many requests are kept (default 1,000,000; negative: none). The oldest are removed.
	KeepRequests int
	// QueueLength is how many calls of RecordSamples and RecordRequests, and how many events, may wait for the writer
	// (default 1024).
	QueueLength int
	// MaxPending is how many samples, requests and events wait in memory while the database cannot be written (default
	// 50,000 each).
	MaxPending int
	// PruneEvery is how often the limits are enforced (default 1 min).
	PruneEvery time.Duration
	// KeepDamaged: Open returns an error for a database that is damaged or not ours, and leaves it where it is.
	KeepDamaged bool
	// Log receives the messages of the store; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	const day = 24 * time.Hour
	o.KeepSeconds = cmp.Or(o.KeepSeconds, day)
	o.KeepMinutes = cmp.Or(o.KeepMinutes, 30*day)
	o.KeepHours = cmp.Or(o.KeepHours, 730*day)
	o.KeepEvents = cmp.Or(o.KeepEvents, 365*day)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	o.KeepRequests = cmp.Or(o.KeepRequests, 1_000_000)
	o.QueueLength = cmp.Or(o.QueueLength, 1024)
	o.MaxPending = cmp.Or(o.MaxPending, 50_000)
	o.PruneEvery = cmp.Or(o.PruneEvery, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrClosed is returned by calls on a closed Store.
var ErrClosed = errors.New("the store is closed")

// ErrFull is returned for what is not stored because the disk is full.
var ErrFull = errors.New("the disk is full")

// ErrNotFound is returned for a row that does not exist.
var ErrNotFound = errors.New("not found in the store")

// Store is an open database. It is safe for concurrent use.
type Store struct {
	path     string // "" in memory
	opt      Options
	warnings []string

	w, r *sql.DB // the writer's single connection, and those of readers; in memory they are the same

	samples  chan []Sample
	events   chan Event
	spans    chan []Span
	requests chan []Request
	ops      chan *op
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed by the writer when it has ended
	once     sync.Once

	eventID atomic.Int64 // the last ID that was assigned
	gauges  waitingGauges

	health health
}

// health guards a Health.
type health struct {
	mu  sync.Mutex
	now Health
}

func (h *health) change(f func(*Health)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.now)
}

// Health is the state of writing.
type Health struct {
	// DroppedSamples, DroppedEvents and DroppedRequests count rows that were dropped since Open. Reasons: a queue was
	// full, the database could not be written for too long, or the rows were invalid.
	DroppedSamples, DroppedEvents, DroppedRequests uint64
	// WriteErrors counts failed transactions since Open.
	WriteErrors uint64
	// Failing is true from a failed write until one succeeds; LastError is the reason of the latest failure.
	Failing   bool
	LastError string
	// Pending is how many samples, requests and events wait in memory for a database that cannot be written.
	Pending int
	// Bytes is the size of the database file when the limits were last enforced.
	Bytes int64
}

func start(ctx context.Context, path string, w, r *sql.DB, o Options, warnings []string) (*Store, error) {
	var lastEvent int64
	if err := w.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM event").Scan(&lastEvent); err != nil {
		r.Close()
		w.Close()
		return nil, openError(path, err)
	}
	o = o.withDefaults()
	s := &Store{
		path: path, opt: o, warnings: warnings, w: w, r: r,
		samples:  make(chan []Sample, o.QueueLength),
		events:   make(chan Event, o.QueueLength),
		spans:    make(chan []Span, o.QueueLength),
		requests: make(chan []Request, o.QueueLength),
		ops:      make(chan *op),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	s.eventID.Store(lastEvent)
	for _, text := range warnings {
		o.Log.Warn("history database", "warning", text)
	}
	go newWriter(s).run()
	return s, nil
}

// Path returns the file of the database, "" for one in memory.
func (s *Store) Path() string { return s.path }

// Warnings returns what the user should know about opening the database, such as a damaged one that was renamed.
func (s *Store) Warnings() []string { return s.warnings }

// Health returns the state of writing. It does not access the database.
func (s *Store) Health() Health {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	return s.health.now
}

// Close writes what is queued, ends the writer and closes the database. Later calls wait for the first.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		err = s.writeGauges(context.Background())
		close(s.stop)
		<-s.done
		err = errors.Join(err, s.r.Close())
		if s.w != s.r {
			err = errors.Join(s.w.Close(), err) // last: the last connection to close writes the WAL into the file
		}
	})
	<-s.done
	return err
}

func (s *Store) closed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// offer puts v into a queue of the writer. It returns false if the queue is full or the store is closed.
func offer[T any](s *Store, queue chan<- T, v T) bool {
	if s.closed() {
		return false
	}
	select {
	case queue <- v:
		return true
	default:
		return false
	}
}

// Flush waits until the samples, requests and events that were recorded before it are written, or returns why they are
// not.
func (s *Store) Flush(ctx context.Context) error { return s.durable(ctx, nil) }

// op is a write for which its caller waits.
type op struct {
	ctx  context.Context
	do   func(context.Context, *sql.Tx) error // nil: only write what is queued
	done chan error                           // buffered
}

// durable runs do in a transaction of the writer. If it returns nil, the transaction is on disk and survives a loss of
// power. It waits for the end of a transaction that has begun, so an error means that nothing was stored.
func (s *Store) durable(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	o := &op{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case s.ops <- o:
		return <-o.done
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return ErrClosed
	}
}

// change is durable for a statement that must change a row. It returns ErrNotFound if no row was changed.
func (s *Store) change(ctx context.Context, statement string, args ...any) error {
	return s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrNotFound)
		}
		return nil
	})
}

func nowUS() int64 { return time.Now().UnixMicro() }
