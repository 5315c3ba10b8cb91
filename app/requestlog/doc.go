// Package requestlog finds the slow requests among those of engine/requests, and chooses those that the store keeps.
//
// A request is slow if it took longer than 99 % of its model's requests of the last hour. The store keeps all requests
// that are slow, failed, were refused or cancelled, and a uniform sample of the others, which is at most a number per
// second. A request is kept with the requests that its execution made. Run is the only goroutine. The caller owns it.
package requestlog
