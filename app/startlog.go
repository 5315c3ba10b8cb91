package app

import (
	"cmp"
	"strconv"
	"strings"

	"nereid/app/logging"
	"nereid/app/options"
	"nereid/engine"
	"nereid/engine/agent"
)

// logTables logs the tables that Triton logs when its models are loaded.
func (s *server) logTables() {
	agents := [][]string{{"Repository Agent", "Path"}}
	for _, a := range agent.All() {
		agents = append(agents, []string{a.Name(), "<built in>"})
	}
	for _, a := range s.backends.Agents {
		agents = append(agents, []string{a.Name(), a.Library()})
	}
	logging.Table(s.log, agents)
	rows := [][]string{{"Backend", "Path", "Config"}}
	for _, b := range s.backends.All {
		rows = append(rows, []string{b.Name(), "<built in>", "{}"})
	}
	logging.Table(s.log, rows)
	logging.Table(s.log, modelRows(s.engine))
	logging.Table(s.log, optionRows(s.c, s.engine))
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

func optionRows(c *options.Config, e *engine.Engine) [][]string {
	digit := func(b bool) string {
		if b {
			return "1"
		}
		return "0"
	}
	rateLimit := "OFF"
	if c.RateLimit.On {
		rateLimit = "EXEC_COUNT"
	}
	rows := [][]string{
		{"Option", "Value"},
		{"server_id", c.Engine.ID},
		{"server_version", engine.ServerVersion},
		{"nereid_version", Version},
		{"server_extensions", strings.Join(e.Extensions(), " ")},
	}
	for i, r := range c.Engine.Repositories {
		rows = append(rows, []string{"model_repository_path[" + strconv.Itoa(i) + "]", r})
	}
	return append(rows, [][]string{
		{"model_control_mode", "MODE_" + strings.ToUpper(string(cmp.Or(c.Engine.Mode, engine.ModeNone)))},
		{"strict_model_config", digit(c.Engine.DisableAutoComplete)},
		{"model_config_name", c.Engine.ConfigName},
		{"rate_limit", rateLimit},
		{"strict_readiness", digit(!c.Engine.LooseReadiness)},
		{"exit_timeout", strconv.Itoa(int(c.ExitTimeout.Seconds()))},
		{"cache_enabled", digit(c.ResponseCache.On())},
		{"data_dir", c.DataDir},
	}...)
}
