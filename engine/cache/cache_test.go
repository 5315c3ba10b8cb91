package cache

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

func request(inputs ...tensor.Tensor) *infer.Request {
	r := infer.NewDetached()
	r.Inputs = append(r.Inputs, inputs...)
	return r
}

func in(name string, data string) tensor.Tensor {
	return tensor.Tensor{Name: name, DataType: tensor.Uint8, Shape: []int64{int64(len(data))}, Data: []byte(data)}
}

func response(data string) *infer.Response {
	p := &infer.Response{Final: true}
	p.AddOutput("OUT", tensor.Uint8, []int64{int64(len(data))}, []byte(data), nil)
	return p
}

func owner(c *Cache) Owner {
	o, _ := c.NewOwner(context.Background(), nil) // never fails
	return o
}

func find(c *Cache, k infer.CacheKey) *Response {
	p, _ := c.Lookup(k, infer.Now())
	return p
}

func TestKeys(t *testing.T) {
	c, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	long := string(bytes.Repeat([]byte("x"), 1000))
	change := func(f func(r *infer.Request)) *infer.Request {
		r := request(in("A", "12"), in("B", long))
		f(r)
		return r
	}
	base := c.Key(1, change(func(*infer.Request) {}))
	for _, tt := range []struct {
		name string
		f    func(r *infer.Request)
		same bool
	}{
		{"E6 another id", func(r *infer.Request) { r.ID = "other" }, true},
		{"E6 another timeout and priority", func(r *infer.Request) { r.Timeout, r.Priority = 5, 6 }, true},
		{"E6 the inputs in another order",
			func(r *infer.Request) { r.Inputs[0], r.Inputs[1] = r.Inputs[1], r.Inputs[0] }, true},
		{"E6 another parameter", func(r *infer.Request) {
			r.Parameters = []infer.Parameter{{Name: "p", Kind: infer.IntParameter, Int: 1}}
		}, false},
		{"E6 other outputs", func(r *infer.Request) { r.Outputs = []infer.RequestedOutput{{Name: "OUT"}} }, false},
		{"another byte", func(r *infer.Request) { r.Inputs[0].Data = []byte("13") }, false},
		{"another byte of a long input", func(r *infer.Request) { r.Inputs[1].Data = []byte("y" + long[1:]) }, false},
		{"another shape", func(r *infer.Request) { r.Inputs[0].Shape = []int64{1, 2} }, false},
		{"another type", func(r *infer.Request) { r.Inputs[0].DataType = tensor.Int8 }, false},
		{"another name", func(r *infer.Request) { r.Inputs[0].Name = "C" }, false},
		{"a byte that moves from one input to the next",
			func(r *infer.Request) { r.Inputs[0].Data = []byte("1"); r.Inputs[1].Data = []byte("2" + long) }, false},
		{"an input less", func(r *infer.Request) { r.Inputs = r.Inputs[:1] }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.Key(1, change(tt.f)); (got == base) != tt.same {
				t.Errorf("the key is the same: %v, want %v", got == base, tt.same)
			}
		})
	}
	if c.Key(2, change(func(*infer.Request) {})) == base {
		t.Error("two owners have one key")
	}
}

func TestKeysOfParameters(t *testing.T) {
	c, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	key := func(all ...infer.Parameter) infer.CacheKey {
		r := request(in("A", "12"))
		r.Parameters = all
		return c.Key(1, r)
	}
	t.Run("kinds of parameters", func(t *testing.T) {
		seen := map[infer.CacheKey]int{}
		for i, p := range []infer.Parameter{
			{Name: "p"}, {Name: "p", Bool: true}, {Name: "p", Kind: infer.IntParameter},
			{Name: "p", Kind: infer.UintParameter},
			{Name: "p", Kind: infer.FloatParameter}, {Name: "p", Kind: infer.FloatParameter, Float: 1},
			{Name: "p", Kind: infer.StringParameter},
			{Name: "p", Kind: infer.StringParameter, Text: "1"}, {Name: "q"},
		} {
			k := key(p)
			if j, ok := seen[k]; ok {
				t.Errorf("parameters %d and %d have one key", i, j)
			}
			seen[k] = i
		}
	})
	t.Run("C078 the order of parameters does not count, as clients over gRPC send them in any", func(t *testing.T) {
		p := infer.Parameter{Name: "p", Kind: infer.IntParameter, Int: 1}
		q := infer.Parameter{Name: "q", Kind: infer.IntParameter, Int: 2}
		if key(p, q) != key(q, p) {
			t.Error("the same parameters in another order have another key")
		}
		swapped, other := p, q
		swapped.Int, other.Int = q.Int, p.Int
		if key(p, q) == key(swapped, other) {
			t.Error("parameters that have each other's values have one key")
		}
	})
}

