package infer

// CacheKey is what the response cache knows a request by; see package cache. The zero value: none.
type CacheKey [2]uint64

// CacheNote is what a model notes on a request that may be answered from the response cache.
type CacheNote struct {
	Key        CacheKey
	Start, End Stamp // of the lookup; 0: there was none
	Hit        bool
}
