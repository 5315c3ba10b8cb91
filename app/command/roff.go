package command

import "strings"

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// Roff escapes text for a manual page.
func Roff(text string) string {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + roffEscapes.Replace(text)
	}
	return roffEscapes.Replace(text)
}
