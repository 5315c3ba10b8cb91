package staging

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what an Error is about.
type Kind uint8

// The kinds.
const (
	Invalid  Kind = iota // what was given cannot be taken
	TooLarge             // a limit is reached
	Conflict             // the Area is in another state
)

// Error is a refusal, for the user to read.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

func invalid(format string, args ...any) error {
	return &Error{Invalid, fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &Error{TooLarge, fmt.Sprintf(format, args...)}
}

const (
	maxDepth     = 32
	maxComponent = 255
	maxPath      = 1024
)

// CleanPath checks the path of a file inside a dropped folder or an archive: relative, with slashes, no "." or "..",
// nothing that another system would read as a way out. It answers "" for files that are never part of a model, such
// as hidden files and those that macOS adds to archives; such files are to be skipped.
func CleanPath(name string) (string, error) {
	switch {
	case name == "":
		return "", invalid("a file has no name")
	case len(name) > maxPath:
		return "", invalid("the file name %.40q... has %d bytes; at most %d are taken", name, len(name), maxPath)
	case !utf8.ValidString(name):
		return "", invalid("the file name %q is not UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", invalid("the file name %q has control characters", name)
	case strings.Contains(name, `\`):
		return "", invalid("the file name %q has a backslash; pack it with slashes", name)
	case strings.HasPrefix(name, "/") || len(name) > 1 && name[1] == ':':
		return "", invalid("the file name %q is absolute; only names inside the model are taken", name)
	}
	parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
	if len(parts) > maxDepth {
		return "", invalid("the file name %.80q is %d folders deep; at most %d are taken", name, len(parts), maxDepth)
	}
	skip := false
	for _, p := range parts {
		switch {
		case p == "" || p == "." || p == "..":
			return "", invalid("the file name %q has an empty, \".\" or \"..\" part; only names inside the model are taken", name)
		case len(p) > maxComponent:
			return "", invalid("a part of the file name %.80q has %d bytes; at most %d are taken", name, len(p), maxComponent)
		case strings.HasPrefix(p, ".") || p == "__MACOSX" || p == "Thumbs.db" || p == "desktop.ini":
			skip = true
		}
	}
	clean := path.Join(parts...)
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", invalid("the file name %q leads outside the model", name)
	}
	if skip {
		return "", nil
	}
	return clean, nil
}

// ModelName makes a model name from a file or folder name: letters, digits, dot, dash and underscore stay.
func ModelName(from string) string {
	base := path.Base(strings.ReplaceAll(from, `\`, "/"))
	for again := true; again; {
		again = false
		for _, ext := range []string{".onnx", ".zip", ".tar", ".tgz", ".gz", ".pt", ".pth", ".py"} {
			if len(base) > len(ext) && strings.EqualFold(base[len(base)-len(ext):], ext) {
				base, again = base[:len(base)-len(ext)], true
			}
		}
	}
	name := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, base)
	name = strings.Trim(name, "._-")
	for len(name) > 100 {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	if name == "" {
		return "model"
	}
	return name
}
