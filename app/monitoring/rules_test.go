package monitoring

import (
	"strings"
	"testing"

	"nereid/app/alerts"
)

func TestARuleAboutRefusedRequests(t *testing.T) {
	text, err := Rules([]Limits{{Model: alerts.Server, Limits: map[alerts.Kind]float64{alerts.Refused: 0.25}}})
	if err != nil {
		t.Fatal(err)
	}
	const refused = "sum by (instance) (increase(nereid_request_refused_total[5m]))"
	for _, want := range []string{"alert: NereidRefusesRequests", refused + " / (" + refused + " + ", "> 0.25 and",
		">= 20"} {
		if flat := strings.Join(strings.Fields(string(text)), " "); !strings.Contains(flat, want) {
			t.Errorf("the rules do not have %q:\n%s", want, flat)
		}
	}
}

// A model without a namespace is not added up with those of its name that have one. Without namespaces, no rule names
// the label: Prometheus in Kubernetes has a label of this name for other purposes.
func TestRulesTellNamespacesApart(t *testing.T) {
	limits := map[alerts.Kind]float64{alerts.Queue: 7}
	for _, tt := range []struct {
		models []string
		want   []string
	}{
		{[]string{"m"}, []string{`{model="m"}`}},
		{[]string{"m", "a/m"}, []string{`{model="m",namespace=""}`, `{model="m",namespace="a"}`}},
	} {
		var all []Limits
		for _, m := range tt.models {
			all = append(all, Limits{Model: m, Limits: limits})
		}
		text, err := Rules(all)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if strings.Count(string(text), want) != 1 {
				t.Errorf("the rules of %v do not have %s once:\n%s", tt.models, want, text)
			}
		}
	}
}
