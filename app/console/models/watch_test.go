package models

import (
	"reflect"
	"testing"

	"nereid/app/console/api"
)

func TestModelsDiff(t *testing.T) {
	known := map[string]api.Model{}
	a := api.Model{Name: "a", Versions: []api.Version{{Version: "1", LastMinute: api.Recent{Requests: 1}}}}
	if e, changed := modelsDiff(known, []api.Model{a}); !changed || len(e.Models) != 1 {
		t.Errorf("a new model: %+v, %v", e, changed)
	}
	a.Versions = []api.Version{{Version: "1", LastMinute: api.Recent{Requests: 2}}}
	if e, changed := modelsDiff(known, []api.Model{a}); changed {
		t.Errorf("only numbers of the last minute: %+v, want nothing", e)
	}
	a.Versions[0].State = api.StateReady
	if _, changed := modelsDiff(known, []api.Model{a}); !changed {
		t.Error("a new state is not seen")
	}
	if e, changed := modelsDiff(known, nil); !changed || !reflect.DeepEqual([]string(e.Removed), []string{"a"}) {
		t.Errorf("a removed model: %+v", e)
	}
}
