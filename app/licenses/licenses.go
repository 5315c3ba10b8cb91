package licenses

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for packed
	"fmt"
	"io"
)

//go:embed licenses.txt.gz
var packed []byte

// Write writes the licences as text: for each a line that begins with "== " and names the software, then the licence.
func Write(w io.Writer) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("licences: %w", err)
	}
	_, err = io.Copy(w, r) // the text is in the program, so its size is known
	return err
}
