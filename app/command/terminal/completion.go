package terminal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"nereid/app/command"
)

// CompleteName is the hidden command that the scripts of the shells call with the words of the line so far.
const CompleteName = "__complete"

// scripts complete by calling the program: so they need no change when a command gets an option.
var scripts = map[string]string{
	"bash": `_nereid() {
  local IFS=$'\n'
  COMPREPLY=($(nereid __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _nereid nereid
`,
	"zsh": `#compdef nereid
_nereid() {
  local -a found
  found=("${(@f)$(nereid __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _nereid nereid
`,
	"fish": `complete -c nereid -a '(nereid __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

const completionUsage = `Prints the script that completes nereid's commands, options and models in a shell.

Usage:
  nereid completion bash|zsh|fish

  bash: source <(nereid completion bash)                     in ~/.bashrc
  zsh:  source <(nereid completion zsh)                      in ~/.zshrc, after compinit
  fish: nereid completion fish > ~/.config/fish/completions/nereid.fish

Models are those of the server that --url or NEREID_URL names.
`

// Completion runs "nereid completion".
func Completion(_ context.Context, e *command.Env, args []string) int {
	if len(args) == 1 && scripts[args[0]] != "" {
		fmt.Fprint(e.Stdout, scripts[args[0]])
		return 0
	}
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		fmt.Fprint(e.Stdout, completionUsage)
		return 0
	}
	fmt.Fprint(e.Stderr, "error: name a shell: bash, zsh or fish\n\n"+completionUsage)
	return 2
}

var longOption = regexp.MustCompile(`--[a-z0-9][a-z0-9-]+`)

// Complete prints what the last of the words may become, one a line: a command, an option of its help, or a model.
func Complete(ctx context.Context, e *command.Env, all []command.Command, words []string) int {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var candidates []string
	if len(words) == 1 {
		for _, c := range all {
			if !c.Hidden && c.Help != "" && c.Names[0] != "" {
				candidates = append(candidates, c.Names[0])
			}
		}
		return printCandidates(e.Stdout, last, append(candidates, "help"))
	}
	i := slices.IndexFunc(all, func(c command.Command) bool {
		return !c.Hidden && c.Help != "" && slices.Contains(c.Names, words[0])
	})
	switch {
	case i < 0:
	case words[0] == "completion":
		candidates = []string{"bash", "fish", "zsh"}
	case strings.HasPrefix(last, "-"):
		var help bytes.Buffer
		quiet := *e
		quiet.Stdin, quiet.Stdout, quiet.Stderr = strings.NewReader(""), &help, io.Discard
		if all[i].Run(ctx, &quiet, []string{"--help"}) == 0 {
			candidates = longOption.FindAllString(help.String(), -1)
		}
	case slices.Contains([]string{"load", "unload", "remove", "infer", "stats", "top"}, words[0]):
		candidates = models(ctx, e, words[1:])
	case words[0] == "config" && len(words) == 2:
		candidates = []string{"generate", "get", "show"}
	case words[0] == "config" && words[1] == "get":
		candidates = models(ctx, e, words[2:])
	}
	return printCandidates(e.Stdout, last, candidates)
}

// models asks the server that the words name for its models, for at most a second.
func models(ctx context.Context, e *command.Env, words []string) []string {
	args := []string{"--quiet", "--timeout=1"}
	for i, w := range words {
		name, _, has := strings.Cut(w, "=")
		if !slices.Contains([]string{"-u", "--url", "--token", "--ca"}, name) {
			continue
		}
		if args = append(args, w); !has && i+1 < len(words) {
			args = append(args, words[i+1])
		}
	}
	var out bytes.Buffer
	quiet := *e
	quiet.Stdout, quiet.Stderr = &out, io.Discard
	List(ctx, &quiet, args)
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func printCandidates(w io.Writer, prefix string, all []string) int {
	slices.Sort(all)
	for _, c := range slices.Compact(all) {
		if c != "" && strings.HasPrefix(c, prefix) {
			fmt.Fprintln(w, c)
		}
	}
	return 0
}
