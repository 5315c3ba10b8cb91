package console_test

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/logging"
	"nereid/engine"
)

func TestLogIsReadFilteredAndSwitched(t *testing.T) {
	log, control, _, err := logging.Open(logging.Options{Settings: engine.LogSettings{Info: true, Warning: true,
		Error: true, Format: "default"}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) { o.LogControl = control })
	log.Info("loading: digits:1")
	log.Warn("a warning", "model", "digits", "reason", "Too Slow")
	log.With("model", "digits").Info("Epoch 12", "stream", "stderr")
	log.Error("an error", "model", "other")
	log.Debug("nobody asked")
	texts := func(l api.Logs) string {
		var out []string
		for _, line := range l.Lines {
			out = append(out, line.Text)
		}
		return strings.Join(out, "|")
	}
	var all api.Logs
	for query, want := range map[string]string{
		"":                             "loading: digits:1|a warning|Epoch 12|an error",
		"?level=warning":               "a warning|an error",
		"?level=error":                 "an error",
		"?model=digits":                "loading: digits:1|a warning|Epoch 12",
		"?model=digits&source=process": "Epoch 12",
		"?source=server&level=info":    "loading: digits:1|a warning|an error",
		"?text=too+slow":               "a warning",
		"?text=epoch":                  "Epoch 12",
	} {
		got := get[api.Logs](r, http.StatusOK, "GET", "/api/logs"+query, nil)
		if texts(got) != want || got.Missed != 0 || got.LeftOut != 0 || !got.Settings.Info {
			t.Errorf("%s: %+v, want %s", query, got, want)
		}
		if query == "" {
			all = got
		}
	}
	if l := all.Lines[2]; !l.Process || l.Level != api.LogInfo || l.Values != "model=digits stream=stderr" ||
		!strings.HasPrefix(l.Source, "logs_test.go:") || l.TMs == 0 {
		t.Errorf("the line of the process is %+v", l)
	}
	for _, query := range []string{"level=loud", "source=x", "after=-1", "after=x"} {
		get[api.Error](r, http.StatusBadRequest, "GET", "/api/logs?"+query, nil)
	}
	verbose, off := uint32(1), false
	set := get[api.LogSettings](r, http.StatusOK, "PUT", "/api/logs/settings",
		api.SetLog{Verbose: &verbose, Info: &off})
	if now := control.LogSettings(); now.Verbose != 1 || now.Info || !now.Warning || set.Verbose != 1 || set.Info {
		t.Errorf("the settings are %+v, the reply %+v", now, set)
	}
	log.Debug("details")
	log.Info("hidden")
	next := get[api.Logs](r, http.StatusOK, "GET", "/api/logs?after="+strconv.FormatInt(all.Next, 10), nil)
	if texts(next) != "details" || next.Lines[0].Level != api.LogVerbose || next.Settings.Verbose != 1 {
		t.Errorf("after a cursor: %+v", next)
	}
	for range 1200 {
		log.Warn("many")
	}
	next = get[api.Logs](r, http.StatusOK, "GET", "/api/logs?level=warning", nil)
	if len(next.Lines) != 1000 || next.LeftOut != 202 ||
		!slices.IsSortedFunc(next.Lines, func(a, b api.LogLine) int { return int(a.Seq - b.Seq) }) {
		t.Errorf("%d lines and %d left out", len(next.Lines), next.LeftOut)
	}
}
