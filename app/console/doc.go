// Package console serves the GUI: the page, and the HTTP interface behind it that package api defines. It listens on
// loopback; every request must name a local host, and a request that changes something must carry a header that
// another site's page cannot send.
//
// What the console knows it asks of others: the engine about models, the store about the past, the recorder about the
// last minute. It owns three things: staged imports, the trash, and the revisions of configuration files. A change of
// a model's folder or configuration is made under a lock of that model, one at a time.
//
// Goroutines: one that watches models for the event stream and removes imports that were left alone, one for each
// event stream (its request's), one for each import that is being committed, two for
// each framework that is being installed, one for the load test or the tuning that runs. Close ends them and waits.
package console
