package monitoring

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"nereid/app/alerts"
	"nereid/engine/repo"
)

// Limits are the limits in force for one model, or for alerts.Server, by kind of alert.
type Limits struct {
	Model  string
	Limits map[alerts.Kind]float64
}

// rule is an alerting rule of Prometheus. Source: the format of its rule files.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// gone is true for each server that Prometheus scrapes without success and that it has scraped within a week, or if it
// has the metrics of no server and knows none. Whoever takes a server away also removes it from what is scraped.
const gone = "(up == 0 and on (job, instance) count_over_time(nereid_build_info[7d])) " +
	"or on () absent(nereid_build_info)"

// Rules returns a file of alerting rules. One is for servers without metrics. For each model there is one per limit
// that a metric can be compared with: failures, the 99th percentile and the queue. No metric has restarts, the memory
// of a model, or a comparison of versions.
//
// The rules look back five minutes, because Prometheus may scrape once a minute. They need as many requests as those of
// package alerts, but compare figures without a confidence interval.
func Rules(models []Limits) ([]byte, error) {
	rules := []rule{{Alert: "NereidIsGone", Expr: gone, For: "1m", Labels: severity("critical"),
		Annotations: summary("Prometheus gets no metrics of Nereid {{ $labels.instance }}")}}
	namespaces := slices.ContainsFunc(models, func(m Limits) bool { n, _ := repo.Split(m.Model); return n != "" })
	for _, m := range models {
		if limit := m.Limits[alerts.Refused]; limit > 0 {
			rules = append(rules, refusedRule(limit))
		}
		for _, kind := range alerts.Kinds {
			if limit := m.Limits[kind]; limit > 0 {
				if r, ok := ruleOf(m.Model, namespaces, kind, limit); ok {
					rules = append(rules, r)
				}
			}
		}
	}
	type group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	return yaml.Marshal(map[string][]group{"groups": {{"nereid", rules}}})
}

// refusedRule returns the rule about what a server refuses. A server without models has the metrics of none.
func refusedRule(limit float64) rule {
	increase := func(metric string) string { return fmt.Sprintf("sum by (instance) (increase(%s[5m]))", metric) }
	refused := increase("nereid_request_refused_total")
	all := fmt.Sprintf("(%s + (%s + %s or 0 * %[1]s))", refused, increase("nv_inference_request_success"),
		increase("nv_inference_request_failure"))
	return rule{Alert: "NereidRefusesRequests", For: "1m", Labels: severity("warning"),
		Expr:        fmt.Sprintf("%[1]s / %[2]s > %[3]g and %[2]s >= %[4]d", refused, all, limit, alerts.LeastFailing),
		Annotations: summary("{{ $labels.instance }} refuses {{ $value | humanizePercentage }} of the requests")}
}

// ruleOf returns the rule of a model's limit. It reports false for a kind without a metric. If there are namespaces, a
// model without one differs from those of its name by the label that it does not have.
func ruleOf(key string, namespaces bool, kind alerts.Kind, limit float64) (rule, bool) {
	const by = "sum by (instance, model, version) "
	namespace, name := repo.Split(key)
	of := fmt.Sprintf("model=%q", name)
	if namespaces {
		of += fmt.Sprintf(",namespace=%q", namespace)
	}
	const succeeded, times = "nv_inference_request_success", "nereid_inference_request_duration_seconds"
	increase := func(metric, also string) string {
		return fmt.Sprintf(by+"(increase(%s{%s%s}[5m]))", metric, of, also)
	}
	r := rule{For: "1m", Labels: severity("warning")}
	switch kind {
	case alerts.Failures: // requests that clients cancelled do not count
		failed := increase("nv_inference_request_failure", `,reason!="CANCELED"`)
		all := fmt.Sprintf("(%s + %s)", increase(succeeded, ""), failed)
		r.Alert = "NereidModelFails"
		r.Expr = fmt.Sprintf("%s / %s > %g and %s >= %d", failed, all, limit, all, alerts.LeastFailing)
		r.Annotations = summary("{{ $labels.model }} fails {{ $value | humanizePercentage }} of its requests")
	case alerts.P99:
		r.Alert = "NereidModelIsSlow"
		r.Expr = fmt.Sprintf("histogram_quantile(0.99, sum by (instance, model, version, le) "+
			"(rate(%s_bucket{%s}[5m]))) > %g and %s >= %d", times, of, limit/1e6, increase(times+"_count", ""),
			alerts.LeastSlow)
		r.Annotations = summary("the 99th percentile of {{ $labels.model }} is {{ $value | humanizeDuration }}")
	case alerts.Queue:
		r.Alert = "NereidQueueIsLong"
		r.Expr = fmt.Sprintf(by+"(quantile_over_time(0.5, nv_inference_pending_request_count{%s}[5m])) > %g", of, limit)
		r.Annotations = summary("{{ $value | humanize }} requests wait for {{ $labels.model }}")
	default:
		return rule{}, false
	}
	return r, true
}

func severity(s string) map[string]string { return map[string]string{"severity": s} }
func summary(s string) map[string]string  { return map[string]string{"summary": s} }
