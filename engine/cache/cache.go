package cache

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// entryCost is the memory of an entry without its bytes: of the map, the list and the headers.
const entryCost = 256

// entry is a response in the cache.
type entry struct {
	key   infer.CacheKey
	owner Owner
	size  int64
	resp  Response
}

// Cache is the local response cache. Its methods are safe for concurrent use.
type Cache struct {
	size       int64
	hasher     hasher
	owners     atomic.Uint64
	lookupTime atomic.Int64 // nanoseconds of all lookups

	mu      sync.Mutex
	entries map[infer.CacheKey]*list.Element // guarded by mu, as are the next
	recent  list.List                        // of *entry, the most recently used first
	stats   Stats
}

// New returns a cache with a size in bytes. Errors: InvalidArg.
func New(size int64) (*Cache, error) {
	if size <= 0 {
		return nil, status.Errorf(status.InvalidArg,
			"a response cache of %d bytes holds nothing; give it a size over 0", size)
	}
	return &Cache{size: size, hasher: newHasher(), entries: map[infer.CacheKey]*list.Element{}}, nil
}

// NewOwner returns an owner without entries. It never fails and does not call identity.
func (c *Cache) NewOwner(context.Context, func() (string, error)) (Owner, error) {
	return Owner(c.owners.Add(1)), nil
}

// Key returns the hash of everything that determines the response to a request: the owner, the inputs, the parameters
// and the requested outputs. ID, timeout, priority and the order of the inputs do not matter.
func (c *Cache) Key(o Owner, r *infer.Request) infer.CacheKey { return c.hasher.key(o, r) }

// Lookup returns the response with a key; see Store.
func (c *Cache) Lookup(k infer.CacheKey, start infer.Stamp) (*Response, infer.Stamp) {
	resp := c.find(k)
	end := infer.Now()
	c.lookupTime.Add(int64(end.Sub(start)))
	return resp, end
}

func (c *Cache) find(k infer.CacheKey) *Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[k]
	if at == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	c.recent.MoveToFront(at)
	return &at.Value.(*entry).resp
}

// Insert keeps a copy of a response, unless it is larger than the whole cache. The least recently used entries are
// evicted to make room.
func (c *Cache) Insert(k infer.CacheKey, o Owner, resp *infer.Response) {
	start := infer.Now()
	size := sizeOf(resp)
	if size > c.size {
		return
	}
	e := &entry{key: k, owner: o, size: size, resp: Copy(resp)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[k]; old != nil { // of an equal request at the same time
		c.remove(old)
	}
	for c.stats.Used+size > c.size {
		c.remove(c.recent.Back())
		c.stats.Evictions++
	}
	c.entries[k] = c.recent.PushFront(e)
	c.stats.Used += size
	c.stats.Entries++
	c.stats.Insertion += infer.Now().Sub(start)
}

// Drop removes an owner's responses.
func (c *Cache) Drop(o Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.entries {
		if at.Value.(*entry).owner == o {
			c.remove(at)
		}
	}
}

// Stats returns the counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Size, s.Lookups, s.Lookup = c.size, s.Hits+s.Misses, time.Duration(c.lookupTime.Load())
	return s
}

// remove removes an entry. c.mu is held.
func (c *Cache) remove(at *list.Element) {
	e := c.recent.Remove(at).(*entry)
	delete(c.entries, e.key)
	c.stats.Used -= e.size
	c.stats.Entries--
}

// sizeOf returns the approximate memory of an entry.
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

// Copy copies a response. All bytes are in one block.
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
			Name: strings.Clone(out.Name), DataType: out.DataType,
			Shape: slices.Clone(out.Shape), Data: block[at:len(block):len(block)],
		})
	}
	for _, p := range resp.Parameters {
		p.Name, p.Text = strings.Clone(p.Name), strings.Clone(p.Text)
		next.Parameters = append(next.Parameters, p)
	}
	return next
}
