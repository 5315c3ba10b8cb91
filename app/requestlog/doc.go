// Package requestlog finds the slow requests among those of engine/requests.
//
// A request is slow if it took longer than 99 % of its model's requests of the last hour. Run is the only goroutine.
// The caller owns it.
package requestlog
