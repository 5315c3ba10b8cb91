// Package cache keeps responses by the hash of what they answer, within a byte budget: Triton's response cache.
//
// The responses are copies, so that what they are of (a runtime's memory, a pooled buffer) can go. A hit hands the copy
// out; it is never changed, and stays until its last reader lets go although it may be evicted meanwhile. Which requests
// may be answered from the cache is the model's to say. No goroutines.
package cache
