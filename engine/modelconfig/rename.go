package modelconfig

import (
	"strings"

	"nereid/engine/inferencepb"
)

// Rename changes the name in a configuration text from one model name to another. It leaves other names and the rest of
// the text as they are, and also a text that cannot be parsed if the name is not written plainly.
func Rename(text, from, to string) string {
	cfg, pos, _ := Parse("", []byte(text))
	if cfg.GetName() != from || from == "" {
		return text
	}
	if plain, ok := renamePlain(text, from, to, pos); ok {
		return plain
	}
	replaced, err := Replace(text, &inferencepb.ModelConfig{Name: to}, "name")
	if err != nil {
		return text
	}
	return replaced
}

// SetName gives a configuration text the name of its model if it has another one. A text without a name stays.
func SetName(text, to string) string {
	cfg, _, _ := Parse("", []byte(text))
	return Rename(text, cfg.GetName(), to)
}

// renamePlain changes a name that is one string, without escapes. It keeps the quotes.
func renamePlain(text, from, to string, pos *Positions) (renamed string, ok bool) {
	if strings.ContainsAny(to, "\"'\\") {
		return "", false
	}
	lines := strings.Split(text, "\n")
	at := pos.At("name")
	if at.Line < 1 || at.Line > len(lines) {
		return "", false
	}
	line := []rune(lines[at.Line-1])
	start := min(max(at.Col-1, 0), len(line))
	head, tail := string(line[:start]), string(line[start:])
	for _, quote := range []string{`"`, `'`} {
		if before, after, ok := strings.Cut(tail, quote+from+quote); ok {
			lines[at.Line-1] = head + before + quote + to + quote + after
			return strings.Join(lines, "\n"), true
		}
	}
	return "", false
}
