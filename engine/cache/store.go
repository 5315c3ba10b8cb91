package cache

import (
	"context"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Owner is one loaded version of a model. Entries belong to one owner. So a version that is loaded again, perhaps from
// other files, never gets the responses of the version that it replaces.
type Owner uint64

// Response is a response in a store. It must not be changed.
type Response struct {
	Outputs    []tensor.Tensor // the garbage collector owns their bytes
	Parameters []infer.Parameter
}

// Stats are a store's counts since its start.
type Stats struct {
	// Size is the limit and Used the current use in bytes. Size is 0 for a store outside of this process, which knows
	// neither its entries nor its evictions.
	Size, Used, Entries              int64
	Lookups, Hits, Misses, Evictions uint64
	Lookup, Insertion                time.Duration // total
}

// Store keeps the responses of models. Its methods are safe for concurrent use.
type Store interface {
	// NewOwner returns the owner of one loaded version. identity returns a text that identifies the version's files
	// and configuration. Versions with the same identity may share responses in a store that several servers use.
	// Other stores do not call it.
	NewOwner(ctx context.Context, identity func() (string, error)) (Owner, error)
	// Key returns the key of a request. Equal requests of an owner have equal keys.
	Key(o Owner, r *infer.Request) infer.CacheKey
	// Lookup returns the response with a key, nil if there is none, and the time when the lookup ended. start is when
	// the caller began to compute the key, which counts as part of the lookup. The response must not be changed.
	Lookup(k infer.CacheKey, start infer.Stamp) (*Response, infer.Stamp)
	// Insert keeps a copy of a response.
	Insert(k infer.CacheKey, o Owner, resp *infer.Response)
	// Drop removes an owner, which makes no more requests.
	Drop(o Owner)
	Stats() Stats
}

var _ Store = (*Cache)(nil)
