package logging

import (
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tableKey marks a record whose message is a table. The handler writes it unquoted, after a line break.
const tableKey = "nereid.table"

// Table logs rows as a table, as Triton does at its start. The first row is the header.
func Table(log *slog.Logger, rows [][]string) {
	log.Info(strings.TrimSuffix(renderTable(rows), "\n"), tableKey, true)
}

// renderTable draws rows under a header. Line breaks in a cell become spaces, and other control characters are escaped,
// because names and reasons come from files.
func renderTable(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = visible(strings.Join(strings.Fields(row[i]), " "))
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	line := func() {
		for _, w := range widths {
			b.WriteString("+" + strings.Repeat("-", w+2))
		}
		b.WriteString("+\n")
	}
	line()
	for n, row := range rows {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + " ")
		}
		b.WriteString("|\n")
		if n == 0 {
			line()
		}
	}
	line()
	return b.String()
}

// visible escapes characters that cannot be printed, as Go does in quotes.
func visible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		q := strconv.Quote(s)
		return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	}
	return s
}
