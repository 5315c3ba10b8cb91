// Package alerts serves the alerts of the models, their rules, the webhook, and both as files for Prometheus
// and Grafana.
package alerts
