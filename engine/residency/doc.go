// Package residency decides which models are in memory.
//
// A Ledger keeps an Account of each model's memory. A load reserves what it needs; if that does not fit into the
// Budget, the models used longest ago are evicted first. An evicted model stays in service: Waiting holds the requests
// that wait until it is loaded again. Package lifecycle loads and evicts; this package only chooses and counts.
//
// Lock order: Ledger.evicting is taken before the locks that Evict takes, and Ledger.mu last.
//
// The package starts no goroutine: the caller runs Ledger.Run on one.
package residency
