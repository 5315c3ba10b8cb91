package capture

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// savedTensor is an input of a saved request, with the bytes of the protocol's binary form.
type savedTensor struct {
	Name     string  `json:"name"`
	DataType string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	B64      string  `json:"b64"`
}

// WriteSaved writes the newest captured requests of a model, at most n, into a folder as saved requests, without their
// parameters. root is the folder of the captures; a server may be writing into it. Requests that failed, and those of
// which an input was left out, are not written. It returns how many were.
func WriteSaved(root, model, to string, n int) (written int, err error) {
	all := folders{root: root}
	d, err := all.of(model)
	if err != nil {
		return 0, err
	}
	for _, f := range slices.Backward(d.files) {
		if written == n {
			break
		}
		var c Contents
		text, err := os.ReadFile(d.file(f.id))
		if err != nil || json.Unmarshal(text, &c) != nil {
			continue // it was removed meanwhile, or is not complete yet
		}
		out := struct {
			Inputs []savedTensor `json:"inputs"`
		}{}
		for _, t := range c.Inputs {
			if t.LeftOut == "" {
				out.Inputs = append(out.Inputs, savedTensor{t.Name, t.DataType, t.Shape,
					base64.StdEncoding.EncodeToString(t.Data)})
			}
		}
		if c.Error != "" || c.ErrorLeftOut != "" || len(out.Inputs) == 0 || len(out.Inputs) < len(c.Inputs) {
			continue
		}
		if text, err = json.Marshal(out); err != nil {
			return written, err
		}
		path := filepath.Join(to, strconv.FormatInt(f.id, 10)+ext)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return written, fmt.Errorf("captured requests cannot be copied: %w", err)
		}
		written++
	}
	return written, nil
}
