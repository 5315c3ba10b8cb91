package tensorjson

import (
	"math"
	"math/bits"
)

// The digits of doubles are made by the Grisu2 algorithm (F. Loitsch, "Printing Floating-Point Numbers Quickly and
// Accurately with Integers", 2010), as in Triton. They always read back as the same double. As in Triton, the last
// digit is not adjusted if a number needs 9 or more digits after the first ten: 3.4e38 as FP32 is
// 3.3999999521443644e38. strconv would choose the closest digit.

// floating is a number f * 2^e.
type floating struct {
	f uint64
	e int
}

// times multiplies and rounds to 64 bits.
func (x floating) times(y floating) floating {
	hi, lo := bits.Mul64(x.f, y.f)
	return floating{hi + lo>>63, x.e + y.e + 64}
}

// normal shifts the highest bit to the top.
func (x floating) normal() floating {
	n := bits.LeadingZeros64(x.f)
	return floating{x.f << n, x.e - n}
}

const (
	significandBits = 52
	hiddenBit       = 1 << significandBits
	exponentBias    = 1023 + significandBits
)

// shortestDigits writes the digits of v > 0 to the front of buf, which needs 17 bytes or more, and returns their number
// n: v is 0.d1d2…dn * 10^point.
func shortestDigits(buf []byte, v float64) (n, point int) {
	raw := math.Float64bits(v)
	w := floating{raw & (hiddenBit - 1), int(raw >> significandBits & 0x7ff)}
	if w.e != 0 {
		w.f |= hiddenBit
		w.e -= exponentBias
	} else {
		w.e = 1 - exponentBias
	}
	// The middles between v and the doubles above and below, with the same exponent.
	high := floating{w.f<<1 + 1, w.e - 1}.normal()
	low := floating{w.f<<1 - 1, w.e - 1}
	if w.f == hiddenBit {
		low = floating{w.f<<2 - 1, w.e - 2}
	}
	low = floating{low.f << (low.e - high.e), high.e}

	power, exp := cachedPower(high.e)
	top, bottom := high.times(power), low.times(power)
	top.f--
	bottom.f++
	return generate(buf, w.normal().times(power), top, top.f-bottom.f, exp)
}

// cachedPower returns a power of ten whose product with a number of binary exponent e has an exponent of about -61. exp
// is the negated decimal exponent of the power.
func cachedPower(e int) (p floating, exp int) {
	dk := float64(-61-e)*0.30102999566398114 + 347
	k := int(dk)
	if dk-float64(k) > 0 {
		k++
	}
	i := k>>3 + 1
	return floating{cachedPowers[i].f, int(cachedPowers[i].e)}, 348 - i<<3
}

var uintPow10 = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// generate writes digits of top until the rest is at most delta, then adjusts the last one towards w.
func generate(buf []byte, w, top floating, delta uint64, exp int) (n, point int) {
	shift := uint(-top.e)
	one := uint64(1) << shift
	gap := top.f - w.f
	whole, part := uint32(top.f>>shift), top.f&(one-1)
	kappa := 1
	for kappa < 10 && uint64(whole) >= uintPow10[kappa] {
		kappa++
	}
	for kappa > 0 {
		kappa--
		d := whole / uint32(uintPow10[kappa])
		whole %= uint32(uintPow10[kappa])
		if d != 0 || n != 0 {
			buf[n] = '0' + byte(d)
			n++
		}
		if rest := uint64(whole)<<shift + part; rest <= delta {
			approach(buf[n-1:], delta, rest, uintPow10[kappa]<<shift, gap)
			return n, n + exp + kappa
		}
	}
	for {
		part *= 10
		delta *= 10
		if d := byte(part >> shift); d != 0 || n != 0 {
			buf[n] = '0' + d
			n++
		}
		part &= one - 1
		kappa--
		if part < delta {
			// Numbers with many digits are not adjusted: see above.
			scale := uint64(0)
			if -kappa < 9 {
				scale = uintPow10[-kappa]
			}
			approach(buf[n-1:], delta, part, one, gap*scale)
			return n, n + exp + kappa
		}
	}
}

// approach lowers the last digit while that brings the number closer to the exact one.
func approach(last []byte, delta, rest, unit, gap uint64) {
	for rest < gap && delta-rest >= unit && (rest+unit < gap || gap-rest > rest+unit-gap) {
		last[0]--
		rest += unit
	}
}
