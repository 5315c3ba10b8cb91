package ensemble_test

import (
	"slices"
	"testing"

	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
)

func TestLink(t *testing.T) {
	for _, tt := range []struct {
		name, given, own string
		have             []string
		want             string
		ok               bool
	}{
		{name: "the one that the step names", given: "b", own: "a", have: []string{"a", "b"}, want: "b", ok: true},
		{name: "its own where the named one has no such model", given: "c", own: "a", have: []string{"a", "b"},
			want: "a", ok: true},
		{name: "its own before others", own: "a", have: []string{"b", "a"}, want: "a", ok: true},
		{name: "the only other one", own: "a", have: []string{"b"}, want: "b", ok: true},
		{name: "its path ends in a slash", given: "b/", own: "a", have: []string{"a", "b"}, want: "b", ok: true},
		{name: "several others", own: "a", have: []string{"b", "c"}},
		{name: "none", given: "b", own: "a"},
		{name: "an ensemble that came without a repository", have: []string{"b", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &inferencepb.ModelEnsembling_Step{ModelName: "m", ModelNamespace: tt.given}
			if ok := ensemble.Link(s, tt.own, tt.have); ok != tt.ok || s.GetModelNamespace() != tt.want {
				t.Errorf("Link(%q, own %q, have %q) = %v, namespace %q; want %v, %q", tt.given, tt.own, tt.have, ok,
					s.GetModelNamespace(), tt.ok, tt.want)
			}
		})
	}
}

func TestStepKeys(t *testing.T) {
	cfg := &inferencepb.ModelConfig{SchedulingChoice: &inferencepb.ModelConfig_EnsembleScheduling{
		EnsembleScheduling: &inferencepb.ModelEnsembling{
			Step: []*inferencepb.ModelEnsembling_Step{{ModelName: "b"}, {ModelName: "a", ModelNamespace: "r"},
				{ModelName: "b"}},
		},
	}}
	if got, want := ensemble.StepKeys(cfg), []string{"b", "r/a"}; !slices.Equal(got, want) {
		t.Errorf("StepKeys = %q, want %q", got, want)
	}
	if got := ensemble.StepKeys(&inferencepb.ModelConfig{}); got != nil {
		t.Errorf("StepKeys of a model that is no ensemble = %q, want none", got)
	}
}
