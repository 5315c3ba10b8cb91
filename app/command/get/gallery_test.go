package get

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nereid/engine/repo"
	"nereid/engine/tensor"
)

// Each model of the gallery has a name, a use, a licence, a size, a pinned source and a complete example.
func TestTheGalleryIsComplete(t *testing.T) {
	d := json.NewDecoder(bytes.NewReader(galleryFile))
	d.DisallowUnknownFields()
	var all []galleryEntry
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Errorf("it has %d models", len(all))
	}
	spdx := regexp.MustCompile(`^[A-Za-z0-9.+-]+$`)
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
		if repo.CheckName(m.Name) != nil || m.For == "" || !spdx.MatchString(m.License) || m.Bytes <= 0 ||
			!m.Tried && m.Note == "" || len(m.Example.Inputs) == 0 {
			t.Errorf("%+v is not complete", m)
		}
		what, file, _ := strings.Cut(strings.TrimPrefix(m.Source, "pypi:"), "/")
		_, err := parseHub(m.Source)
		isHub := strings.HasPrefix(m.Source, "hf:") && err == nil
		pinned := packageName.MatchString(what) && strings.Contains(what, "==") && strings.HasSuffix(file, ".onnx")
		if !isHub && !pinned {
			t.Errorf("%s has the source %s", m.Name, m.Source)
		}
		for _, in := range m.Example.Inputs {
			if in.Name == "" || tensor.ParseDataType(in.Datatype) == tensor.Invalid || in.Shape == nil ||
				slices.ContainsFunc(in.Shape, func(d int64) bool { return d < 1 }) {
				t.Errorf("%s has the input %+v", m.Name, in)
			}
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(all) {
		t.Error("a name is there twice")
	}
}

// A model of the gallery brings its example, which "Try it" offers as a saved request.
func TestAModelOfTheGalleryBringsItsExample(t *testing.T) {
	all, err := gallery()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		dir := t.TempDir()
		if err := addExample(m.Source, dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "requests", "example.json"))
		if err != nil {
			t.Fatal(err)
		}
		var request struct {
			Inputs []struct {
				galleryInput
				Data []float64 `json:"data"`
			} `json:"inputs"`
		}
		if err := json.Unmarshal(text, &request); err != nil || len(request.Inputs) != len(m.Example.Inputs) ||
			len(text) > 4<<20 { // the limit of a saved request
			t.Errorf("%s: %d bytes, %v", m.Name, len(text), err)
		}
		for i, in := range request.Inputs {
			want := m.Example.Inputs[i]
			if n, err := tensor.Elements(want.Shape); err != nil || in.Name != want.Name ||
				in.Datatype != want.Datatype || int64(len(in.Data)) != n || in.Data[0] != want.Fill {
				t.Errorf("%s: %+v with %d numbers, %v; want %+v", m.Name, in.galleryInput, len(in.Data), err, want)
			}
		}
	}
	dir := t.TempDir()
	if err := addExample("pypi:other==1", dir); err != nil || len(entries(t, dir)) > 0 {
		t.Errorf("another source: %v, %v", err, entries(t, dir))
	}
}

func TestTheGalleryIsPrinted(t *testing.T) {
	status, text := runIn(t.Context(), nil, "--gallery")
	if status != 0 || !strings.Contains(text, "nereid get -r FOLDER --name=magika pypi:magika==") ||
		!strings.Contains(text, "(not tried)") {
		t.Errorf("status %d: %s", status, text)
	}
	status, text = runIn(t.Context(), nil, "--gallery", "--json")
	var all []galleryEntry
	if err := json.Unmarshal([]byte(text), &all); status != 0 || err != nil || len(all) < 20 {
		t.Errorf("status %d, %v: %s", status, err, text)
	}
}
