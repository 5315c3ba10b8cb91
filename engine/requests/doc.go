// Package requests keeps a record of each of the last requests, of all front ends: what it asked for, who sent it, how
// it ended, when it was where, and in which batch it ran. A record has no contents.
//
// A record begins in a front end and is kept when neither the front end nor the engine uses the request any more. The
// records are in a ring of fixed size in memory; recording a request allocates nothing. A request that an execution
// makes, such as a step of an ensemble, has a record of its own, with the number of its parent.
//
// The package starts no goroutine.
package requests
