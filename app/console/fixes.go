package console

import (
	"strings"
	"unicode/utf8"

	"nereid/app/console/api"
)

// fixesOf are the edits that do what a fault's advice says, where one edit in the fault's line does it. line is the
// whole line; f has the fault's place and field.
func fixesOf(advice, line string, f api.Fault) []api.Fix {
	word := wordAt(line, f.Col)
	if word == "" {
		return nil
	}
	replace := func(label, old, text string) []api.Fix {
		return []api.Fix{{Label: label, Edits: []api.Edit{{Line: f.Line, Col: f.Col, EndLine: f.Line, EndCol: f.Col + utf8.RuneCountInString(old), Text: text}}}}
	}
	quoted := len(word) > 1 && (word[0] == '"' || word[0] == '\'') && word[len(word)-1] == word[0]
	if advice == "remove the quotes" && quoted {
		return replace(advice, word, word[1:len(word)-1])
	}
	if s, ok := strings.CutPrefix(advice, "did you mean "); ok {
		s = strings.TrimSuffix(s, "?")
		if quoted == strings.HasPrefix(s, `"`) {
			return replace("use "+s, word, s)
		}
	}
	if s, ok := strings.CutPrefix(advice, "write data_type: "); ok && strings.HasSuffix(f.Field, ".data_type") && !quoted && word != "data_type" {
		return replace("use "+s, word, s)
	}
	if _, s, ok := strings.Cut(advice, "write dims: ["); ok {
		s, _, _ = strings.Cut("dims: ["+s, "]")
		rest := string([]rune(line)[f.Col-1:])
		old, _, closed := strings.Cut(rest, "]")
		name, _, list := strings.Cut(old, "[")
		if closed && list && strings.TrimRight(name, ": \t") == "dims" {
			return replace("set "+strings.Replace(s, ":", " to", 1)+"]", old+"]", s+"]")
		}
	}
	return nil
}
