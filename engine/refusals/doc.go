// Package refusals counts the requests that the front ends refuse, by cause, and remembers the last ones. A request is
// refused if its answer says that the client, its rights or the server's limits are at fault: it need not have reached
// a model. Failures of models (HTTP 500, INTERNAL) and clients that left are not refusals.
//
// The package starts no goroutine. Nothing of it reaches the disk.
package refusals
