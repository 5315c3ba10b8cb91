package restrict_test

import (
	"slices"
	"strings"
	"testing"

	"nereid/engine/restrict"
)

func TestAdd_B079(t *testing.T) {
	for _, tt := range []struct {
		name, option, err string
		open              map[restrict.Group]string // the header that each group needs
	}{
		{name: "one group", option: "model-repository:k=v",
			open: map[restrict.Group]string{restrict.ModelRepository: "p-k"}},
		{name: "several groups", option: "health,trace,logging:admin-key=a=b:c", open: map[restrict.Group]string{
			restrict.Health: "p-admin-key", restrict.Trace: "p-admin-key", restrict.Logging: "p-admin-key"}},
		{name: "no key", option: "model-repository:=v", err: "form"},
		{name: "no value", option: "model-repository:k=", err: "form"},
		{name: "no group", option: ":k=v", err: "form"},
		{name: "no colon", option: "k=v", err: "form"},
		{name: "unknown group", option: "models:k=v",
			err: "unknown restricted protocol 'models'; the groups are health,"},
		{name: "the group of what is no route", option: "unknown:k=v", err: "unknown restricted protocol 'unknown'"},
		{name: "empty group", option: "health,:k=v", err: "unknown restricted protocol ''"},
		{name: "twice in one", option: "health,health:k=v",
			err: "restricted protocol 'health' can not be specified in multiple config groups"},
		{name: "no header's name", option: "health:a b=v", err: "cannot be a header"},
		{name: "line break", option: "health:a=v\r\nx", err: "cannot be a header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r restrict.Rules
			err := r.Add(tt.option, "p-")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || len(r.Restricted()) > 0 {
					t.Fatalf("Add(%q) = %v with %v restricted; want an error with %q", tt.option, err, r.Restricted(),
						tt.err)
				}
				return
			}
			if err != nil || len(r.Restricted()) != len(tt.open) {
				t.Fatalf("Add(%q) = %v, restricts %v", tt.option, err, r.Restricted())
			}
			for g, want := range tt.open {
				if got := r.Header(g); got != want {
					t.Errorf("group %v wants %q, want %q", g, got, want)
				}
			}
		})
	}
}

func TestRulesOfSeveralOptions(t *testing.T) {
	var r restrict.Rules
	for _, o := range []string{"health:a=1", "inference:b=two words"} {
		if err := r.Add(o, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add("trace,health:c=3", ""); err == nil {
		t.Error("a group can have two rules")
	}
	if got := r.Restricted(); !slices.Equal(got, []restrict.Group{restrict.Health, restrict.Inference}) {
		t.Errorf("restricted: %v", got)
	}
	if !r.Opens(restrict.Inference, "two words") || r.Opens(restrict.Inference, "two word") ||
		r.Opens(restrict.Inference, "") {
		t.Error("the wrong values open a group")
	}
	if r.Header(restrict.Unknown) != "" || (*restrict.Rules)(nil).Header(restrict.Health) != "" {
		t.Error("what has no rule is restricted")
	}
}
