package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// Request is a request that was kept, without its contents. The caller defines the protocols, causes and outcomes
// but "ok".
type Request struct {
	ID       int64 // rises in the order of the requests; says nothing about the time
	TimeUS   int64 // when it began, by the clock of that moment, which may have been wrong
	Parent   int64 // the ID of the request that made it; 0: a client did
	Protocol string
	Client   string
	Model    string
	Version  int64
	// RequestID is the ID that the client gave.
	RequestID                string
	Outcome                  string
	Slow, Cached             bool
	Status                   int
	Cause, Text, Target      string
	BytesIn, BytesOut        int64
	Responses, Rows          int
	Instance                 string
	BatchRows, BatchRequests int
	// PhasesNS are the times of receive, check, queue, input, compute, output, encode and send.
	PhasesNS [8]int64
	// BusyNS is how much of the queue's time its instance ran the execution before.
	BusyNS                 int64
	BusyRows, BusyRequests int
}

const requestColumns = `id, time_us, parent, protocol, client, model, version, request_id, outcome, slow, cached,
	status, cause, text, target, bytes_in, bytes_out, responses, batch_size, instance, batch_rows, batch_requests,
	receive_ns, check_ns, queue_ns, input_ns, compute_ns, output_ns, encode_ns, send_ns, busy_ns, busy_rows,
	busy_requests`

func (r *Request) columns() []any {
	p := &r.PhasesNS
	return []any{&r.ID, &r.TimeUS, &r.Parent, &r.Protocol, &r.Client, &r.Model, &r.Version, &r.RequestID, &r.Outcome,
		&r.Slow, &r.Cached, &r.Status, &r.Cause, &r.Text, &r.Target, &r.BytesIn, &r.BytesOut, &r.Responses, &r.Rows,
		&r.Instance, &r.BatchRows, &r.BatchRequests, &p[0], &p[1], &p[2], &p[3], &p[4], &p[5], &p[6], &p[7], &r.BusyNS,
		&r.BusyRows, &r.BusyRequests}
}

// RecordRequests queues requests to be kept and returns at once. A request whose ID is there already changes nothing.
// It returns false if they were dropped, because the queue is full or the store is closed. Nothing is kept if
// Options.KeepRequests is negative.
func (s *Store) RecordRequests(requests []Request) bool {
	if len(requests) == 0 || s.opt.KeepRequests < 0 {
		return true
	}
	ok := offer(s, s.requests, requests)
	if !ok {
		s.health.change(func(h *Health) { h.DroppedRequests += uint64(len(requests)) })
	}
	return ok
}

