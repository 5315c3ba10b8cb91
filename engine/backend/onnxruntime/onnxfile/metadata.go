package onnxfile

import (
	"os"
)

const (
	metadataProps = 14      // of ModelProto: pairs of a key and a value
	maxProperty   = 1 << 20 // bytes of a key or a value; larger ones are left out
	maxProperties = 1000
)

// Metadata returns the properties that the exporter of the model file at path wrote into it. Properties with more than
// a mebibyte are left out. The error wraps ErrMalformed if the file is no protocol buffer.
func Metadata(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &reader{r: f, size: info.Size()}
	out := map[string]string{}
	err = r.fields(0, r.size, func(prop field) error {
		if prop.number != metadataProps || prop.wire != 2 || len(out) >= maxProperties {
			return nil
		}
		var pair [2]string
		err := r.fields(prop.off, prop.end, func(part field) (err error) {
			if n := part.number; (n == 1 || n == 2) && part.wire == 2 && part.end-part.off <= maxProperty {
				pair[n-1], err = r.text(part, maxProperty)
			}
			return err
		})
		out[pair[0]] = pair[1]
		return err
	})
	return out, err
}
