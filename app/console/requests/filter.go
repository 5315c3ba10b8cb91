package requests

import (
	"net/url"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	record "nereid/engine/requests"
	"nereid/store"
)

const (
	pageSize = 200
	maxPage  = 1000
)

// filter selects requests. Empty fields select all.
type filter struct {
	show          show
	model, client string
	id            string // the client's
	text          string
	from, to      int64 // milliseconds since 1970: from <= began < to; 0: all
	after         int64 // the first number of the log; -1: all
	before        int64 // an ID; 0: all
	limit         int
}

// show is a choice of outcomes.
type show string

const (
	showAll       show = ""
	showFailed    show = "failed"
	showRefused   show = "refused"
	showCancelled show = "cancelled"
	showSlow      show = "slow"
	showProblems  show = "problems" // all of these
)

func filterOf(q url.Values) (f filter, err error) {
	f = filter{show: show(q.Get("show")), model: q.Get("model"), client: q.Get("client"), id: q.Get("id"),
		text: strings.TrimSpace(q.Get("text")), after: -1}
	switch f.show {
	case showAll, showFailed, showRefused, showCancelled, showSlow, showProblems:
	default:
		return f, rest.Errorf(api.CodeInvalid, "show=%s is not failed, refused, cancelled, slow or problems",
			rest.Quote(string(f.show)))
	}
	limit := int64(pageSize)
	for name, to := range map[string]*int64{"after": &f.after, "before": &f.before, "limit": &limit,
		"from": &f.from, "to": &f.to} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		if *to, err = strconv.ParseInt(text, 10, 64); err != nil || *to < 0 {
			return f, rest.Errorf(api.CodeInvalid, "%s=%s is not a whole number of 0 or more", name, rest.Quote(text))
		}
	}
	if limit < 1 || limit > maxPage {
		return f, rest.Errorf(api.CodeInvalid, "limit=%d must be from 1 to %d", limit, maxPage)
	}
	f.limit = int(limit)
	return f, nil
}

// matches reports whether a record is selected. Requests that models made are selected by the name of their model.
func (f *filter) matches(r *record.Record) bool {
	began := r.Began().Time().UnixMilli()
	return (f.before == 0 || r.ID < f.before) && began >= f.from && (f.to == 0 || began < f.to) && f.shows(r) &&
		(f.model == r.Model || f.model == "" && r.Parent == 0) &&
		(f.client == "" || f.client == r.Host()) && (f.id == "" || f.id == r.RequestID()) && f.contains(r)
}

func (f *filter) shows(r *record.Record) bool {
	switch f.show {
	case showFailed:
		return r.Outcome == record.Failed
	case showRefused:
		return r.Outcome == record.Refused
	case showCancelled:
		return r.Outcome == record.Cancelled
	case showSlow:
		return r.Slow
	case showProblems:
		return r.Slow || r.Outcome != record.OK
	}
	return true
}

// contains reports whether a text of the record has the text.
func (f *filter) contains(r *record.Record) bool {
	if f.text == "" {
		return true
	}
	text := lower(f.text)
	for _, s := range []string{r.Model, r.RequestID(), r.Text, r.Target, r.Host(), r.Cause} {
		if strings.Contains(lower(s), text) {
			return true
		}
	}
	return false
}

// lower changes the letters of ASCII, as the store compares them.
func lower(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
}

// query is the filter for the store.
func (f *filter) query() store.RequestQuery {
	q := store.RequestQuery{Model: f.model, Client: f.client, RequestID: f.id, Text: f.text, FromUS: f.from * 1000,
		ToUS: f.to * 1000, BeforeID: f.before, Limit: f.limit + 1}
	switch f.show {
	case showAll:
	case showSlow:
		q.Slow = true
	case showProblems:
		q.Slow = true
		for _, o := range []record.Outcome{record.Failed, record.Refused, record.Cancelled} {
			q.Outcomes = append(q.Outcomes, o.String())
		}
	default:
		q.Outcomes = []string{string(f.show)}
	}
	return q
}
