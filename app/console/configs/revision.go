package configs

import (
	"strings"

	"nereid/app/console/api"
	"nereid/store"
)

// apiRevision returns a revision as the console's interface shows it.
func apiRevision(r store.Revision) api.Revision {
	out := api.Revision{ID: r.ID, Model: r.Model, TMs: r.TimeUS / 1000, Source: r.Source, Restores: r.Restores,
		Outcome: api.SaveOutcome(r.Outcome), Reason: r.Reason}
	if out.Outcome == "" { // the process ended before it was known
		out.Outcome = api.SaveSaved
	}
	out.Added, out.Removed = countLines(r.Before, r.After)
	return out
}

// countLines counts the lines that a change adds and removes, as a diff shows them.
func countLines(before, after *string) (added, removed int) {
	a, b := lines(before), lines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	const most = 4 << 20 // entries of the table below
	if len(a)*len(b) > most {
		return len(b), len(a)
	}
	// The longest common subsequence, one row of the table at a time.
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	same := row[len(b)]
	return len(b) - same, len(a) - same
}

func lines(text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(*text, "\n"), "\n")
}
