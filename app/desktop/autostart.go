package desktop

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nereid/app/durable"
)

// Autostart starts the program when the user logs in, with an entry in the folder that desktops read. Source of
// the format: freedesktop.org's Desktop Application Autostart and Desktop Entry specifications.
type Autostart struct {
	// Path of the entry.
	Path string
	// Command is the program with its arguments, Folder where it is started.
	Command []string
	Folder  string
}

// mark is in the entries that this program has written. It changes no others.
const mark = "X-Nereid-Autostart=true"

// NewAutostart returns the entry of this user for a command. lookup looks up environment variables.
func NewAutostart(lookup func(string) string, folder string, command ...string) (*Autostart, error) {
	config := lookup("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) { // relative paths are ignored, as the specification says
		home := lookup("HOME")
		if home == "" {
			return nil, errors.New("neither XDG_CONFIG_HOME nor HOME says where the desktop looks for programs to " +
				"start")
		}
		config = filepath.Join(home, ".config")
	}
	return &Autostart{Path: filepath.Join(config, "autostart", "nereid.desktop"), Command: command, Folder: folder}, nil
}

// On reports whether the entry exists. An entry that is turned off, or that another program wrote, does not count.
func (a *Autostart) On() bool {
	b, err := os.ReadFile(a.Path)
	return err == nil && bytes.Contains(b, []byte(mark)) && !bytes.Contains(b, []byte("\nHidden=true"))
}

// Set writes the entry, or removes it. It returns an error for an entry that another program wrote, and keeps it.
func (a *Autostart) Set(on bool) error {
	old, err := os.ReadFile(a.Path)
	switch {
	case err == nil && !bytes.Contains(old, []byte(mark)):
		return fmt.Errorf("%s is not this program's; remove it first", a.Path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if !on {
		if err := os.Remove(a.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(a.Path), 0o700); err != nil {
		return err
	}
	return durable.Replace(a.Path, []byte(a.entry()), 0o600)
}

func (a *Autostart) entry() string {
	words := make([]string, len(a.Command))
	for i, w := range a.Command {
		words[i] = quoteExec(w)
	}
	lines := []string{"[Desktop Entry]", "Type=Application", "Name=Nereid",
		"Comment=Serves models, and shows them in a window",
		"Exec=" + escapeValue(strings.Join(words, " ")), "Path=" + escapeValue(a.Folder), "Terminal=false", mark, ""}
	return strings.Join(lines, "\n")
}

// quoteExec writes a word of Exec: in quotes, with a backslash before special characters, and percent signs doubled.
func quoteExec(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "`", "\\`", `$`, `\$`, `\`, `\\`, `%`, `%%`).Replace(s) + `"`
}

// escapeValue writes a string value. The escapes of values come in addition to those of Exec.
func escapeValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s)
}
