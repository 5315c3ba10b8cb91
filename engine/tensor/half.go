package tensor

import "math"

// Float16 returns the value of an IEEE 754 binary16, which a float32 can hold.
func Float16(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24
		return math.Float32frombits(math.Float32bits(float32(frac)*0x1p-24) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// BFloat16 widens a bfloat16: the upper half of a float32.
func BFloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBFloat16 rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
func ToBFloat16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// ToFloat16 rounds to nearest, ties to even; values that are too large become infinity, a NaN stays a (quiet) NaN.
func ToFloat16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00 | uint16(u>>13&0x3ff)
	case u >= 0x47800000: // 2^16 and more; 65520..2^16 carries into infinity below
		return sign | 0x7c00
	case u < 0x38800000: // below 2^-14: the sum lies where float32 has steps of 2^-24, so the addition rounds
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((u-0x38000000+0xfff+u>>13&1)>>13)
}
