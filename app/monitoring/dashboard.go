// Package monitoring writes files for Prometheus and Grafana: a dashboard with the charts of the page, and alert rules
// with the limits that the server uses itself.
package monitoring

import "encoding/json"

// panel is a chart over the metrics of all servers and models that are chosen on the dashboard.
type panel struct {
	title, unit string // unit: Grafana's id
	series      []series
}

// series is a query in PromQL. In its legend, {{label}} is a label's value.
type series struct{ expr, legend string }

// Every query selects the servers and models of the dashboard's lists.
const (
	server  = `{instance=~"$instance"}`
	ofModel = `{instance=~"$instance",model=~"$model"}[$__rate_interval]`
)

func perSecond(metric string) string {
	return "sum by (model, version) (rate(" + metric + ofModel + "))"
}

func latency(quantile string) string {
	return "histogram_quantile(" + quantile + ", sum by (model, version, le) (" +
		"rate(nereid_inference_request_duration_seconds_bucket" + ofModel + ")))"
}

// microseconds is the mean time per request of a counter of microseconds.
func microseconds(metric string) string {
	return "sum by (model) (rate(" + metric + ofModel + ")) / sum by (model) (rate(nv_inference_request_success" +
		ofModel + "))"
}

var panels = []panel{
	{"Requests per second", "reqps", []series{{perSecond("nv_inference_request_success"), "{{model}} v{{version}}"}}},
	{"Failures per second", "reqps", []series{
		{"sum by (model, reason) (rate(nv_inference_request_failure" + ofModel + "))", "{{model}} {{reason}}"}}},
	{"Refused requests per second", "reqps", []series{
		{`sum by (protocol, cause) (rate(nereid_request_refused_total{instance=~"$instance"}[$__rate_interval]))`,
			"{{protocol}} {{cause}}"}}},
	{"Latency, p50 and p99", "s", []series{
		{latency("0.5"), "{{model}} v{{version}} p50"}, {latency("0.99"), "{{model}} v{{version}} p99"}}},
	{"Mean time per request by phase", "µs", []series{
		{microseconds("nv_inference_queue_duration_us"), "{{model}} queue"},
		{microseconds("nv_inference_compute_input_duration_us"), "{{model}} input"},
		{microseconds("nv_inference_compute_infer_duration_us"), "{{model}} infer"},
		{microseconds("nv_inference_compute_output_duration_us"), "{{model}} output"}}},
	{"Requests that wait", "short", []series{
		{`sum by (model) (nv_inference_pending_request_count{instance=~"$instance",model=~"$model"})`, "{{model}}"}}},
	{"Mean batch size", "short", []series{
		{perSecond("nv_inference_count") + " / " + perSecond("nv_inference_exec_count"), "{{model}} v{{version}}"}}},
	{"Answers from the cache", "percentunit", []series{
		{"sum by (model) (rate(nv_cache_num_hits_per_model" + ofModel + ")) / " +
			"(sum by (model) (rate(nv_cache_num_hits_per_model" + ofModel + ")) + " +
			"sum by (model) (rate(nv_cache_num_misses_per_model" + ofModel + ")))", "{{model}}"}}},
	{"Processors", "percentunit", []series{{"nv_cpu_utilization" + server, "{{instance}}"}}},
	{"Memory", "bytes", []series{{"nv_cpu_memory_used_bytes" + server, "{{instance}} machine"},
		{"nereid_process_resident_memory_bytes" + server, "{{instance}} server"}}},
	{"GPU", "percentunit", []series{{"nv_gpu_utilization" + server, "{{gpu_uuid}}"}}},
	{"GPU memory", "bytes", []series{{"nv_gpu_memory_used_bytes" + server, "{{gpu_uuid}}"}}},
}

type object = map[string]any

// Dashboard returns a dashboard for Grafana 9 or newer, in the form that its import takes. Source: Grafana's JSON model
// of dashboards.
func Dashboard() ([]byte, error) {
	source := object{"type": "prometheus", "uid": "${source}"}
	const width, height = 12, 8 // of a panel; a row has 24 columns
	drawn := make([]object, 0, len(panels))
	for i, p := range panels {
		targets := make([]object, 0, len(p.series))
		for j, s := range p.series {
			targets = append(targets, object{"refId": string(rune('A' + j)), "datasource": source, "expr": s.expr,
				"legendFormat": s.legend})
		}
		drawn = append(drawn, object{"id": i + 1, "type": "timeseries", "title": p.title, "datasource": source,
			"gridPos": object{"x": i % 2 * width, "y": i / 2 * height, "w": width, "h": height}, "targets": targets,
			"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []object{}}})
	}
	list := func(name, label, metric string) object {
		query := "label_values(" + metric + ", " + name + ")"
		return object{"type": "query", "name": name, "label": label, "datasource": source, "definition": query,
			"query": object{"query": query, "refId": name}, "refresh": 2, "multi": true, "includeAll": true,
			"current": object{"text": "All", "value": "$__all"}}
	}
	return json.MarshalIndent(object{
		"title": "Nereid", "uid": "nereid", "tags": []string{"nereid"}, "schemaVersion": 39, "refresh": "10s",
		"time": object{"from": "now-1h", "to": "now"}, "panels": drawn,
		"templating": object{"list": []object{
			{"type": "datasource", "name": "source", "label": "Data source", "query": "prometheus"},
			list("instance", "Server", "nereid_build_info"), list("model", "Model", "nv_inference_request_success"),
		}},
	}, "", "  ")
}
