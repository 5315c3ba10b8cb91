package frames

import (
	"encoding/json"
	"math"
	"strconv"
)

// Float is a number in a call or its reply. JSON has no infinities and no NaN: they are strings.
type Float float64

// MarshalJSON writes a number, or "+Inf", "-Inf" or "NaN".
func (f Float) MarshalJSON() ([]byte, error) {
	v := float64(f)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return json.Marshal(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads a number, or a string that names one: also "inf" and "nan", as Python writes them.
func (f *Float) UnmarshalJSON(b []byte) error {
	text := string(b)
	if b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	*f = Float(v)
	return err
}

// Floats returns the numbers of all.
func Floats(all []Float) []float64 {
	numbers := make([]float64, len(all))
	for i, f := range all {
		numbers[i] = float64(f)
	}
	return numbers
}
