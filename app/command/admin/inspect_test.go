package admin

import (
	"strings"
	"testing"

	"nereid/app/console/api"
)

// A file from elsewhere may have any name in it.
func TestInspectionDoesNotControlTheTerminal(t *testing.T) {
	var b strings.Builder
	x := &api.Inspection{Producer: "a\x1b[2Jb", Inputs: api.List[api.FilePort]{{Name: "x\ty\u009b1m"}}}
	if err := printInspection(&b, x); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsAny(text, "\x1b\u009b\t") || !strings.Contains(text, "a?[2Jb") {
		t.Errorf("%q", text)
	}
}
