package history

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"nereid/app/console/api"
	record "nereid/app/history"
	"nereid/store"
)

// recordDay stores a day of models that are busy in every minute, and returns its end.
func recordDay(tb testing.TB, s *store.Store, models, minutes int) time.Time {
	end := time.Now().Truncate(2 * time.Minute)
	start := end.Add(-time.Duration(minutes) * time.Minute)
	for m := range minutes {
		var batch []store.Sample
		for i := range models {
			var h store.Histogram
			for k := range 50 {
				h.Add(300+(k+i)%60, uint64(1+(k*m)%9))
			}
			blob, _ := h.MarshalBinary()
			n := int64(h.Count())
			batch = append(batch, store.Sample{Model: fmt.Sprintf("model_%02d", i), Version: 1,
				StartUS:  start.Add(time.Duration(m) * time.Minute).UnixMicro(),
				Requests: n + 1 + int64(i), Successes: n + int64(i), Failures: store.Failures{Backend: 1},
				Inferences: n, Executions: n/2 + 1, BatchRows: n, QueueNS: n * 1234567, ComputeInferNS: n * 7654321,
				RequestNS: n * 9000000, Latency: blob})
		}
		s.RecordSamples(batch)
		if m%100 == 99 || m == minutes-1 {
			if err := s.Flush(tb.Context()); err != nil {
				tb.Fatal(err)
			}
		}
	}
	var spans []store.Span
	for i := range models {
		spans = append(spans, store.Span{Model: fmt.Sprintf("model_%02d", i), Version: 1, FromUS: start.UnixMicro(),
			ToUS: end.UnixMicro()})
	}
	s.RecordSpans(spans)
	if err := s.Flush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return end
}

func TestTheBusiestVersionsAndTheTotal(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := &Handler{Store: s, Recorder: record.New(nil, s)}
	end := recordDay(t, s, 5, 20)
	ask := func(query string) api.History {
		out, err := h.Series(httptest.NewRequest("GET", fmt.Sprintf("/api/history?from=%d&to=%d&step=120000%s",
			end.Add(-24*time.Hour).UnixMilli(), end.UnixMilli(), query), nil))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all, most := ask(""), ask("&most=2")
	if all.Total != nil || len(all.Series) != 5 {
		t.Fatalf("without most: %d series and the total %v, want 5 and none", len(all.Series), all.Total)
	}
	if len(most.Models) != 5 || most.Busy != 5 || !reflect.DeepEqual(most.Series, all.Series[3:]) {
		t.Errorf("most=2: models %v, %d busy, series %+v; want five of each, and the last two as without most",
			most.Models, most.Busy, most.Series)
	}
	for i, at := range most.Total.TMs {
		var requests, failures, qps, waited float64
		for _, s := range all.Series {
			requests, failures, qps = requests+s.Requests[i], failures+s.Failures[i], qps+s.QPS[i]
			waited += *s.QueueUs[i] * (s.Requests[i] - s.Failures[i])
		}
		got := waited / (requests - failures)
		if total := most.Total; total.Requests[i] != requests || total.Failures[i] != failures ||
			math.Abs(total.QPS[i]/qps-1) > 1e-9 || math.Abs(*total.QueueUs[i]/got-1) > 1e-9 {
			t.Fatalf("at %d the total is %v, %v, %v, %v; the series add up to %v, %v, %v, %v", at, total.Requests[i],
				total.Failures[i], total.QPS[i], *total.QueueUs[i], requests, failures, qps, got)
		}
	}
	one := ask("&most=2&model=model_00")
	if len(one.Series) != 1 || one.Busy != 1 || len(one.Models) != 5 ||
		!reflect.DeepEqual(one.Total.Requests, all.Series[0].Requests) {
		t.Errorf("of one model: %d series, %d busy, models %v, total %v", len(one.Series), one.Busy, one.Models,
			one.Total.Requests)
	}
}

func TestReadingsOfTheMachineAndOfAModel(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const min = int64(60_000_000)
	gauge := func(name, model string, minute int64, mean, most float64) store.Gauge {
		return store.Gauge{Name: name, Model: model, StartUS: minute * min, Mean: mean, Most: most}
	}
	if err := s.AddGauges(t.Context(), []store.Gauge{gauge("cpu", "", 10, 0.25, 0.4), gauge("cpu", "", 11, 0.75, 0.9),
		gauge("cpu", "", 20, 0.5, 0.5), gauge("gpu1", "", 10, 1, 1), gauge("memory", "m", 10, 5, 7),
		gauge("memory", "", 99, 1, 1)}); err != nil {
		t.Fatal(err)
	}
	h := &Handler{Store: s, Recorder: record.New(nil, s)}
	for query, want := range map[string][]api.Reading{
		"&step=120000": {
			{Name: "cpu", TMs: []int64{600_000, 1_200_000}, Mean: []float64{0.5, 0.5},
				Most: []float64{0.9, 0.5}},
			{Name: "gpu1", TMs: []int64{600_000}, Mean: []float64{1}, Most: []float64{1}}},
		"&model=m": {{Name: "memory", TMs: []int64{600_000}, Mean: []float64{5}, Most: []float64{7}}},
	} {
		got, err := h.Machine(httptest.NewRequest("GET", "/api/history/machine?from=600000&to=1800000"+query, nil))
		if err != nil || !reflect.DeepEqual([]api.Reading(got.Readings), want) {
			t.Errorf("%s: %+v, %v; want %+v", query, got.Readings, err, want)
		}
	}
}

// size counts bytes.
type size int64

func (s *size) Write(b []byte) (int, error) { *s += size(len(b)); return len(b), nil }

// BenchmarkDayOf100Models is what the page of the history asks for when it shows a day.
func BenchmarkDayOf100Models(b *testing.B) {
	s, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	h := &Handler{Store: s, Recorder: record.New(nil, s)}
	end := recordDay(b, s, 100, 24*60)
	for _, query := range []string{"", "&most=8"} {
		b.Run("query="+query, func(b *testing.B) {
			r := httptest.NewRequest("GET", fmt.Sprintf("/api/history?from=%d&to=%d&step=120000%s",
				end.Add(-24*time.Hour).UnixMilli(), end.UnixMilli(), query), nil)
			for b.Loop() {
				out, err := h.Series(r)
				if err != nil {
					b.Fatal(err)
				}
				text, err := json.Marshal(out)
				if err != nil {
					b.Fatal(err)
				}
				var packed size
				z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
				if _, err := z.Write(text); err != nil {
					b.Fatal(err)
				}
				z.Close()
				b.ReportMetric(float64(len(text)), "bytes")
				b.ReportMetric(float64(packed), "wire-bytes")
			}
		})
	}
}
