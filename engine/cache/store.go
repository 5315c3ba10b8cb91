package cache

import (
	"context"

	"nereid/engine/infer"
)

// Store keeps the responses of models. Its methods are safe for concurrent use.
type Store interface {
	// NewOwner returns the owner of one loaded version. identity says what the version is made of: two with the same may
	// share answers in a store that others use too. It is called only where that matters.
	NewOwner(ctx context.Context, identity func() (string, error)) (Owner, error)
	// Key returns what a request of an owner is known by; equal requests have equal keys.
	Key(o Owner, r *infer.Request) infer.CacheKey
	// Lookup returns what is kept under a key, nil if there is nothing, and when it knew. start is when making the key
	// began, which counts as a part of the lookup. The response must not be changed.
	Lookup(k infer.CacheKey, start infer.Stamp) (*Response, infer.Stamp)
	// Insert keeps a copy of a response.
	Insert(k infer.CacheKey, o Owner, resp *infer.Response)
	// Drop forgets an owner, which asks no more.
	Drop(o Owner)
	Stats() Stats
}

var _ Store = (*Cache)(nil)
