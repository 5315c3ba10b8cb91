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
