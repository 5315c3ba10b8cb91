package onnxfile

import (
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxDepth is the deepest nesting of messages, the limit of Google's parsers.
const maxDepth = 100

// Info describes a checked model.
type Info struct {
	// Elements is the number of elements of all constant tensors: the weights.
	Elements int64
	// Ops counts the operators by type, including those of subgraphs and functions.
	Ops map[string]int
	// External reports whether constants are in other files.
	External bool
	// InputRank is the highest rank of an input.
	InputRank int
	// Dangers are the operators that may crash the process because of a client's values.
	Dangers []Danger
	// NoEmpty is an operator that may abort or hang the process because of a tensor without elements, "" if there is
	// none.
	NoEmpty string
}

// Check reads the model file at path. Its external data must be inside folder, which contains the model file, after
// symbolic links are resolved. The error names the tensor; it wraps ErrMalformed if the file is no protocol buffer.
// Check ignores unknown fields: a file that passes need not be a valid model.
func Check(path, folder string) (*Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c := &checker{reader: reader{r: f, size: info.Size()}, info: Info{Ops: map[string]int{}},
		external: func(location string) (int64, error) {
			return externalSize(filepath.Dir(path), folder, location)
		}}
	if err := c.message(model, 0, c.size, 1); err != nil {
		return nil, err
	}
	if err := c.dangers(); err != nil {
		return nil, err
	}
	return &c.info, nil
}

type checker struct {
	reader
	info     Info
	external func(location string) (int64, error) // the size of a file of external data
	sizes    map[string]int64                     // results of external
	version  uint64                               // of the file's intermediate representation
}

// kind is a kind of message or field that the checker reads.
type kind int

const (
	model kind = iota
	graph
	training
	function
	node
	attribute
	sparse
	input
	typeMessage
	tensorType
	shapeMessage
	opType
	tensorMessage
)

// follow lists the fields of each kind of message that are read, by number.
var follow = [...]map[int]kind{
	model:       {7: graph, 20: training, 25: function},
	training:    {1: graph, 2: graph},
	function:    {7: node, 11: attribute},
	graph:       {1: node, 5: tensorMessage, 11: input, 15: sparse},
	node:        {4: opType, 5: attribute},
	attribute:   {5: tensorMessage, 6: graph, 10: tensorMessage, 11: graph, 22: sparse, 23: sparse},
	input:       {2: typeMessage},
	typeMessage: {1: tensorType},
	tensorType:  {2: shapeMessage},
	sparse:      {1: tensorMessage, 2: tensorMessage},
}

func (c *checker) message(k kind, off, end int64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: messages nest deeper than %d at byte %d", ErrMalformed, maxDepth, off)
	}
	return c.fields(off, end, func(f field) error {
		k, ok := follow[k][f.number]
		if !ok || f.wire != 2 {
			return nil
		}
		switch k {
		case shapeMessage:
			return c.rank(f)
		case opType:
			return c.op(f)
		case tensorMessage:
			return c.tensor(f.off, f.end)
		}
		return c.message(k, f.off, f.end, depth+1)
	})
}

// rank records the number of dimensions of an input.
func (c *checker) rank(at field) error {
	n := 0
	err := c.fields(at.off, at.end, func(f field) error {
		if f.number == 1 && f.wire == 2 {
			n++
		}
		return nil
	})
	c.info.InputRank = max(c.info.InputRank, n)
	return err
}

func (c *checker) op(f field) error {
	name, err := c.text(f, 4096)
	if err == nil {
		c.info.Ops[name]++
	}
	return err
}

// elementBits is the size of an element in bits by TensorProto.DataType, 0 for strings and unknown types.
var elementBits = [...]uint64{
	1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16,
	17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
}

const stringType = 8

// tensorInfo contains the declarations of a TensorProto.
type tensorInfo struct {
	name     string
	dims     []int64
	dtype    uint64
	raw      int64 // size of raw_data in bytes, -1 if there is none
	listed   int64 // upper bound of the numbers in the typed lists
	external bool
	entries  map[string]string // of external_data
}

func (c *checker) tensor(off, end int64) error {
	t := tensorInfo{raw: -1}
	err := c.fields(off, end, func(f field) error { return c.tensorField(&t, f) })
	if err != nil {
		return err
	}
	if err := c.tensorData(&t); err != nil {
		return fmt.Errorf("tensor %q: %w", t.name, err)
	}
	return nil
}

