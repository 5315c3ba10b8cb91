package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

func TestTunings(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for i := range keptTunings + 2 {
		id, err := s.AddTuning(t.Context(), Tuning{Model: "m", StartedUS: int64(i),
			Head: json.RawMessage(fmt.Sprint(i)), Body: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	other, err := s.AddTuning(t.Context(), Tuning{Model: "n", Head: json.RawMessage(`1`), Body: json.RawMessage(`[1]`)})
	if err != nil {
		t.Fatal(err)
	}
	last := ids[len(ids)-1]
	if err := s.SetTuning(t.Context(), Tuning{ID: last, Model: "m", Head: json.RawMessage(`"done"`),
		Body: json.RawMessage(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteTuning(t.Context(), ids[5]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Tunings(t.Context(), "m")
	if err != nil || len(list) != keptTunings-1 || list[0].ID != last || string(list[0].Head) != `"done"` ||
		list[0].Body != nil {
		t.Errorf("Tunings after opening again: %d, the first %+v, %v", len(list), list[0], err)
	}
	if got, err := s.Tuning(t.Context(), last); err != nil || string(got.Body) != `{"a":1}` || got.Model != "m" ||
		got.StartedUS != keptTunings+1 {
		t.Errorf("Tuning(%d) = %+v, %v", last, got, err)
	}
	if got, err := s.Tuning(t.Context(), other); err != nil || got.Model != "n" {
		t.Errorf("another model's tuning went with those of m: %+v, %v", got, err)
	}
	for _, gone := range []int64{ids[0], ids[1], ids[5], last + 100} {
		_, err := s.Tuning(t.Context(), gone)
		set := s.SetTuning(t.Context(), Tuning{ID: gone, Model: "m", Head: json.RawMessage(`1`),
			Body: json.RawMessage(`1`)})
		if del := s.DeleteTuning(t.Context(), gone); !errors.Is(err, ErrNotFound) || !errors.Is(set, ErrNotFound) ||
			!errors.Is(del, ErrNotFound) {
			t.Errorf("tuning %d that is gone: %v, %v, %v", gone, err, set, del)
		}
	}
	for _, bad := range []Tuning{{Head: json.RawMessage(`1`), Body: json.RawMessage(`1`)},
		{Model: "m", Head: json.RawMessage(`{`), Body: json.RawMessage(`1`)}, {Model: "m",
			Head: json.RawMessage(`1`)}} {
		if _, err := s.AddTuning(t.Context(), bad); err == nil {
			t.Errorf("AddTuning(%+v) is taken", bad)
		}
	}
}
