package get

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"nereid/engine/tensor"
)

// galleryFile lists models, one a line. docs/models.md says how to add one.
//
//go:embed gallery.json
var galleryFile []byte

// galleryEntry is a model of the gallery.
type galleryEntry struct {
	Name    string `json:"name"`
	For     string `json:"for"`
	License string `json:"license"` // SPDX
	Bytes   int64  `json:"bytes"`   // of the model file
	Source  string `json:"source"`
	// Tried reports whether the model was fetched, served, and compared with ONNX Runtime.
	Tried   bool   `json:"tried"`
	Note    string `json:"note,omitempty"`
	Example struct {
		Inputs []galleryInput `json:"inputs"`
	} `json:"example"`
}

// galleryInput is an input whose elements are all Fill.
type galleryInput struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	Fill     float64 `json:"fill"`
}

// gallery returns the models of the gallery.
func gallery() (all []galleryEntry, err error) {
	return all, json.Unmarshal(galleryFile, &all)
}

// addExample writes the example of a gallery's source into a model's folder, as a saved request of the GUI. It does
// nothing for other sources.
func addExample(source, dir string) error {
	all, err := gallery()
	at := slices.IndexFunc(all, func(e galleryEntry) bool { return e.Source == source })
	if err != nil || at < 0 {
		return err
	}
	type input struct {
		Name     string    `json:"name"`
		Datatype string    `json:"datatype"`
		Shape    []int64   `json:"shape"`
		Data     []float64 `json:"data"`
	}
	request := struct {
		Name   string  `json:"name"`
		Inputs []input `json:"inputs"`
	}{Name: "example"}
	for _, in := range all[at].Example.Inputs {
		n, err := tensor.Elements(in.Shape)
		if err != nil {
			return err
		}
		request.Inputs = append(request.Inputs, input{in.Name, in.Datatype, in.Shape,
			slices.Repeat([]float64{in.Fill}, int(n))})
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, "requests")
	return errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "example.json"), text, 0o644))
}

// printGallery prints the models of the gallery, as a table or as JSON.
func (o *getter) printGallery(w io.Writer) error {
	if o.asJSON {
		_, err := w.Write(galleryFile)
		return err
	}
	all, err := gallery()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range all {
		what := m.For
		if !m.Tried {
			what += " (not tried)"
		}
		fmt.Fprintf(t, "%s\t%.1f MB\t%s\t%s\n\t\t\tnereid get -r FOLDER --name=%s %s\n", m.Name,
			float64(m.Bytes)/1e6, m.License, what, m.Name, m.Source)
	}
	return t.Flush()
}
