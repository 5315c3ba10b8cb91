// Package support writes a support bundle: a zip file for a person who looks into a problem of a server. It has no
// secrets and no contents of requests. It also keeps what the program writes when it crashes.
package support

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"nereid/app/logging"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/store"
)

// Part is one file of a bundle.
type Part struct {
	Name  string
	About string // one line for the reader
	Write func(io.Writer) error
}

const readme = `Support bundle of Nereid, made %s.

What it leaves out: secrets (tokens, passwords, keys, the values of parameters in configurations), contents of
requests, what models print, and verbose lines of the log. It has names of models, folders and hosts: look through it
before you send it to somebody.

`

// Write writes the bundle. A part that fails has the error in place of its contents. The error is that of w.
func Write(w io.Writer, parts []Part) error {
	z := zip.NewWriter(w)
	var about strings.Builder
	fmt.Fprintf(&about, readme, time.Now().UTC().Format(time.RFC3339))
	for _, p := range parts {
		fmt.Fprintf(&about, "%-16s %s\n", p.Name, p.About)
	}
	for _, p := range append([]Part{{Name: "README.txt", Write: Text(about.String())}}, parts...) {
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			fmt.Fprintf(&b, "\nthis part failed: %v\n", err)
		}
		f, err := z.CreateHeader(&zip.FileHeader{Name: p.Name, Method: zip.Deflate, Modified: time.Now()})
		if err != nil {
			return err
		}
		if _, err := f.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return z.Close()
}

// Text returns a Part.Write that writes a text.
func Text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// JSON returns a Part.Write that writes what get returns.
func JSON(get func() (any, error)) func(io.Writer) error {
	return func(w io.Writer) error {
		v, err := get()
		if err != nil {
			return err
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
}

// Events is the part with the newest events of a history.
func Events(ctx context.Context, st *store.Store) Part {
	return Part{Name: "events.json", About: "loads, failures, alerts and restarts", Write: JSON(func() (any, error) {
		return st.Events(ctx, store.EventQuery{Limit: 1000})
	})}
}

// Crash is the part with the last crash that a data folder has.
func Crash(dataDir string) Part {
	return Part{Name: "crash.txt", About: "what the program wrote when it crashed last",
		Write: func(w io.Writer) error { return copyCrash(w, dataDir) }}
}

// RedactedConfig returns a model's configuration as text, without the values of its parameters: users put keys there.
func RedactedConfig(c *inferencepb.ModelConfig) string {
	c = proto.CloneOf(c)
	for _, p := range c.GetParameters() {
		p.StringValue = "..."
	}
	for _, agent := range c.GetModelRepositoryAgents().GetAgents() {
		for name := range agent.GetParameters() {
			agent.Parameters[name] = "..."
		}
	}
	return modelconfig.Format(c)
}

// Log writes the lines of the server. It leaves out those of models' processes and verbose ones, because both can have
// contents of requests.
func Log(w io.Writer, lines []logging.Line) error {
	for i := range lines {
		l := &lines[i]
		if l.OfProcess() || l.Level < slog.LevelInfo {
			continue
		}
		at := l.Time.UTC().Format(time.RFC3339Nano)
		_, err := fmt.Fprintf(w, "%s %-5s %s %q%s\n", at, l.Level, l.Source(), l.Text, l.Values)
		if err != nil {
			return err
		}
	}
	return nil
}
