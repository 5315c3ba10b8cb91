package history

import (
	"net/http/httptest"
	"testing"

	record "nereid/app/history"
	"nereid/store"
)

func TestLoadsHaveTheLoadOfTheMachineAndTheMemoryOfTheModel(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const min = int64(60_000_000)
	for i, kind := range []string{record.Load, record.Reload, record.Reload} {
		s.RecordEvent(store.Event{Kind: kind, Model: "m", Version: 1, TimeUS: int64(i+1)*10*min + 30_000_000})
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	gauge := func(name, model string, minute int64, mean float64) store.Gauge {
		return store.Gauge{Name: name, Model: model, StartUS: minute * min, Mean: mean, Most: 1}
	}
	if err := s.AddGauges(t.Context(), []store.Gauge{
		gauge("cpu", "", 9, 1), gauge("cpu", "", 10, 0.25), gauge("cpu", "", 11, 0.5), // the minute of the load counts
		gauge("cpu", "", 25, 0.125), gauge("cpu", "m", 25, 1), gauge("memory", "", 25, 1),
		gauge("memory", "m", 25, 4096), gauge("memory", "other", 25, 1),
	}); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/api/models/m/loads", nil)
	r.SetPathValue("name", "m")
	got, err := (&Handler{Store: s}).Loads(r)
	if err != nil || len(got.Loads) != 3 {
		t.Fatalf("%+v, %v; want three loads", got, err)
	}
	newest, second, oldest := got.Loads[0], got.Loads[1], got.Loads[2]
	if newest.CPU != nil || newest.MemoryBytes != 0 {
		t.Errorf("without a reading: CPU %v, %d bytes; want none", newest.CPU, newest.MemoryBytes)
	}
	if second.CPU == nil || *second.CPU != 0.125 || second.MemoryBytes != 4096 {
		t.Errorf("of one minute: CPU %v, %d bytes; want 0.125 and 4096", second.CPU, second.MemoryBytes)
	}
	if oldest.CPU == nil || *oldest.CPU != 0.375 || oldest.MemoryBytes != 0 {
		t.Errorf("of two minutes: CPU %v, %d bytes; want their mean, 0.375, and none", oldest.CPU, oldest.MemoryBytes)
	}
}
