package modelconfig

import "strings"

// Rename changes the name in a configuration text from one model name to another. It leaves other names as they are.
func Rename(text, from, to string) string {
	cfg, pos, _ := Parse("", []byte(text))
	if cfg.GetName() != from || from == "" {
		return text
	}
	lines := strings.Split(text, "\n")
	at := pos.At("name")
	if at.Line < 1 || at.Line > len(lines) {
		return text
	}
	line := []rune(lines[at.Line-1])
	start := min(max(at.Col-1, 0), len(line))
	head, tail := string(line[:start]), string(line[start:])
	for _, quote := range []string{`"`, `'`} {
		if before, after, ok := strings.Cut(tail, quote+from+quote); ok {
			lines[at.Line-1] = head + before + quote + to + quote + after
			return strings.Join(lines, "\n")
		}
	}
	return text
}
