package builtin

import "math"

// bf16to32 widens a bfloat16: the upper half of a float32.
func bf16to32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// fp32tobf16 rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
func fp32tobf16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// fp32to16 rounds to nearest, ties to even; values that are too large become infinity, a NaN stays a (quiet) NaN.
func fp32to16(f float32) uint16 {
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
