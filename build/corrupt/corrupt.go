// Package corrupt makes broken copies of good inputs, for tests of decoders. It starts no goroutine.
package corrupt

import (
	"bytes"
	"math/rand/v2"
	"os"
)

// Count returns how many damaged inputs a test tries: few, or, in the soak run (NEREID_SOAK=full), many.
func Count(few, many int) int {
	if os.Getenv("NEREID_SOAK") == "full" {
		return many
	}
	return few
}

// Bytes returns a copy of seed with one to three changes: a bit flipped, a byte replaced, by preference by one that
// means something, a piece cut out, doubled, or taken from other.
func Bytes(rng *rand.Rand, seed, other []byte) []byte {
	b := bytes.Clone(seed)
	for range 1 + rng.IntN(3) {
		if len(b) == 0 {
			return append(b, byte(rng.Uint32()))
		}
		at := rng.IntN(len(b))
		end := at + rng.IntN(min(len(b)-at, 64)+1)
		switch rng.IntN(6) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			const telling = "\x00\xff\x80\x7f{}[]\":,\\-.0e19 \n#'<>"
			b[at] = telling[rng.IntN(len(telling))]
		case 2:
			b = append(b[:at], b[end:]...)
		case 3:
			b = append(b[:end:end], b[at:]...)
		case 4:
			from := rng.IntN(len(other) + 1)
			b = append(b[:at:at], append(bytes.Clone(other[from:min(len(other), from+64)]), b[at:]...)...)
		case 5:
			b = b[:at]
		}
	}
	return b
}