func (c *checker) tensorField(t *tensorInfo, f field) (err error) {
	switch {
	case f.number == 1 && f.wire == 0:
		return t.addDim(f.value)
	case f.number == 1 && f.wire == 2:
		for off := f.off; off < f.end && err == nil; {
			var v uint64
			if v, off, err = c.varint(off, f.end); err == nil {
				err = t.addDim(v)
			}
		}
		return err
	case f.number == 2 && f.wire == 0:
		t.dtype = f.value
	case f.number == 8 && f.wire == 2:
		t.name, err = c.text(f, 64<<10)
	case f.number == 9 && f.wire == 2:
		t.raw = f.end - f.off
	case f.number == 14 && f.wire == 0:
		t.external = f.value == 1
	case f.number == 13 && f.wire == 2:
		return c.entry(t, f)
	case f.number == 6 && f.wire == 2: // one element of string_data
		t.listed++
	case f.number == 4 || f.number == 5 || f.number == 7 || f.number == 10 || f.number == 11:
		if f.wire != 2 {
			t.listed++
			break
		}
		each := int64(1) // a varint has at least one byte
		switch f.number {
		case 4:
			each = 4
		case 10:
			each = 8
		}
		t.listed += (f.end - f.off) / each
	}
	return err
}

// maxRank is the highest rank of a tensor. Runtimes accept far less.
const maxRank = 1024

func (t *tensorInfo) addDim(v uint64) error {
	if len(t.dims) == maxRank {
		return fmt.Errorf("a tensor with over %d dimensions", maxRank)
	}
	t.dims = append(t.dims, int64(v))
	return nil
}

// entry reads one StringStringEntryProto of external_data.
func (c *checker) entry(t *tensorInfo, at field) error {
	var key, value string
	err := c.fields(at.off, at.end, func(f field) (err error) {
		switch {
		case f.number == 1 && f.wire == 2:
			key, err = c.text(f, 4096)
		case f.number == 2 && f.wire == 2:
			value, err = c.text(f, 4096)
		}
		return err
	})
	if err != nil {
		return err
	}
	if t.entries == nil {
		t.entries = map[string]string{}
	}
	t.entries[key] = value
	return nil
}

// elements returns the product of the dimensions.
func (t *tensorInfo) elements() (uint64, error) {
	n, zero := uint64(1), false
	for _, d := range t.dims {
		if d < 0 {
			return 0, fmt.Errorf("it has the dimension %d", d)
		}
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64/128 {
			return 0, fmt.Errorf("its shape %v has more elements than can be", t.dims)
		}
		n = lo
	}
	if zero {
		return 0, nil
	}
	return n, nil
}

// tensorData checks that a tensor has the data that it declares.
func (c *checker) tensorData(t *tensorInfo) error {
	count, err := t.elements()
	if err != nil {
		return err
	}
	if sum := c.info.Elements + int64(count); sum >= c.info.Elements {
		c.info.Elements = sum
	}
	per := uint64(0)
	if t.dtype < uint64(len(elementBits)) {
		per = elementBits[t.dtype]
	}
	need := (count*per + 7) / 8
	switch {
	case t.external:
		c.info.External = true
		return c.externalData(t, need)
	case t.raw >= 0 && t.dtype != stringType:
		if need > uint64(t.raw) {
			return fmt.Errorf("its shape %v needs %d bytes, the file has %d", t.dims, need, t.raw)
		}
	case per != 0 || t.dtype == stringType:
		packed := uint64(1) // elements per number in a list
		if per != 0 && per < 8 {
			packed = 8 / per
		}
		if count > uint64(t.listed)*packed {
			return fmt.Errorf("its shape %v has %d elements, the file has at most %d", t.dims, count,
				uint64(t.listed)*packed)
		}
	}
	return nil
}

func (c *checker) externalData(t *tensorInfo, need uint64) error {
	location := t.entries["location"]
	size, ok := c.sizes[location]
	if !ok {
		var err error
		if size, err = c.external(location); err != nil {
			return err
		}
		if c.sizes == nil {
			c.sizes = map[string]int64{}
		}
		c.sizes[location] = size
	}
	var offset, length uint64
	var err error
	if v := t.entries["offset"]; v != "" {
		if offset, err = strconv.ParseUint(v, 10, 63); err != nil {
			return fmt.Errorf("the offset %q of its external data is no number", v)
		}
	}
	if v := t.entries["length"]; v != "" {
		if length, err = strconv.ParseUint(v, 10, 63); err != nil {
			return fmt.Errorf("the length %q of its external data is no number", v)
		}
	}
	if end := offset + max(length, need); end > uint64(size) {
		return fmt.Errorf("its external data ends at byte %d of %q, which has %d bytes", end, location, size)
	}
	return nil
}

// externalSize returns the size of a file of external data. It must be a regular file inside folder.
func externalSize(beside, folder, location string) (int64, error) {
	if location == "" {
		return 0, fmt.Errorf("its external data has no location")
	}
	if !filepath.IsLocal(location) {
		return 0, fmt.Errorf(
			"its external data %q is outside the model's folder; the location must be a relative path without \"..\"",
			location)
	}
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return 0, err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(beside, location))
	if err != nil {
		if os.IsNotExist(err) {
			return 0, fmt.Errorf("its external data %q is missing: %w", location, fs.ErrNotExist)
		}
		return 0, err
	}
	if rel, err := filepath.Rel(root, path); err != nil || rel == ".." ||
		strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return 0, fmt.Errorf("its external data %q leads outside the model's folder through a symbolic link", location)
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("its external data %q is not a regular file", location)
	}
	return info.Size(), nil
}
