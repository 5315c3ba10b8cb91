package configs

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"nereid/app/console/api"
	"nereid/engine/modelconfig"
)

// APIFaults returns faults as the editor shows them, with the end of the word at which they begin. name is the model's.
func APIFaults(faults modelconfig.Faults, text, name string) (out []api.Fault) {
	lines := strings.Split(text, "\n")
	for _, f := range faults {
		a := api.Fault{Line: f.Line, Col: f.Col, EndLine: f.Line, EndCol: f.Col, Severity: api.SeverityError,
			Message: f.Message, Advice: f.Fix, Field: f.Path}
		if f.Severity == modelconfig.SeverityWarning {
			a.Severity = api.SeverityWarning
		}
		if f.Line > 0 && f.Line <= len(lines) {
			word := wordAt(lines[f.Line-1], f.Col)
			a.EndCol = f.Col + utf8.RuneCountInString(word)
			a.Fixes = fixesOf(f.Fix, lines[f.Line-1], a)
			if f.Path == "name" && name != "" && len(word) > 1 && (word[0] == '"' || word[0] == '\'') {
				quoted := strconv.Quote(name)
				a.Fixes = append(a.Fixes, replaceWord(a, "set name to "+quoted, word, quoted))
			}
		}
		out = append(out, a)
	}
	return out
}

// wordAt returns the name, number or quoted string that begins at a column of a line, or else one character.
func wordAt(line string, col int) string {
	r := []rune(line)
	if col < 1 || col > len(r) {
		return ""
	}
	r = r[col-1:]
	n := 0
	switch {
	case r[0] == '"' || r[0] == '\'':
		for n = 1; n < len(r) && (r[n] != r[0] || r[n-1] == '\\'); n++ {
			continue
		}
		n = min(n+1, len(r))
	default:
		for n < len(r) && (unicode.IsLetter(r[n]) || unicode.IsDigit(r[n]) || strings.ContainsRune("_.-+", r[n])) {
			n++
		}
	}
	return string(r[:max(n, 1)])
}

// fixesOf returns the edits that follow a fault's advice, where one edit in the fault's line can do that. line is the
// whole line. f has the fault's place and field.
func fixesOf(advice, line string, f api.Fault) []api.Fix {
	word := wordAt(line, f.Col)
	if word == "" {
		return nil
	}
	quoted := len(word) > 1 && (word[0] == '"' || word[0] == '\'') && word[len(word)-1] == word[0]
	if advice == "remove the quotes" && quoted {
		return []api.Fix{replaceWord(f, advice, word, word[1:len(word)-1])}
	}
	if s, ok := strings.CutPrefix(advice, "did you mean "); ok {
		s = strings.TrimSuffix(s, "?")
		if quoted == strings.HasPrefix(s, `"`) {
			return []api.Fix{replaceWord(f, "use "+s, word, s)}
		}
	}
	s, ok := strings.CutPrefix(advice, "write data_type: ")
	if ok && strings.HasSuffix(f.Field, ".data_type") && !quoted && word != "data_type" {
		return []api.Fix{replaceWord(f, "use "+s, word, s)}
	}
	if _, s, ok := strings.Cut(advice, "write dims: ["); ok {
		s, _, _ = strings.Cut("dims: ["+s, "]")
		rest := string([]rune(line)[f.Col-1:])
		old, _, closed := strings.Cut(rest, "]")
		name, _, list := strings.Cut(old, "[")
		if closed && list && strings.TrimRight(name, ": \t") == "dims" {
			return []api.Fix{replaceWord(f, "set "+strings.Replace(s, ":", " to", 1)+"]", old+"]", s+"]")}
		}
	}
	return nil
}

// replaceWord is a fix that replaces a word that begins at a fault's place.
func replaceWord(f api.Fault, label, old, text string) api.Fix {
	return api.Fix{Label: label, Edits: []api.Edit{{
		Line: f.Line, Col: f.Col, EndLine: f.Line, EndCol: f.Col + utf8.RuneCountInString(old), Text: text}}}
}
