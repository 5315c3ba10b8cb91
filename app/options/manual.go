package options

import (
	"fmt"
	"strings"

	"nereid/app/command"
)

// Manual is the part of a manual page about the options of nereid serve, by group. Format: man(7).
func Manual() string {
	var b strings.Builder
	for _, g := range Default(false).table() {
		fmt.Fprintf(&b, ".SS %s\n", command.Roff(g.title))
		for _, o := range g.options {
			names := make([]string, len(o.names))
			for i, n := range o.names {
				names[i] = `\fB` + command.Roff("--"+n) + `\fR`
				if o.arg != "" {
					names[i] += `=\fI` + command.Roff(o.arg) + `\fR`
				}
			}
			help := o.help
			if o.noEffect {
				help += " Accepted without effect."
			}
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", strings.Join(names, ", "), command.Roff(help))
		}
	}
	return b.String()
}
