package client

import (
	"slices"
	"strconv"
	"testing"
)

// The client never reads beyond the bytes of a response.
func FuzzDecodeHTTP(f *testing.F) {
	f.Add([]byte(`{"model_name":"m","model_version":"1","outputs":[{"name":"O","datatype":"FP32","shape":[1],`+
		`"parameters":{"binary_data_size":4}}]}`), []byte("abcd"))
	f.Add([]byte(`{"outputs":[{"name":"O","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}]}`),
		[]byte("\x01\x00\x00\x00a"))
	f.Add([]byte(`{"parameters":{"a":1,"b":1e400,"c":"x"},"outputs":[{"parameters":{"shared_memory_region":"r",`+
		`"shared_memory_byte_size":9}}]}`), []byte{})
	f.Add([]byte(`{"outputs":[{"name":"O","datatype":"FP32","shape":[2],"data":[1,2.5]}]}`), []byte{})
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		r, err := DecodeHTTP(&Request{}, slices.Concat(head, tail), strconv.Itoa(len(head)))
		if err != nil {
			return // an error is fine
		}
		n := 0
		for i := range r.Outputs {
			o := &r.Outputs[i]
			n += len(o.Data)
			if s, err := StringValues(o); err == nil && len(s) > len(o.Data) {
				t.Errorf("%d strings out of %d bytes", len(s), len(o.Data))
			}
			if v, err := Values[float32](o); err == nil && 4*len(v) != len(o.Data) {
				t.Errorf("%d numbers out of %d bytes", len(v), len(o.Data))
			}
		}
		if n < len(tail) { // outputs in JSON have more
			t.Errorf("the outputs have %d bytes of %d", n, len(tail))
		}
	})
}
