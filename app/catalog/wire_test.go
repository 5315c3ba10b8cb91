package catalog

import (
	"strings"
	"testing"
)

// An entry of the desired state that cannot be taken does not keep the others from being taken.
func TestFaultyEntriesOfTheDesiredStateAreKeptApart_A023(t *testing.T) {
	const file = `"files": [{"path": "1/x", "size": 1, "sha256": "ab"}]`
	long := strings.Repeat("ä", 300)
	d, err := parse([]byte(`{"models": [
		{"name": "good", ` + file + `},
		{"name": "../up", ` + file + `},
		{"name": "twice", ` + file + `}, {"name": "twice", "config": "x", ` + file + `},
		{"name": "twice", ` + file + `},
		{"name": "", ` + file + `}, {` + file + `},
		{"name": 7, ` + file + `},
		{"name": "size", "files": [{"path": "1/x", "size": "1"}]},
		{"name": "` + long + `", ` + file + `},
		"text",
		{"name": "other", "fault": "none of the catalog's", ` + file + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ name, fault string }{
		{"good", ""}, {"../up", "must be a plain folder name"}, {"twice", "has this name more than once"},
		{"", "must not be empty"}, {"size", "cannot be read"},
		{strings.Repeat("ä", 127) + "…", "too long"}, {"other", ""},
	}
	if len(d.Models) != len(want) {
		t.Fatalf("%d models, want %d: %+v", len(d.Models), len(want), d.Models)
	}
	for i, w := range want {
		m := d.Models[i]
		if m.Name != w.name || !strings.Contains(m.Fault, w.fault) || (m.Fault == "") != (w.fault == "") ||
			(len(m.Files) == 0) != (m.Fault != "") {
			t.Errorf("%+v, want %+v", m, w)
		}
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"models": null}`, `{"models": {}}`} {
		if d, err := parse([]byte(bad)); err == nil {
			t.Errorf("%s is taken as %+v", bad, d)
		}
	}
	if d, err := parse([]byte(`{"models": []}`)); err != nil || d.Models == nil || len(d.Models) != 0 {
		t.Errorf("an empty list: %+v, %v", d, err)
	}
}
