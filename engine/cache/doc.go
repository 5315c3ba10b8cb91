// Package cache keeps responses by a hash of their requests, up to a size in bytes: Triton's response cache.
//
// The cache keeps copies of responses, so the original memory (of a runtime, or a pooled buffer) can be released. A
// lookup returns the copy, which is never changed and stays valid after it is evicted. Models decide which requests
// may be answered from the cache. The package starts no goroutines.
package cache
