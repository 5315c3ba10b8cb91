package console

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/history"
)

// configScript tells the page where the interface is: on its own origin. The window serves another script.
func (c *Console) configScript(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write([]byte("window.__base = \"\";\n")) // an error is the reader's leaving
	return nil
}

func (c *Console) getServer(w http.ResponseWriter, _ *http.Request) error {
	meta := c.o.Engine.ServerMetadata()
	out := api.Server{
		Name: meta.GetName(), Version: c.o.Version, TritonVersion: meta.GetVersion(),
		Live: c.o.Engine.Live(), Ready: c.o.Engine.Ready(),
		StartMs: c.o.Engine.Started().UnixMilli(), NowMs: time.Now().UnixMilli(),
		ModelControlMode: string(c.o.Engine.Mode()), PollMs: c.o.PollEvery.Milliseconds(),
		Repositories: c.repositories(), DataDir: c.o.DataDir, Desktop: c.o.Pick != nil,
		Process: process(), History: c.historyStatus(),
	}
	for _, b := range c.o.Backends {
		out.Backends = append(out.Backends, api.Backend{Name: b.Name()})
	}
	if c.o.Addresses != nil {
		out.Addresses = c.o.Addresses()
	}
	if c.o.ONNXRuntime != nil {
		out.ONNXRuntime = c.o.ONNXRuntime()
	}
	if c.o.Warnings != nil {
		out.Warnings = c.o.Warnings()
	}
	for _, text := range c.o.Store.Warnings() {
		out.Warnings = append(out.Warnings, api.Warning{Severity: api.SeverityWarning, Text: text})
	}
	if h := c.o.Store.Health(); h.Failing {
		out.Warnings = append(out.Warnings, api.Warning{Severity: api.SeverityError,
			Text: "the history database cannot be written (" + h.LastError + "); new history is kept in memory until it can"})
	}
	return reply(w, out)
}

func (c *Console) repositories() (out []api.Repository) {
	for _, root := range c.o.Repositories {
		r := api.Repository{Path: root}
		if remote(root) {
			for _, st := range c.o.Engine.Models() {
				if st.Repository == root {
					r.Models++
				}
			}
			out = append(out, r)
			continue
		}
		entries, err := os.ReadDir(root)
		if err != nil {
			r.Error = err.Error()
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				r.Models++
			}
		}
		r.Writable = err == nil && writable(root)
		out = append(out, r)
	}
	return out
}

func (c *Console) historyStatus() api.HistoryStatus {
	h := c.o.Store.Health()
	out := api.HistoryStatus{SizeBytes: h.Bytes, Dropped: int64(h.DroppedSamples)}
	if path := c.o.Store.Path(); path != "" {
		out.SizeBytes = 0
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(path + suffix); err == nil {
				out.SizeBytes += info.Size()
			}
		}
	}
	if oldest, err := c.o.Store.Oldest(c.ctx); err == nil {
		out.OldestMs = oldest / 1000
	}
	return out
}

func process() api.Process {
	p := api.Process{PID: os.Getpid(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), GoVersion: runtime.Version()}
	p.RSSBytes, p.CPUSeconds = usage()
	if p.RSSBytes == 0 { // not on this system: what Go itself has
		s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		metrics.Read(s)
		p.RSSBytes = int64(s[0].Value.Uint64())
	}
	return p
}

// postClientError logs an error of the page, so that a blank page does not stay a secret.
func (c *Console) postClientError(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	var e api.ClientError
	if err := readJSON(w, r, &e); err != nil {
		return err
	}
	if !c.errors.allow(10) {
		return noContent(w)
	}
	c.log.Warn("the page reports an error", "message", clip(e.Message), "page", clip(e.Page), "source", clip(e.Source),
		"line", e.Line, "column", e.Column, "stack", clip(e.Stack), "browser", clip(e.UserAgent))
	c.o.Recorder.Event(history.Event{Kind: history.ClientError, Text: clip(e.Message)})
	return noContent(w)
}

func clip(s string) string {
	const most = 4000
	s = strings.ToValidUTF8(s, "?")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func (c *Console) postPick(w http.ResponseWriter, r *http.Request) error {
	if c.o.Pick == nil {
		return fail(api.CodeNotFound, "there is no window whose dialog could open; upload the file instead")
	}
	var req api.PickRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	path, err := c.o.Pick(r.Context(), req.Folder)
	if err != nil {
		return err
	}
	return reply(w, api.PickResult{Path: path})
}

// usage reads what the process takes of the machine; zeros where /proc is not there.
func usage() (rss int64, cpuSeconds float64) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "stat"))
	if err != nil {
		return 0, 0
	}
	_, rest, ok := strings.Cut(string(b), ") ") // the program's name may have spaces
	f := strings.Fields(rest)
	if !ok || len(f) < 22 {
		return 0, 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	const ticks = 100 // USER_HZ is 100 on every Linux that Go supports
	return pages * int64(os.Getpagesize()), (user + system) / ticks
}
