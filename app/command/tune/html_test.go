package tunecmd

import (
	"strings"
	"testing"
)

// TestTuneReportEscapes puts texts that came from models and files into a report, which are text and never markup
// there.
func TestTuneReportEscapes(t *testing.T) {
	const hostile = `<script>"x"&'y'</script>`
	p := page{
		Model: hostile, Goal: hostile, When: hostile, Why: []string{hostile}, Steps: []string{hostile},
		Failed: []string{hostile}, GPUs: true,
		Rows: []tableRow{{hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile}},
		Speed: &plot{X: hostile, Y: hostile, Points: []dot{{1, 2, hostile, hostile}},
			Lines: []tickLine{{1, hostile, "x"}, {1, hostile, "y"}}}, Memory: &plot{},
	}
	var b strings.Builder
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script") || strings.Contains(b.String(), `"x"`) ||
		strings.Contains(b.String(), "'y'") {
		t.Errorf("a text became markup:\n%s", b.String())
	}
	// The model twice, five texts of the page, ten in a row; in the plot the axes twice each, a point's two and two
	// lines'.
	if n := strings.Count(b.String(), "&lt;script&gt;"); n != 2+5+10+4+2+2 {
		t.Errorf("%d texts are in the report:\n%s", n, b.String())
	}
}
