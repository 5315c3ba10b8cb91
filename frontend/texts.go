package frontend

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed src/lib/i18n/server.zh.json
var catalogue []byte

// texts are the texts of the server in Chinese, by kind and by the format string in the server's Go code.
var texts = sync.OnceValue(func() map[string]*kind {
	var all map[string]map[string]string
	if err := json.Unmarshal(catalogue, &all); err != nil {
		panic("frontend: server.zh.json is no catalogue: " + err.Error()) // cannot happen: a test reads it
	}
	kinds := map[string]*kind{}
	for name, list := range all {
		kinds[name] = &kind{exact: list, formats: formats(list)}
	}
	return kinds
})

// kind is one kind of texts, such as errors. Formats with the longest fixed text come first.
type kind struct {
	exact   map[string]string
	formats []format
}

type format struct {
	text    string // the format string, for an order that is the same everywhere
	pattern *regexp.Regexp
	fixed   int // characters
	chinese string
}

var (
	verb  = regexp.MustCompile(`%[.\d]*[a-z]`)
	place = regexp.MustCompile(`\{\d\}`)
)

// further are the kinds where a text is looked for next, as in server.ts.
var further = map[string][]string{"reasons": {"errors", "engine", "faults"}, "errors": {"reasons", "engine", "faults"},
	"events": {"reasons", "engine", "faults"}, "engine": {"faults"}}

// leastFixed is the least fixed text of a format of another kind; shorter ones would match texts of libraries.
const leastFixed = 12

func formats(list map[string]string) (out []format) {
	for text, chinese := range list {
		if !verb.MatchString(text) {
			continue
		}
		parts, fixed := verb.Split(strings.TrimSpace(text), -1), 0
		for i, part := range parts {
			part = strings.ReplaceAll(part, "%%", "%")
			fixed += utf8.RuneCountInString(part)
			parts[i] = regexp.QuoteMeta(part)
		}
		pattern := regexp.MustCompile(`^` + strings.Join(parts, `((?s:.*?))`) + `$`)
		out = append(out, format{text, pattern, fixed, chinese})
	}
	slices.SortFunc(out, func(a, b format) int {
		if a.fixed != b.fixed {
			return b.fixed - a.fixed
		}
		return strings.Compare(a.text, b.text)
	})
	return out
}

// Chinese returns the Chinese text for one of the server, as the page shows it (server.ts). kind is one of
// server.zh.json, such as events. A text that is not in the catalogue stays as it is.
func Chinese(kind, text string) string {
	if inner := strings.TrimSpace(text); inner != text {
		return strings.Replace(text, inner, Chinese(kind, inner), 1)
	}
	if found, ok := lookUp(kind, kind, text, 0); ok {
		return found
	}
	for _, other := range further[kind] {
		if found, ok := lookUp(other, kind, text, leastFixed); ok {
			return found
		}
	}
	return text
}

// lookUp looks for a text of one kind, in formats with at least so much fixed text. Arguments are of the kind of.
func lookUp(from, of, text string, least int) (string, bool) {
	k := texts()[from]
	if k == nil {
		return "", false
	}
	if found, ok := k.exact[text]; ok {
		return found, true
	}
	for _, f := range k.formats {
		if f.fixed < least {
			break
		}
		if m := f.pattern.FindStringSubmatch(text); m != nil {
			return place.ReplaceAllStringFunc(f.chinese, func(at string) string {
				n, err := strconv.Atoi(at[1 : len(at)-1])
				if err != nil || n >= len(m) {
					return ""
				}
				return Chinese(of, m[n])
			}), true
		}
	}
	return "", false
}
