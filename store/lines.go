package store

import "strings"

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

// linesAdded is countLines as a function of SQL: how many lines the second text has that the first one lacks. NULL is
// no text.
func linesAdded(before, after any) int {
	text := func(v any) *string {
		if s, ok := v.(string); ok {
			return &s
		}
		return nil
	}
	added, _ := countLines(text(before), text(after))
	return added
}
