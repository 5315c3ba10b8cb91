package tensor

import (
	"math"
	"testing"
)

// TestHalf compares every binary16 with arithmetic, and the rounding with the nearest of all binary16 values.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		f := Float16(h)
		exp, frac := int(h>>10&31), float64(h&0x3ff)
		want := math.Ldexp(1+frac/1024, exp-15)
		if exp == 0 {
			want = math.Ldexp(frac, -24)
		}
		if h&0x8000 != 0 {
			want = -want
		}
		switch {
		case exp == 31 && frac != 0:
			if f == f {
				t.Fatalf("Float16(%#x) = %v, want NaN", h, f)
			}
			if back := ToFloat16(f); back>>10&31 != 31 || back&0x3ff == 0 {
				t.Fatalf("ToFloat16(NaN) = %#x, want a NaN", back)
			}
			continue
		case exp == 31:
			want = math.Inf(1 - 2*int(h>>15))
		}
		if float64(f) != want || math.Signbit(float64(f)) != math.Signbit(want) {
			t.Fatalf("Float16(%#x) = %v, want %v", h, f, want)
		}
		if back := ToFloat16(f); back != h {
			t.Fatalf("ToFloat16(%v) = %#x, want %#x", f, back, h)
		}
		if exp < 30 && h&0x7fff < 0x7bff { // halfway to the next one: to the even
			mid := float32((float64(f) + float64(Float16(h+1))) / 2)
			even := h + h&1
			if got := ToFloat16(mid); got != even {
				t.Fatalf("ToFloat16(%v) = %#x, want %#x", mid, got, even)
			}
		}
	}
	for f, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, 1e9: 0x7c00, -1e9: 0xfc00, 1e-9: 0} {
		if got := ToFloat16(f); got != want {
			t.Errorf("ToFloat16(%v) = %#x, want %#x", f, got, want)
		}
	}
}

func TestBrainHalf(t *testing.T) {
	for h := range 1 << 16 {
		f := BFloat16(uint16(h))
		back := ToBFloat16(f)
		if f != f {
			if g := BFloat16(back); g == g {
				t.Fatalf("ToBFloat16(NaN) = %#x, want a NaN", back)
			}
		} else if back != uint16(h) {
			t.Fatalf("ToBFloat16(%v) = %#x, want %#x", f, back, h)
		}
	}
	for bits, want := range map[uint32]uint16{0x3f808000: 0x3f80, 0x3f818000: 0x3f82, 0x3f808001: 0x3f81,
		0x7f7fffff: 0x7f80} {
		if got := ToBFloat16(math.Float32frombits(bits)); got != want {
			t.Errorf("ToBFloat16(%#x) = %#x, want %#x", bits, got, want)
		}
	}
}
