package lifecycle

import (
	"fmt"
	"strings"
	"testing"
)

// askEvicted evicts the model m, if it is in memory, sends it two requests, and checks that version want serves then.
func (r *rig) askEvicted(what string, want int64) {
	r.t.Helper()
	if len(r.serving("m")) > 0 {
		if err := r.Evict("m"); err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
	}
	for range 2 {
		if err := r.ask("m"); err != nil {
			r.t.Errorf("%s: %v", what, err)
		}
	}
	r.check(what, "m", want)
}

// A request for an evicted model loads the versions that are in service, not what came into the folder since: a load
// decides on that.
func TestRequestLoadsWhatWasEvicted_A063(t *testing.T) {
	for _, policyName := range []string{ReloadAvailability, ReloadResources} {
		t.Run(policyName, func(t *testing.T) {
			r := newRig(t, nil)
			r.write("m/config.pbtxt", policy("latest { num_versions: 1 }")+
				fmt.Sprintf(` parameters { key: "reload_policy" value { string_value: "%s" } }`, policyName))
			r.write("m/1/file", "")
			r.load("m")
			r.write("m/2/broken", "")
			for range 2 { // the second load tries version 2 again
				err := r.Load(t.Context(), "m", nil)
				if err == nil || !strings.Contains(err.Error(), "this file is broken") {
					t.Fatalf("load of a broken version: %v", err)
				}
				r.askEvicted("beside a version that failed", 1)
			}
			if why := r.reason("m", 2); !strings.Contains(why, "this file is broken") {
				t.Errorf("version 2 failed because of %q", why)
			}
			r.write("m/3/file", "")
			r.askEvicted("beside a version that nobody has loaded", 1)
			r.load("m")
			r.check("after a load", "m", 3)
			if err := r.Evict("m"); err != nil {
				t.Fatal(err)
			}
			r.remove("m/3")
			r.remove("m/2")
			r.askEvicted("after the folder of the version in service was removed", 1)
		})
	}
}
