// Package metrics writes Prometheus text: the families of Triton's metrics endpoint under their nv_ names, in its
// order, and those of this server under nereid_.
//
// The numbers are a snapshot of package stats taken when somebody asks, and the machine's from /proc. Families that need
// a GPU or a response cache are absent, as Triton's are without one. No goroutines.
package metrics
