package cache

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// entryCost is counted for each entry beside its bytes: what the table, the list and the headers take.
const entryCost = 256

// Owner stands for one loaded version of a model. Its entries are found by it alone: what is loaded again, from other
// files perhaps, never gets the answers of what it replaces.
type Owner uint64

// Response is what is kept of an answer. It must not be changed.
type Response struct {
	Outputs    []tensor.Tensor // their bytes are the garbage collector's
	Parameters []infer.Parameter
}

// Stats are a store's counts since its start.
type Stats struct {
	Size, Used, Entries              int64 // now; Size 0: the store is not ours, and its entries, like its evictions, are not known
	Lookups, Hits, Misses, Evictions uint64
	Lookup, Insertion                time.Duration // in all
}

// entry is a kept response in the list of use, the last used first.
type entry struct {
	key        infer.CacheKey
	owner      Owner
	size       int64
	resp       Response
	prev, next *entry
}

// Cache is the local response cache. Its methods are safe for concurrent use.
type Cache struct {
	size   int64
	hasher hasher
	owners atomic.Uint64
	took   atomic.Int64 // nanoseconds of all lookups

	mu      sync.Mutex
	entries map[infer.CacheKey]*entry // guarded by mu, as are the next
	ring    entry                     // its next is the last used, its prev the first to go
	stats   Stats
}

// New returns a cache for so many bytes. Errors: InvalidArg.
func New(size int64) (*Cache, error) {
	if size <= 0 {
		return nil, status.Errorf(status.InvalidArg, "a response cache of %d bytes holds nothing; give it a size over 0", size)
	}
	c := &Cache{size: size, hasher: newHasher(), entries: map[infer.CacheKey]*entry{}}
	c.ring.next, c.ring.prev = &c.ring, &c.ring
	return c, nil
}

// NewOwner returns an owner that has no entries; it never fails and does not ask for the identity.
func (c *Cache) NewOwner(context.Context, func() (string, error)) (Owner, error) {
	return Owner(c.owners.Add(1)), nil
}

// Key returns the hash of what decides the answer to a request: the owner, the inputs, the parameters and the requested
// outputs. The ID, timeout and priority do not. The order of the inputs does not either.
func (c *Cache) Key(o Owner, r *infer.Request) infer.CacheKey { return c.hasher.key(o, r) }

// Lookup returns what is kept under a key, nil if there is nothing, and when it knew. start is when making the key began,
// which counts as a part of the lookup.
func (c *Cache) Lookup(k infer.CacheKey, start infer.Stamp) (*Response, infer.Stamp) {
	resp := c.find(k)
	end := infer.Now()
	c.took.Add(int64(end.Sub(start)))
	return resp, end
}

func (c *Cache) find(k infer.CacheKey) *Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	e.unlink()
	c.first(e)
	return &e.resp
}

// Insert keeps a copy of a response. What does not fit, even into an empty cache, is not kept; the entries that were not
// used for the longest time make room for the others.
func (c *Cache) Insert(k infer.CacheKey, o Owner, resp *infer.Response) {
	start := infer.Now()
	size := sizeOf(resp)
	if size > c.size {
		return
	}
	e := &entry{key: k, owner: o, size: size, resp: Copy(resp)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[k]; old != nil { // two asked at once
		c.remove(old)
	}
	for c.stats.Used+size > c.size {
		c.remove(c.ring.prev)
		c.stats.Evictions++
	}
	c.entries[k] = e
	c.first(e)
	c.stats.Used += size
	c.stats.Entries++
	c.stats.Insertion += infer.Now().Sub(start)
}

// Drop forgets an owner's responses.
func (c *Cache) Drop(o Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if e.owner == o {
			c.remove(e)
		}
	}
}

// Stats returns the counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Size, s.Lookups, s.Lookup = c.size, c.stats.Hits+c.stats.Misses, time.Duration(c.took.Load())
	return s
}

// remove takes an entry out. c.mu is held.
func (c *Cache) remove(e *entry) {
	e.unlink()
	delete(c.entries, e.key)
	c.stats.Used -= e.size
	c.stats.Entries--
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// first puts an entry at the head of the list. c.mu is held.
func (c *Cache) first(e *entry) {
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

func sizeOf(resp *infer.Response) int64 {
	n := int64(entryCost)
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		n += int64(len(out.Data)+len(out.Name)+8*len(out.Shape)) + 96
	}
	for i := range resp.Parameters {
		p := &resp.Parameters[i]
		n += int64(len(p.Name)+len(p.Text)) + 80
	}
	return n
}

// Copy copies a response, its bytes into one block.
func Copy(resp *infer.Response) Response {
	total := 0
	for i := range resp.Outputs {
		total += len(resp.Outputs[i].Data)
	}
	block := make([]byte, 0, total)
	next := Response{Outputs: make([]tensor.Tensor, 0, len(resp.Outputs))}
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		at := len(block)
		block = append(block, out.Data...)
		next.Outputs = append(next.Outputs, tensor.Tensor{
			Name: strings.Clone(out.Name), DataType: out.DataType, Shape: append([]int64(nil), out.Shape...), Data: block[at:len(block):len(block)],
		})
	}
	for _, p := range resp.Parameters {
		p.Name, p.Text = strings.Clone(p.Name), strings.Clone(p.Text)
		next.Parameters = append(next.Parameters, p)
	}
	return next
}
