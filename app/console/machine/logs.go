package machine

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/logging"
	"nereid/engine"
)

// Logs shows the log of the server and changes its levels.
type Logs struct {
	Control *logging.Control // nil: there is no log
}

// logFilter selects lines. The zero value selects all.
type logFilter struct {
	level   slog.Level // the lowest
	model   string
	text    string // in lower case
	process *bool  // written by a model's process, or not; nil: both
}

func (f *logFilter) matches(l *logging.Line) bool {
	return l.Level >= f.level && (f.process == nil || *f.process == l.OfProcess()) &&
		(f.model == "" || l.About(f.model)) &&
		(f.text == "" || strings.Contains(strings.ToLower(l.Text+l.Values), f.text))
}

// logLevel is the name of a level, with the lowest level of its lines.
type logLevel struct {
	name api.LogLevel
	from slog.Level
}

var logLevels = []logLevel{
	{api.LogError, slog.LevelError}, {api.LogWarning, slog.LevelWarn}, {api.LogInfo, slog.LevelInfo},
	{api.LogVerbose, slog.LevelDebug - 100},
}

func logFilterOf(q url.Values) (f logFilter, err error) {
	f.level, f.model, f.text = logLevels[len(logLevels)-1].from, q.Get("model"), strings.ToLower(q.Get("text"))
	if name := q.Get("level"); name != "" {
		i := slices.IndexFunc(logLevels, func(l logLevel) bool { return string(l.name) == name })
		if i < 0 {
			return f, rest.Errorf(api.CodeInvalid, "level=%s is not error, warning, info or verbose", rest.Quote(name))
		}
		f.level = logLevels[i].from
	}
	if name := q.Get("source"); name != "" {
		if name != "server" && name != "process" {
			return f, rest.Errorf(api.CodeInvalid, "source=%s is not server or process", rest.Quote(name))
		}
		process := name == "process"
		f.process = &process
	}
	return f, nil
}

// maxLogLines is the most lines of a reply.
const maxLogLines = 1000

// Read returns the lines after a cursor that match the filter, at most the newest maxLogLines.
func (h *Logs) Read(r *http.Request) (out api.Logs, err error) {
	q := r.URL.Query()
	f, err := logFilterOf(q)
	if err != nil {
		return out, err
	}
	var after int64
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return out, rest.Errorf(api.CodeInvalid, "after=%s is not a whole number of 0 or more", rest.Quote(text))
		}
	}
	if h.Control == nil {
		return out, nil
	}
	lines, missed, next := h.Control.Lines(after)
	out.Missed, out.Next, out.Settings = missed, next, logSettings(h.Control)
	for i := len(lines) - 1; i >= 0; i-- {
		switch l := &lines[i]; {
		case !f.matches(l):
		case len(out.Lines) == maxLogLines:
			out.LeftOut++
		default:
			out.Lines = append(out.Lines, apiLogLine(l))
		}
	}
	slices.Reverse(out.Lines)
	return out, nil
}

func apiLogLine(l *logging.Line) api.LogLine {
	out := api.LogLine{Seq: l.Seq, TMs: l.Time.UnixMilli(), Text: l.Text, Values: strings.TrimSpace(l.Values),
		Source: l.Source(), Process: l.OfProcess()}
	for _, level := range logLevels {
		if out.Level = level.name; l.Level >= level.from {
			break
		}
	}
	return out
}

// Set changes the levels.
func (h *Logs) Set(_ *http.Request, in *api.SetLog) (api.LogSettings, error) {
	if h.Control == nil {
		return api.LogSettings{}, rest.Errorf(api.CodeNotFound, "this server has no log")
	}
	h.Control.UpdateLog(engine.LogUpdate{Info: in.Info, Warning: in.Warning, Error: in.Error, Verbose: in.Verbose})
	return logSettings(h.Control), nil
}

func logSettings(c *logging.Control) api.LogSettings {
	s := c.LogSettings()
	return api.LogSettings{Info: s.Info, Warning: s.Warning, Error: s.Error, Verbose: s.Verbose, File: s.File}
}
