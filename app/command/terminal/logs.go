package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"nereid/app/command"
	"nereid/app/console/api"
)

const logsAbout = `Prints the server's log, as far as the server still has it in memory.

It comes from the GUI's interface, so only Nereid has it. That listens on port 8003 by default, and lets in programs of
the server's user and of root, and tokens with the scope admin.`

// logPause is the time between two looks of logs -f.
const logPause = 500 * time.Millisecond

// Logs runs "nereid logs".
func Logs(ctx context.Context, e *command.Env, args []string) int {
	var address, level, model, text string
	var follow bool
	lines := 100
	return runVerb(ctx, e, verb{
		name: "logs", about: logsAbout,
		options: []command.Option{
			command.Opt("-f, --follow", "", "goes on with new lines until an interrupt", &follow),
			command.Opt("-n, --lines", "N", "how many lines to begin with, at most 1000; default 100", &lines),
			command.Opt("--level", "LEVEL", "the lowest level: verbose, info, warning or error",
				command.OneOf(&level, "verbose", "info", "warning", "error")),
			command.Opt("--model", "NAME", "only lines about this model", &model),
			command.Opt("--text", "TEXT", "only lines with this text", &text),
			command.Opt("--ui-url", "URL", "default: port 8003 of the server's machine", &address),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"level": level, "model": model, "text": text} {
				if value != "" {
					query.Set(name, value)
				}
			}
			return s.logs(ctx, s.beside(address, "8003")+"/api/logs", query, lines, follow)
		},
	}, args)
}

func (s *session) logs(ctx context.Context, address string, query url.Values, lines int, follow bool) error {
	for first := true; ; first = false {
		page, err := s.logPage(ctx, address+"?"+query.Encode())
		if err != nil {
			if follow && ctx.Err() != nil {
				return nil // that is how it ends
			}
			return err
		}
		show := page.Lines
		if first {
			show = show[len(show)-min(len(show), max(0, lines)):]
		} else if gone := page.Missed + int64(page.LeftOut); gone > 0 {
			fmt.Fprintf(s.Stderr, "(%d lines came too fast to be shown)\n", gone)
		}
		for _, l := range show {
			if err := s.printLog(l); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		query.Set("after", strconv.FormatInt(page.Next, 10))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPause):
		}
	}
}

func (s *session) logPage(ctx context.Context, address string) (page api.Logs, err error) {
	body, err := s.get(ctx, address, "the log (only Nereid has one, in its GUI's interface)", "--ui-url")
	if err != nil {
		return page, err
	}
	if json.Unmarshal(body, &page) != nil || page.Next == 0 && page.Lines == nil {
		return page, errors.New("this is no interface of a Nereid GUI, and only Nereid has a log there; give its " +
			"address with --ui-url")
	}
	return page, nil
}

func (s *session) printLog(l api.LogLine) error {
	if s.asJSON {
		return s.print(l, nil)
	}
	from := ""
	if l.Process {
		from = "[process] "
	}
	at := time.UnixMilli(l.TMs).Format("2006-01-02 15:04:05.000")
	_, err := fmt.Fprintln(s.Stdout, printable(fmt.Sprintf("%s %-7s %s%s %s", at, l.Level, from, l.Text, l.Values)))
	return err
}
