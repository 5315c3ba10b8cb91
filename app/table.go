package app

import (
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"

	"nereid/engine"
	"nereid/engine/agent"
)

// renderTable draws rows under a header as Triton does in its log. Line breaks in a cell become spaces, other control
// characters are escaped: names and reasons come from files.
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

// visible escapes what is no text, as Go does in quotes.
func visible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		q := strconv.Quote(s)
		return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	}
	return s
}

func logTable(log *slog.Logger, rows [][]string) {
	log.Info(strings.TrimSuffix(renderTable(rows), "\n"), tableKey, true)
}

// logStart writes the tables that Triton writes when its models are loaded.
func logStart(log *slog.Logger, c *Config, e *engine.Engine, backends []string) {
	agents := [][]string{{"Repository Agent", "Path"}}
	for _, a := range agent.All() {
		agents = append(agents, []string{a.Name(), "<built in>"})
	}
	logTable(log, agents)
	rows := [][]string{{"Backend", "Path", "Config"}}
	for _, b := range backends {
		rows = append(rows, []string{b, "<built in>", "{}"})
	}
	logTable(log, rows)
	logTable(log, modelRows(e))
	logTable(log, optionRows(c, e))
}

func modelRows(e *engine.Engine) [][]string {
	rows := [][]string{{"Model", "Version", "Status"}}
	for _, m := range e.RepositoryIndex(false) {
		switch {
		case m.State == "" && m.Version == "":
			continue // never tried
		case m.Version == "":
			rows = append(rows, []string{m.Name, "-", "Not loaded: " + m.Reason})
		case m.Reason == "":
			rows = append(rows, []string{m.Name, m.Version, m.State})
		default:
			rows = append(rows, []string{m.Name, m.Version, m.State + ": " + m.Reason})
		}
	}
	return rows
}

func optionRows(c *Config, e *engine.Engine) [][]string {
	digit := func(b bool) string {
		if b {
			return "1"
		}
		return "0"
	}
	rows := [][]string{
		{"Option", "Value"},
		{"server_id", c.ID},
		{"server_version", engine.ServerVersion},
		{"nereid_version", Version},
		{"server_extensions", strings.Join(e.Extensions(), " ")},
	}
	for i, r := range c.Repositories {
		rows = append(rows, []string{"model_repository_path[" + strconv.Itoa(i) + "]", r})
	}
	return append(rows, [][]string{
		{"model_control_mode", "MODE_" + strings.ToUpper(string(c.mode()))},
		{"strict_model_config", digit(c.DisableAutoComplete)},
		{"model_config_name", c.ConfigName},
		{"rate_limit", rateLimitText(c.RateLimit)},
		{"strict_readiness", digit(c.StrictReadiness)},
		{"exit_timeout", strconv.Itoa(c.ExitTimeout)},
		{"cache_enabled", digit(c.CacheSize > 0 || c.CacheRedis != nil)},
		{"data_dir", c.DataDir},
	}...)
}
