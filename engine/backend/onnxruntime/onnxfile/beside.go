package onnxfile

import (
	"maps"
	"math"
	"os"
	"slices"
)

// Locations returns the locations of external data that the model file at path names, sorted. They need not exist, and
// may be any text. The error wraps ErrMalformed if the file is no protocol buffer.
func Locations(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	c := &checker{reader: reader{r: f, size: info.Size()}, info: Info{Ops: map[string]int{}},
		external: func(location string) (int64, error) {
			found[location] = true
			return math.MaxInt64, nil
		}}
	err = c.message(model, 0, c.size, 1)
	return slices.Sorted(maps.Keys(found)), err
}
