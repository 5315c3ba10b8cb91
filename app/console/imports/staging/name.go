package staging

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

func invalid(format string, args ...any) error { return rest.Errorf(api.CodeInvalid, format, args...) }

func tooLarge(format string, args ...any) error {
	return rest.Errorf(api.CodeTooLarge, format, args...)
}

func removed() error { return rest.Errorf(api.CodeConflict, "the import was removed") }

const (
	maxDepth     = 32
	maxComponent = 255
	maxPath      = 1024
)

// CleanPath checks the path of a file inside a dropped folder or an archive. It must be relative, with slashes, without
// "." or "..", and without anything that another system would read as a way out. CleanPath returns "" for files that
// are never part of a model, such as hidden files and those that macOS adds to archives; the caller skips them.
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
	components := strings.Split(strings.TrimSuffix(name, "/"), "/")
	if len(components) > maxDepth {
		return "", invalid("the file name %.80q is %d folders deep; at most %d are taken", name, len(components),
			maxDepth)
	}
	skip := false
	for _, p := range components {
		switch {
		case p == "" || p == "." || p == "..":
			return "", invalid("the file name %q has an empty, \".\" or \"..\" part; "+
				"only names inside the model are taken", name)
		case len(p) > maxComponent:
			return "", invalid("a part of the file name %.80q has %d bytes; at most %d are taken",
				name, len(p), maxComponent)
		case strings.HasPrefix(p, ".") || p == "__MACOSX" || p == "Thumbs.db" || p == "desktop.ini":
			skip = true
		}
	}
	clean := path.Join(components...)
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", invalid("the file name %q leads outside the model", name)
	}
	if skip {
		return "", nil
	}
	return clean, nil
}

// ModelName makes a model name from a file or folder name. Letters, digits, dot, dash and underscore stay.
func ModelName(from string) string {
	base := path.Base(strings.ReplaceAll(from, `\`, "/"))
	known := []string{".onnx", ".zip", ".mar", ".nav", ".tar", ".tgz", ".gz", ".xz", ".txz", ".bento", ".bentomodel",
		".pt", ".pth", ".torchscript", ".py"}
	for {
		ext := path.Ext(base)
		if len(base) == len(ext) || !slices.Contains(known, strings.ToLower(ext)) {
			break
		}
		base = strings.TrimSuffix(base, ext)
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
