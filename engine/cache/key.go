package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// hasher makes keys of 128 bits, from two hashes with secret seeds. So clients cannot make two requests with the same
// key, and it does not happen by chance.
type hasher struct {
	seeds [2]maphash.Seed
	spare *sync.Pool // of *scratch
}

// Identities makes keys that are the same in every process: SHA-256, truncated to 128 bits, of the owner's identity and
// the request. It has these methods of a Store. The zero value is ready, and safe for concurrent use.
type Identities struct {
	mu   sync.RWMutex
	of   map[Owner]string // guarded by mu, as is last
	last Owner
}

// NewOwner returns an owner. It shares its entries with all owners of the same identity, in this process and others.
func (i *Identities) NewOwner(_ context.Context, identity func() (string, error)) (Owner, error) {
	id, err := identity()
	if err != nil {
		return 0, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.of == nil {
		i.of = map[Owner]string{}
	}
	i.last++
	i.of[i.last] = id
	return i.last, nil
}

// Drop removes an owner. Its entries stay for other owners of the same identity, until the store evicts them.
func (i *Identities) Drop(o Owner) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.of, o)
}

// Key returns the key of a request. It is the same in all processes for owners of the same identity.
func (i *Identities) Key(o Owner, r *infer.Request) infer.CacheKey {
	i.mu.RLock()
	identity := i.of[o]
	i.mu.RUnlock()
	var s scratch
	b := appendText(nil, identity)
	b = s.appendRequest(b, r, func(b, data []byte) []byte {
		sum := sha256.Sum256(data)
		return append(b, sum[:]...)
	})
	sum := sha256.Sum256(b)
	return infer.CacheKey{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

// scratch is memory for one key.
type scratch struct {
	text  []byte
	order []int
}

func newHasher() hasher {
	return hasher{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		spare: &sync.Pool{New: func() any { return &scratch{} }},
	}
}

func (h *hasher) key(o Owner, r *infer.Request) infer.CacheKey {
	s := h.spare.Get().(*scratch)
	defer h.spare.Put(s)
	b := s.appendRequest(binary.LittleEndian.AppendUint64(s.text[:0], uint64(o)), r, h.digest)
	s.text = b
	return infer.CacheKey{maphash.Bytes(h.seeds[0], b), maphash.Bytes(h.seeds[1], b)}
}

func (h *hasher) digest(b, data []byte) []byte {
	for _, seed := range h.seeds {
		b = binary.LittleEndian.AppendUint64(b, maphash.Bytes(seed, data))
	}
	return b
}

// appendRequest appends everything that determines the response, in a form that is different for different requests:
// every part has its length in front. Long inputs are represented by their digest.
func (s *scratch) appendRequest(b []byte, r *infer.Request, digest func(b, data []byte) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.Inputs)))
	byInput := func(i, j int) int { return strings.Compare(r.Inputs[i].Name, r.Inputs[j].Name) }
	for _, i := range s.sorted(len(r.Inputs), byInput) {
		in := &r.Inputs[i]
		if b = appendHeader(b, in); len(in.Data) <= 64 {
			b = append(b, in.Data...)
		} else {
			b = digest(b, in.Data)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.Outputs)))
	byOutput := func(i, j int) int { return strings.Compare(r.Outputs[i].Name, r.Outputs[j].Name) }
	for _, i := range s.sorted(len(r.Outputs), byOutput) {
		b = appendText(b, r.Outputs[i].Name)
	}
	byParameter := func(i, j int) int { return strings.Compare(r.Parameters[i].Name, r.Parameters[j].Name) }
	for _, i := range s.sorted(len(r.Parameters), byParameter) {
		b = appendParameter(b, &r.Parameters[i])
	}
	return b
}

// sorted returns the numbers from 0 to n-1 in an order.
func (s *scratch) sorted(n int, compare func(i, j int) int) []int {
	s.order = s.order[:0]
	for i := range n {
		s.order = append(s.order, i)
	}
	if n > 1 {
		slices.SortFunc(s.order, compare)
	}
	return s.order
}

// appendHeader appends a tensor without its bytes.
func appendHeader(b []byte, t *tensor.Tensor) []byte {
	b = appendText(b, t.Name)
	b = append(b, byte(t.DataType))
	b = binary.AppendUvarint(b, uint64(len(t.Shape)))
	for _, d := range t.Shape {
		b = binary.AppendVarint(b, d)
	}
	return binary.AppendUvarint(b, uint64(len(t.Data)))
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendParameter(b []byte, p *infer.Parameter) []byte {
	b = appendText(b, p.Name)
	b = append(b, byte(p.Kind))
	switch p.Kind {
	case infer.BoolParameter:
		if p.Bool {
			return append(b, 1)
		}
		return append(b, 0)
	case infer.IntParameter:
		return binary.AppendVarint(b, p.Int)
	case infer.UintParameter:
		return binary.AppendUvarint(b, p.Uint)
	case infer.FloatParameter:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Float))
	}
	return appendText(b, p.Text)
}
