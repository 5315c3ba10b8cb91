package requestlog

import (
	"fmt"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/store"
)

// rounds is a sifter and what it keeps.
type rounds struct {
	*sifter
	kept []store.Request
	at   time.Time
	id   int64
}

func newRounds() *rounds {
	r := &rounds{at: time.Now(), id: 1}
	r.sifter = newSifter(func(rows []store.Request) bool {
		r.kept = append(r.kept, rows...)
		return true
	}, r.at)
	return r
}

// round has records seen after a time, and returns how many are kept.
func (r *rounds) round(after time.Duration, records ...requests.Record) int {
	r.at = r.at.Add(after)
	before := len(r.kept)
	r.begin(r.at)
	for i := range records {
		r.see(&records[i])
	}
	r.end()
	return len(r.kept) - before
}

func (r *rounds) ordinary(n int) (out []requests.Record) {
	for range n {
		r.id++
		out = append(out, requests.Record{ID: r.id, Protocol: requests.HTTP, Model: "m", Version: 1})
	}
	return out
}

func TestAllProblemsAndABoundedSampleAreKept(t *testing.T) {
	r := newRounds()
	if n := r.round(0, r.ordinary(100)...); n != 100 {
		t.Errorf("%d of the first 100 requests are kept, want all", n)
	}
	total := 0
	for range 60 {
		batch := r.ordinary(5000)
		batch[7].Slow, batch[8].Outcome, batch[9].Outcome = true, requests.Failed, requests.Refused
		batch[10].Outcome = requests.Cancelled
		n := len(r.kept)
		total += r.round(time.Second, batch...)
		problems := 0
		for _, k := range r.kept[n:] {
			if k.Slow || k.Outcome != "ok" {
				problems++
			}
		}
		if problems != 4 {
			t.Fatalf("%d problems are kept in a second, want 4", problems)
		}
	}
	if want := 60*(sampleRate+4) + sampleBurst - 100; total != want {
		t.Errorf("%d requests are kept in a minute with 5000 a second, want %d", total, want)
	}
	if n := r.round(time.Hour, r.ordinary(5000)...); n != sampleBurst {
		t.Errorf("%d requests are kept after an hour without any, want %d", n, sampleBurst)
	}
}

// Each request of a round has the same chance.
func TestSampleIsUniform(t *testing.T) {
	const parts, per = 10, 600
	r := newRounds()
	var count [parts]int
	for range 50 {
		first := r.id + 1
		n := len(r.kept)
		r.round(time.Hour, r.ordinary(parts*per)...)
		for _, k := range r.kept[n:] {
			count[(k.ID-first)/per]++
		}
	}
	const want, far = 50 * sampleBurst / parts, 350 // seven standard deviations
	for i, n := range count {
		if n < want-far || n > want+far {
			t.Errorf("part %d: %d requests of %v are kept, want about %d", i, n, count, want)
		}
	}
}

func TestRequestIsKeptWithWhatItMade(t *testing.T) {
	r := newRounds()
	r.room, r.last = 0, r.at
	step := func(id, parent, root int64) requests.Record {
		return requests.Record{ID: id, Parent: parent, Root: root, Protocol: requests.Ensemble, Model: "step"}
	}
	failed := requests.Record{ID: 1, Outcome: requests.Failed}
	if n := r.round(0, step(2, 1, 1), step(11, 10, 10), step(3, 2, 1)); n != 0 {
		t.Errorf("%d steps are kept before their request", n)
	}
	r.round(0, step(4, 1, 1))
	n := r.round(0, step(12, 10, 10), step(5, 1, 1), failed, requests.Record{ID: 10})
	if n != 5 {
		t.Errorf("%d requests are kept, want the failed one with its 4 steps: %+v", n, r.kept)
	}
	for i := range 3 * requests.Size {
		s := step(int64(1000+i), 999, 999)
		r.see(&s)
	}
	if len(r.made) > requests.Size {
		t.Errorf("%d steps wait for their request, want at most %d", len(r.made), requests.Size)
	}
}

func TestKeeperHandsOverWhatIsKept(t *testing.T) {
	l := requests.New()
	var kept []store.Request
	k := New(l, func(rows []store.Request) bool {
		kept = append(kept, rows...)
		return true
	})
	for i := range 3 {
		a := l.Begin(requests.HTTP, nil, infer.Now())
		a.About(fmt.Sprint("model", i))
		a.Answer(500, "", "broken")
		a.Sent()
	}
	k.Log()
	k.Log()
	if len(kept) != 3 || kept[2].Model != "model2" || kept[2].Outcome != "failed" || kept[2].Text != "broken" {
		t.Errorf("kept %+v, want the 3 failed requests once", kept)
	}
	if took := kept[0].TimeUS - kept[0].ID; took != 0 {
		t.Errorf("the ID is %d µs from the time", took)
	}
}
