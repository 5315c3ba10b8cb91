package convert

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"nereid/app/console/api"
)

// differs describes an output that differs too much, "" if there is none. Numbers may differ by the tolerance. Labels
// of an output without numbers must be the same. At a low precision, 99 % of the labels must be the same, also beside
// numbers.
func differs(r *api.ParityReport, tolerance float64) string {
	for _, t := range r.Outputs {
		switch {
		case t.Same != nil && *t.Same < t.Rows && t.Error == nil, r.Low && t.Same != nil && *t.Same*100 < t.Rows*99:
			return fmt.Sprintf("%d of %d labels of the output %s differ", t.Rows-*t.Same, t.Rows, t.Output)
		case t.Error != nil && !(*t.Error <= tolerance): // also NaN
			return fmt.Sprintf("numbers of the output %s differ by up to %.3g, and the tolerance is %g", t.Output,
				*t.Error, tolerance)
		}
	}
	return ""
}

// printReport prints the report for people.
func printReport(out io.Writer, r *api.ParityReport) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	rows := "made"
	if !r.Made {
		rows = "given"
	}
	fmt.Fprintf(w, "%s, compared on %d rows that were %s\n", r.Framework, r.Rows, rows)
	fmt.Fprintln(w, "OUTPUT\tMAX ABS\tMAX REL\tSAME LABEL\tSAME FIVE BEST")
	for _, t := range r.Outputs {
		cells := []string{t.Output, "", "", "", ""}
		if t.MaxAbs != nil && t.MaxRel != nil {
			cells[1], cells[2] = fmt.Sprintf("%.3g", *t.MaxAbs), fmt.Sprintf("%.3g", *t.MaxRel)
		}
		if t.Same != nil {
			cells[3] = fmt.Sprintf("%d of %d", *t.Same, t.Rows)
		}
		if t.SameFive != nil {
			cells[4] = fmt.Sprintf("%d of %d", *t.SameFive, t.Rows)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	fmt.Fprintf(w, "size %d bytes → %d; one row %.3f ms → %.3f ms (%s, one thread)\n", r.BytesBefore, r.BytesAfter,
		r.MsBefore, r.MsAfter, r.Provider)
	if r.MsAfter > 1.5*r.MsBefore {
		fmt.Fprintln(w, "it is slower than before on this processor")
	}
	return w.Flush()
}