func TestEviction(t *testing.T) {
	const size = 100
	one := sizeOf(response(string(make([]byte, size))))
	c, err := New(3 * one)
	if err != nil {
		t.Fatal(err)
	}
	o := owner(c)
	key := func(i int) infer.CacheKey { return infer.CacheKey{uint64(i), 1} }
	data := func(i int) string { return string(bytes.Repeat([]byte{byte(i)}, size)) }
	for i := range 3 {
		c.Insert(key(i), o, response(data(i)))
	}
	find(c, key(0)) // now 1 is the one that was not used for the longest time
	c.Insert(key(3), o, response(data(3)))
	for i, want := range []bool{true, false, true, true} {
		t.Run(fmt.Sprintf("C079 entry %d", i), func(t *testing.T) {
			p := find(c, key(i))
			if (p != nil) != want {
				t.Fatalf("kept: %v, want %v", p != nil, want)
			}
			if p != nil && string(p.Outputs[0].Data) != data(i) {
				t.Error("the answer is another's")
			}
		})
	}
	t.Run("E6 entry larger than the cache", func(t *testing.T) {
		c.Insert(key(9), o, response(string(make([]byte, 4*one))))
		if find(c, key(9)) != nil || c.Stats().Entries != 3 {
			t.Error("it is kept, or has thrown others out")
		}
	})
	t.Run("the same again", func(t *testing.T) {
		c.Insert(key(3), o, response(data(7)))
		if p := find(c, key(3)); p == nil || string(p.Outputs[0].Data) != data(7) || c.Stats().Entries != 3 {
			t.Error("the newer answer is not the one that is kept")
		}
	})
	s := c.Stats()
	if s.Used != 3*one || s.Size != 3*one || s.Lookups != 7 || s.Hits != 5 || s.Misses != 2 || s.Evictions != 1 {
		t.Errorf("stats %+v", s)
	}
	other := owner(c)
	c.Insert(key(5), other, response(data(5)))
	c.Drop(o)
	if s := c.Stats(); s.Entries != 1 || s.Used != one || find(c, key(5)) == nil {
		t.Errorf("after a drop: %+v", s)
	}
	for _, n := range []int64{0, -1} {
		if _, err := New(n); err == nil {
			t.Errorf("New(%d) passes", n)
		}
	}
}

// The memory of a response may be released after Insert.
func TestInsertKeepsACopy(t *testing.T) {
	c, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	p := response("abc")
	c.Insert(infer.CacheKey{1}, 1, p)
	copy(p.Outputs[0].Data, "xyz")
	p.Outputs[0].Shape[0] = 9
	if kept := find(c, infer.CacheKey{1}); string(kept.Outputs[0].Data) != "abc" || kept.Outputs[0].Shape[0] != 3 {
		t.Errorf("kept %+v", kept.Outputs)
	}
}

func TestHitsAreCorrectDuringEvictions_E6(t *testing.T) {
	c, err := New(20 * sizeOf(response("0123456789")))
	if err != nil {
		t.Fatal(err)
	}
	o := owner(c)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range 5000 {
				text := fmt.Sprintf("%010d", rnd.IntN(60))
				k := c.Key(o, request(in("A", text)))
				if p := find(c, k); p == nil {
					c.Insert(k, o, response(text))
				} else if string(p.Outputs[0].Data) != text {
					t.Errorf("%s answers %s", text, p.Outputs[0].Data)
					return
				}
			}
		})
	}
	wg.Wait()
	s := c.Stats()
	if s.Used > s.Size || s.Evictions == 0 || s.Hits == 0 || s.Lookups != 40000 || s.Hits+s.Misses != s.Lookups {
		t.Errorf("stats %+v", s)
	}
}

func BenchmarkHit(b *testing.B) {
	c, err := New(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	r := request(in("INPUT0", string(make([]byte, 64))))
	c.Insert(c.Key(1, r), 1, response(string(make([]byte, 64))))
	b.ReportAllocs()
	for b.Loop() {
		if find(c, c.Key(1, r)) == nil {
			b.Fatal("miss")
		}
	}
}
