package imports

import (
	"slices"
	"testing"
)

func TestLabelsOfMetadata(t *testing.T) {
	for text, want := range map[string][]string{
		`{0: 'person', 1: 'traffic light'}`: {"person", "traffic light"},
		`{0: "bob's", 1: 'say "hi"'}`:       {"bob's", `say "hi"`},
		`{"0": "a", "1": "b"}`:              {"a", "b"},
		`['a', 'it\'s', "c,d: {e}"]`:        {"a", "it's", "c,d: {e}"},
		`["caf\u00e9", 'two\nlines', 'ü',]`: {"café", "two lines", "ü"},
		`{1: 'a', 2: 'b'}`:                  nil, // not from 0
		`{'person': 0, 'car': 1}`:           nil,
		`[1, 2]`:                            nil,
		`['a' 'b']`:                         nil,
		`{0: 'a', 1: }`:                     nil,
		`{0: 'a'`:                           nil,
		`__import__('os')`:                  nil,
		``:                                  nil,
		`[]`:                                nil,
	} {
		if got := parseLabels(text); !slices.Equal(got, want) {
			t.Errorf("labels of %s = %q, want %q", text, got, want)
		}
	}
}

// FuzzLabels checks that no text leads to a panic, and that labels are lines.
func FuzzLabels(f *testing.F) {
	f.Add(`{0: 'person', 1: "b\n"}`)
	f.Add(`['a', '\'']`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range parseLabels(text) {
			for _, r := range l {
				if r == '\n' || r == '\r' {
					t.Errorf("label %q has several lines", l)
				}
			}
		}
	})
}
