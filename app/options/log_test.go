package options

import (
	"bytes"
	"strings"
	"testing"

	"nereid/app/logging"
)

func TestLogEscapes(t *testing.T) {
	const message = "loading 'a\nE1121 00:00:00.000000 1 forged.go:1] b\x1b[31m'"
	for _, tt := range []struct {
		name, env string
		lines     int
	}{
		{"A19 E046 a message with a line break and a terminal escape is one line", "", 1},
		{"E046 TRITON_SERVER_ESCAPE_LOG_MESSAGES=1", "1", 1},
		{"E046 H090 TRITON_SERVER_ESCAPE_LOG_MESSAGES=0 writes messages as they are", "0", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(false, []string{"--data-dir=" + t.TempDir()}, func(name string) (string, bool) {
				return tt.env, name == "TRITON_SERVER_ESCAPE_LOG_MESSAGES" && tt.env != ""
			})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			log, _, _, err := logging.Open(c.Log, &b)
			if err != nil {
				t.Fatal(err)
			}
			log.Info(message, "id", "x\ny")
			if n := strings.Count(b.String(), "\n"); n != tt.lines {
				t.Errorf("%d lines, want %d: %q", n, tt.lines, b.String())
			}
			if tt.lines == 1 && strings.Contains(b.String(), "\x1b") {
				t.Errorf("the terminal escape is in %q", b.String())
			}
		})
	}
}
