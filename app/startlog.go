package app

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"nereid/app/logging"
	"nereid/app/options"
	"nereid/engine"
	"nereid/engine/agent"
)

// builtIn is the path of what is in the program.
const builtIn = "<built in>"

// logTables logs the tables that Triton logs when its models are loaded.
func (s *server) logTables() {
	agents := [][]string{{"Repository Agent", "Path"}}
	for _, a := range agent.All() {
		agents = append(agents, []string{a.Name(), builtIn})
	}
	for _, a := range s.backends.Agents {
		agents = append(agents, []string{a.Name(), a.Library()})
	}
	logging.Table(s.log, agents)
	rows := [][]string{{"Backend", "Path", "Config"}}
	for _, b := range s.backends.All {
		path := builtIn
		if file, ok := b.(interface{ File() string }); ok {
			path = cmp.Or(file.File(), builtIn)
		}
		rows = append(rows, []string{b.Name(), path, backendConfig(s.c.Backends.Libraries[b.Name()])})
	}
	logging.Table(s.log, rows)
	logging.Table(s.log, modelRows(s.engine))
	logging.Table(s.log, optionRows(s.c, s.engine))
}

// backendConfig writes the settings of --backend-config as in Triton's table.
func backendConfig(settings map[string]string) string {
	if len(settings) == 0 {
		return "{}"
	}
	b, err := json.Marshal(map[string]any{"cmdline": settings})
	if err != nil {
		panic(err) // texts always have a JSON form
	}
	return string(b)
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
