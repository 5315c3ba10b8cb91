package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api"
)

// A configuration that takes effect without a load is an event too: it says which configuration serves from then on.
func TestAChangeOfInstancesIsInTheHistory_E050_A062(t *testing.T) {
	root := writeFiles(t, t.TempDir(), map[string]string{"m/1/x": "", "m/config.pbtxt": `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
instance_group { count: 1 kind: KIND_CPU }
`})
	r := runServer(t, "", "--model-repository="+root, "--load-model=m")
	config := filepath.Join(root, "m", "config.pbtxt")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Replace(string(before), "count: 1", "count: 3", 1)
	if err := os.WriteFile(config, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second load changes nothing, and is no event
		if err := r.engine.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := page[api.Events](t, r, 200, "GET", "/api/history/events?model=m", nil).Events
	if len(got) != 2 || got[0].Kind != api.EventReload || got[0].Version != "1" || got[0].Text != "changed in place" ||
		got[1].Kind != api.EventLoad || got[0].Config == "" || got[0].Config == got[1].Config {
		t.Errorf("events %+v; want a change in place, with the digest of its configuration, after the load", got)
	}
}