func (w *writer) writeRequests(ctx context.Context, tx *sql.Tx) error {
	if len(w.requests) == 0 {
		return nil
	}
	st, err := tx.PrepareContext(ctx, `INSERT INTO request (`+requestColumns+`, words) VALUES (`+
		strings.Repeat("?, ", strings.Count(requestColumns, ",")+1)+`?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	defer st.Close()
	for i := range w.requests {
		r := &w.requests[i]
		words := "\n" + strings.Join([]string{r.Model, r.Client, r.RequestID, r.Cause, r.Target, r.Text}, "\n") + "\n"
		if _, err := st.ExecContext(ctx, append(r.columns(), words)...); err != nil {
			return err
		}
	}
	return nil
}

// RequestQuery asks for requests; zero fields do not limit.
type RequestQuery struct {
	// Outcomes: with one of these, or slow if that is set. "ok" finds only what is slow.
	Outcomes []string
	Slow     bool
	// Model is the exact name. Without it, requests that models made are left out.
	Model     string
	Client    string // exact
	RequestID string // exact
	Text      string // part of a name, an address, an ID or a text; letters of ASCII match in both cases
	// FromUS <= TimeUS < ToUS.
	FromUS, ToUS int64
	BeforeID     int64 // only earlier ones: the next page
	Limit        int   // default 200, at most 1001: a page of 1000 and a look at the next
}

// containsWords compares faster than instr. Letters of ASCII match in both cases.
const containsWords = `words LIKE ? ESCAPE '\'`

// pattern is the argument of containsWords.
func pattern(part string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(part) + "%"
}

// statement returns the query of SQL and its arguments.
func (q *RequestQuery) statement() (query string, args []any) {
	where := []string{"1"}
	add := func(cond string, arg ...any) { where, args = append(where, cond), append(args, arg...) }
	if q.FromUS != 0 {
		add("time_us >= ?", q.FromUS)
	}
	if q.ToUS != 0 {
		add("time_us < ?", q.ToUS)
	}
	if q.BeforeID != 0 {
		add("id < ?", q.BeforeID)
	}
	if q.Model == "" {
		add("parent = 0")
	}
	var kinds []string
	for _, o := range q.Outcomes {
		kinds, args = append(kinds, "outcome = ?"), append(args, o)
	}
	if q.Slow {
		kinds = append(kinds, "slow")
	}
	index := "request_filter"
	if len(kinds) > 0 {
		index = "request_problem"
		add("(outcome <> 'ok' OR slow)") // as the index has it
		add("(" + strings.Join(kinds, " OR ") + ")")
	}
	if q.Text != "" {
		add(containsWords, pattern(q.Text))
	}
	// words is in the index: only rows that may match are looked up.
	for _, exact := range []struct{ column, value string }{
		{"model", q.Model}, {"client", q.Client}, {"request_id", q.RequestID},
	} {
		if exact.value != "" {
			add(containsWords+" AND "+exact.column+" = ?", pattern("\n"+exact.value+"\n"), exact.value)
		}
	}
	return `SELECT ` + requestColumns + ` FROM request WHERE id IN (
		SELECT id FROM request INDEXED BY ` + index + ` WHERE ` + strings.Join(where, " AND ") +
		` ORDER BY id DESC LIMIT ?) ORDER BY id DESC`, append(args, limit(q.Limit, 200, 1001))
}

// Requests returns the kept requests of a query, the latest first.
func (s *Store) Requests(ctx context.Context, q RequestQuery) ([]Request, error) {
	query, args := q.statement()
	out, err := all(ctx, s.r, (*Request).columns, query, args...)
	return out, about(err, "kept requests")
}

// RequestFamily returns a kept request, and those that its execution made, and these, in the order of their IDs. It is
// empty if the request is not kept.
func (s *Store) RequestFamily(ctx context.Context, id int64) ([]Request, error) {
	out, err := all(ctx, s.r, (*Request).columns, `WITH RECURSIVE family (member) AS (
			SELECT id FROM request WHERE id = ?
			UNION SELECT id FROM family JOIN request ON parent = member AND parent <> 0 LIMIT 1000)
		SELECT `+requestColumns+` FROM request WHERE id IN family ORDER BY id`, id)
	return out, about(err, "kept requests")
}

// OldestRequest returns when the oldest request that is kept began, in microseconds; 0 if there is none.
func (s *Store) OldestRequest(ctx context.Context) (timeUS int64, err error) {
	err = s.r.QueryRowContext(ctx, `SELECT time_us FROM request ORDER BY id LIMIT 1`).Scan(&timeUS)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return timeUS, about(err, "kept requests")
}

// LastRequestID returns the highest ID of the requests that are kept; 0 if there is none.
func (s *Store) LastRequestID(ctx context.Context) (int64, error) {
	var id sql.NullInt64
	err := s.r.QueryRowContext(ctx, `SELECT max(id) FROM request`).Scan(&id)
	return id.Int64, about(err, "kept requests")
}

// removeRequests removes the oldest requests above their number.
func (p *pruner) removeRequests(ctx context.Context, keep int) (int64, error) {
	const rows = 5 * pruneRows // their rows are neighbours
	var n int
	if err := p.s.w.QueryRowContext(ctx, `SELECT count(*) FROM request`).Scan(&n); err != nil || n <= max(keep, 0) {
		return 0, err
	}
	return p.exec(ctx, `DELETE FROM request WHERE id IN (SELECT id FROM request ORDER BY id LIMIT ?)`,
		min(n-max(keep, 0), rows))
}
