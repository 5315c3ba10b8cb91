package terminal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// The format is numpy.lib.format, versions 1 to 3.
const npyMagic = "\x93NUMPY"

var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([<>|=])([a-zA-Z])(\d+)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*True`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([\d,\sL]*)\)`)
)

// npyTypes are numpy's names of data types. FP16 is f2; there is none for BF16.
var npyTypes = map[string]tensor.DataType{
	"b1": tensor.Bool, "u1": tensor.Uint8, "u2": tensor.Uint16, "u4": tensor.Uint32, "u8": tensor.Uint64,
	"i1": tensor.Int8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"f2": tensor.FP16, "f4": tensor.FP32, "f8": tensor.FP64,
}

// decodeNPY reads an array: numbers, or strings of type S or U, which become BYTES.
func decodeNPY(b []byte) (t client.Tensor, err error) {
	if len(b) < 12 || string(b[:6]) != npyMagic {
		return t, errors.New("this is no .npy file")
	}
	start, n := 10, int(binary.LittleEndian.Uint16(b[8:]))
	if b[6] > 1 {
		start, n = 12, int(binary.LittleEndian.Uint32(b[8:]))
	}
	if n > len(b)-start {
		return t, errors.New("the header of the .npy file is cut")
	}
	header, data := string(b[start:start+n]), b[start+n:]
	descr, dims := npyDescr.FindStringSubmatch(header), npyShape.FindStringSubmatch(header)
	switch {
	case descr == nil || dims == nil:
		return t, fmt.Errorf("the .npy file has the header %.200q; want an array of numbers or strings", header)
	case descr[1] == ">":
		return t, errors.New("the .npy file is big-endian; convert it with astype")
	case npyFortran.MatchString(header):
		return t, errors.New("the .npy file is in Fortran's order; save numpy.ascontiguousarray of it")
	}
	t.Shape = []int64{}
	for d := range strings.SplitSeq(dims[1], ",") {
		if d = strings.Trim(d, " L\n"); d == "" {
			continue
		}
		v, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			return t, fmt.Errorf("the .npy file has the dimension %q", d)
		}
		t.Shape = append(t.Shape, v)
	}
	count, err := tensor.Elements(t.Shape)
	if err != nil {
		return t, err
	}
	width, err := strconv.Atoi(descr[3])
	if err != nil || width > 1<<30 {
		return t, fmt.Errorf("the .npy file has elements of %s bytes", descr[3])
	}
	return npyElements(t, descr[2], width, count, data)
}

// npyElements sets the elements of t: count of a kind of numpy with a width.
func npyElements(t client.Tensor, kind string, width int, count int64, data []byte) (client.Tensor, error) {
	if kind == "U" {
		width *= 4
	}
	if width == 0 && count > 0 || int64(len(data)) != count*int64(width) {
		return t, fmt.Errorf("the .npy file has %d bytes of data for %d elements of %d bytes", len(data), count, width)
	}
	switch kind {
	case "S", "U":
		t.DataType, t.Data = tensor.Bytes, []byte{}
		for e := range slices.Chunk(data, max(1, width)) {
			text := strings.TrimRight(string(e), "\x00")
			if kind == "U" {
				var runes []rune
				for c := range slices.Chunk(e, 4) {
					runes = append(runes, rune(binary.LittleEndian.Uint32(c)))
				}
				text = strings.TrimRight(string(runes), "\x00")
			}
			t.Data = tensor.AppendBytesElement(t.Data, text)
		}
		return t, nil
	}
	dt, ok := npyTypes[kind+strconv.Itoa(width)]
	if !ok {
		return t, fmt.Errorf("the .npy file has elements of type %s%d, which the protocol lacks", kind, width)
	}
	t.DataType, t.Data = dt, data
	return t, nil
}

// encodeNPY returns an array of numbers as a .npy file.
func encodeNPY(t *client.Tensor) ([]byte, error) {
	descr := ""
	for name, dt := range npyTypes {
		if dt == t.DataType {
			descr = "<" + name
		}
	}
	if descr == "" {
		return nil, fmt.Errorf("numpy has no type for %v; write a .json file", t.DataType)
	}
	if t.DataType.Size() == 1 {
		descr = "|" + descr[1:]
	}
	dims := ""
	for _, d := range t.Shape {
		dims += strconv.FormatInt(d, 10) + ", "
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr,
		strings.TrimRight(dims, " "))
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	b := binary.LittleEndian.AppendUint16([]byte(npyMagic+"\x01\x00"), uint16(len(header)))
	return append(append(b, header...), t.Data...), nil
}
