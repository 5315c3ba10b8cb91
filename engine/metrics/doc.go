// Package metrics writes Prometheus text: the families of Triton's metrics endpoint under their nv_ names, in its
// order, and those of this server under nereid_.
//
// The numbers are a snapshot of package stats at the time of the scrape; those of the machine come from /proc. Families
// that need a GPU or a response cache are absent without one, as in Triton. The package starts no goroutine.
//
// Files: metrics.go has the order of the families and those of the server, models.go the counts of models,
// latencies.go their histograms and quantiles, gpus.go and cache.go the rest. text.go writes families and samples.
package metrics
