package history

import (
	"reflect"
	"testing"
	"time"

	"nereid/app/console/api"
	record "nereid/app/history"
	"nereid/store"
)

func TestEventKindsAreTheSame(t *testing.T) {
	for kind, want := range map[string]api.EventKind{
		record.ServerStart: api.EventServerStart, record.ServerStop: api.EventServerStop, record.Load: api.EventLoad,
		record.LoadFailed: api.EventLoadFailed, record.Reload: api.EventReload,
		record.ReloadFailed: api.EventReloadFailed,
		record.Unload:       api.EventUnload, record.Evict: api.EventEvict, record.Import: api.EventImport,
		record.ImportFailed: api.EventImportFailed,
		record.ConfigSaved:  api.EventConfigSaved, record.ConfigRestored: api.EventConfigRestored,
		record.ModelDeleted:  api.EventModelDeleted,
		record.ModelRestored: api.EventModelRestored, record.RepositoryError: api.EventRepositoryError,
		record.ProcessEnded: api.EventProcessEnded, record.ProcessRestarted: api.EventProcessRestarted,
		record.LoadTest: api.EventLoadTest, record.Tuning: api.EventTuning,
		record.Alert: api.EventAlert, record.AlertEnded: api.EventAlertEnded,
		record.Capture:     api.EventCapture,
		record.ClientError: api.EventClientError, record.HistoryDropped: api.EventHistoryDropped,
	} {
		if string(want) != kind {
			t.Errorf("kind %q is %q to the page", kind, want)
		}
	}
}

func TestSeriesShowIdleStepsAndGaps(t *testing.T) {
	const sec = 1_000_000
	spans := []store.Span{{FromUS: 10 * sec, ToUS: 13 * sec}, {FromUS: 15*sec + sec/2, ToUS: 17 * sec}}
	got := store.Samples{Step: time.Second, FromUS: 8 * sec, Points: []store.Sample{{StartUS: 11 * sec, Requests: 4},
		{StartUS: 15 * sec, Requests: 2}, {StartUS: 19 * sec, Requests: 3}}}
	s := makeSeries(seriesKey{"m", 2}, got, spans, 21*sec)
	if want := (api.List[int64]{10000, 11000, 12000, 15000, 16000, 19000}); !reflect.DeepEqual(s.TMs, want) {
		t.Errorf("times %v, want %v", s.TMs, want)
	}
	if want := (api.List[float64]{0, 4, 0, 4, 0, 3}); !reflect.DeepEqual(s.QPS, want) {
		t.Errorf("requests a second %v, want %v: the second span has only half of its first second", s.QPS, want)
	}
}

func TestEventOfTheStoreIsShown(t *testing.T) {
	e := apiEvent(store.Event{ID: 3, TimeUS: 5_000_000, Kind: record.ReloadFailed, Model: "m", Version: 2,
		Reason: "no", Detail: []byte(`{"durationMs":1.5,"revision":9}`)})
	want := api.Event{ID: 3, TMs: 5000, Kind: api.EventReloadFailed, Severity: api.SeverityError, Model: "m",
		Version: "2", Text: "no", DurationMs: 1.5, Revision: 9}
	if e != want {
		t.Errorf("apiEvent = %+v, want %+v", e, want)
	}
}

// minute is the last minute of a version: at second 10 two requests of which one failed, at 59 a slow one.
func minute() []store.Sample {
	at := func(second int64, d time.Duration, failed int64) store.Sample {
		var h store.Histogram
		h.Record(d)
		blob, _ := h.MarshalBinary()
		return store.Sample{Model: "m", Version: 1, StartUS: second * 1e6, Requests: 1 + failed, Successes: 1,
			Failures: store.Failures{Backend: failed}, Latency: blob}
	}
	return []store.Sample{at(10, time.Millisecond, 1), at(11, time.Millisecond, 0), at(59, 10*time.Second, 0)}
}

func TestRecentHasFailuresOfEachSecond(t *testing.T) {
	r := recentOf(minute(), 60e6)
	if r.Requests != 4 || r.Failures != 1 || len(r.FailureSpark) != 60 || r.FailureSpark[10] != 1 || r.Spark[10] != 2 {
		t.Errorf("recent = %+v", r)
	}
	if r.EndMs != 60_000 {
		t.Errorf("the minute ends at %d ms, want 60000", r.EndMs)
	}
	if r := recentOf(minute()[1:], 60e6); len(r.FailureSpark) != 0 {
		t.Errorf("without failures the list is empty, not %v", r.FailureSpark)
	}
}

func TestSamplesHaveLatenciesOfTheLastMinute(t *testing.T) {
	idle := record.Second{StartUS: 60e6, Samples: []store.Sample{{Model: "idle", Version: 1}, {Model: "m", Version: 1}}}
	e := samplesEvent(idle, func(model string, _ int64) ([]store.Sample, int64) {
		if model == "idle" {
			return nil, 61e6
		}
		return minute(), 61e6
	})
	if len(e.Samples) != 1 || e.Samples[0].Model != "m" {
		t.Fatalf("samples = %+v, want only the version with requests in the last minute", e.Samples)
	}
	if s := e.Samples[0]; s.P50Us != nil || s.MinuteP50Us == nil || *s.MinuteP50Us > 2000 ||
		s.MinuteP99Us == nil || *s.MinuteP99Us < 5e6 {
		t.Errorf("sample = %+v, want no latency of the second, and p50 and p99 of the minute", s)
	}
}
