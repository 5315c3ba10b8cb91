package cache

import (
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

// hasher makes keys of 128 bits: two hashes under seeds that nobody outside knows, so that nobody can make two requests
// with one key, and none have by chance.
type hasher struct {
	seeds [2]maphash.Seed
	spare *sync.Pool // of *scratch
}

// StableHasher makes keys that are the same in every process, for stores that outlive one: SHA-256, cut to 128 bits. The zero
// value is ready, and safe for concurrent use.
type StableHasher struct{}

// Key returns the key of a request of what identity stands for.
func (StableHasher) Key(identity string, r *infer.Request) infer.CacheKey {
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

// appendRequest gathers everything but the bytes of long inputs, for which their digest stands, in a form in which no two
// different requests look the same: every part has its length before it.
func (s *scratch) appendRequest(b []byte, r *infer.Request, digest func(b, data []byte) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.Inputs)))
	for _, i := range s.sorted(len(r.Inputs), func(i, j int) int { return strings.Compare(r.Inputs[i].Name, r.Inputs[j].Name) }) {
		b = appendInput(b, &r.Inputs[i], digest)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Outputs)))
	for _, i := range s.sorted(len(r.Outputs), func(i, j int) int { return strings.Compare(r.Outputs[i].Name, r.Outputs[j].Name) }) {
		b = appendText(b, r.Outputs[i].Name)
	}
	for i := range r.Parameters {
		b = appendParameter(b, &r.Parameters[i])
	}
	return b
}

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

func appendInput(b []byte, in *tensor.Tensor, digest func(b, data []byte) []byte) []byte {
	b = appendText(b, in.Name)
	b = append(b, byte(in.DataType))
	b = binary.AppendUvarint(b, uint64(len(in.Shape)))
	for _, d := range in.Shape {
		b = binary.AppendVarint(b, d)
	}
	b = binary.AppendUvarint(b, uint64(len(in.Data)))
	if len(in.Data) <= 64 {
		return append(b, in.Data...)
	}
	return digest(b, in.Data)
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
