package cache

import (
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

// key gathers everything but the inputs' bytes, which stand for themselves by their hash, in a form in which no two
// different requests look the same: every part has its length before it.
func (h *hasher) key(o Owner, r *infer.Request) infer.CacheKey {
	s := h.spare.Get().(*scratch)
	defer h.spare.Put(s)
	b := binary.LittleEndian.AppendUint64(s.text[:0], uint64(o))
	b = binary.AppendUvarint(b, uint64(len(r.Inputs)))
	for _, i := range s.sorted(len(r.Inputs), func(i, j int) int { return strings.Compare(r.Inputs[i].Name, r.Inputs[j].Name) }) {
		b = h.appendInput(b, &r.Inputs[i])
	}
	b = binary.AppendUvarint(b, uint64(len(r.Outputs)))
	for _, i := range s.sorted(len(r.Outputs), func(i, j int) int { return strings.Compare(r.Outputs[i].Name, r.Outputs[j].Name) }) {
		b = appendText(b, r.Outputs[i].Name)
	}
	for i := range r.Parameters {
		b = appendParameter(b, &r.Parameters[i])
	}
	s.text = b
	return infer.CacheKey{maphash.Bytes(h.seeds[0], b), maphash.Bytes(h.seeds[1], b)}
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

func (h *hasher) appendInput(b []byte, in *tensor.Tensor) []byte {
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
	for _, seed := range h.seeds {
		b = binary.LittleEndian.AppendUint64(b, maphash.Bytes(seed, in.Data))
	}
	return b
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
