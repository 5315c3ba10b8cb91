// Package admin holds the commands that look after a server and its models: tokens, backups, frameworks, devices, and
// the validation of repositories.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"nereid/app/command"
	"nereid/app/control"
	"nereid/app/options"
)

const tokenUsage = `Makes, lists and revokes the tokens by which clients may use the server.

Usage:
  nereid token create --name=<name> [--scope=infer[,control][,view][,admin]] [--data-dir=<folder>]
  nereid token list [--json] [--data-dir=<folder>]
  nereid token revoke [--data-dir=<folder>] <id or name>

Scopes: infer opens inference and shared memory; control the model repository, trace and log settings; view the GUI, to
look at, and with infer to try models; admin everything.
The token is printed once, on standard output, and cannot be shown again. Changes take effect at once, also in a
running server.
From the first token on, every client must send one: Authorization: <token>, or Authorization: Bearer <token>.
`

// Token runs "nereid token …".
func Token(_ context.Context, e *command.Env, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(e.Stdout, tokenUsage)
		return 0
	}
	return e.ExitStatus(runToken(e, args[0], args[1:]), tokenUsage)
}

func runToken(e *command.Env, verb string, args []string) error {
	flags := flag.NewFlagSet("nereid token "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	name := flags.String("name", "", "")
	scope := flags.String("scope", "infer", "")
	asJSON := flags.Bool("json", false, "")
	if err := command.ParseMixed(flags, args); err != nil {
		return err
	}
	var run func(*control.Client) error
	switch {
	case verb == "create" && flags.NArg() == 0:
		run = func(c *control.Client) error {
			made, err := c.CreateToken(control.Token{Name: *name, Scopes: *scope})
			if err == nil {
				fmt.Fprintf(e.Stderr, "token %s (%s) opens %s; this is the only time it is shown:\n", made.ID,
					made.Name, made.Scopes)
				fmt.Fprintln(e.Stdout, made.Token)
			}
			return err
		}
	case verb == "list" && flags.NArg() == 0:
		run = func(c *control.Client) error { return printTokens(c, *asJSON, e.Stdout) }
	case verb == "revoke" && flags.NArg() == 1:
		run = func(c *control.Client) error {
			revoked, err := c.RevokeToken(flags.Arg(0))
			if err == nil {
				fmt.Fprintf(e.Stdout, "revoked %s (%s)\n", revoked.ID, revoked.Name)
			}
			return err
		}
	case verb == "create" || verb == "list":
		return fmt.Errorf("unexpected argument %q; nereid token --help shows the use", flags.Arg(0))
	case verb == "revoke":
		return errors.New("revoke wants the id or the name of one token; nereid token list shows them")
	default:
		return fmt.Errorf("unknown command %q; use create, list or revoke", verb)
	}
	dir, err := options.CommandDataDir(*dataDir, e.Lookup)
	if err != nil {
		return err
	}
	return control.With(dir, run)
}

func printTokens(c *control.Client, asJSON bool, out io.Writer) error {
	list, err := c.Tokens()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, list)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSCOPES\tCREATED\tLAST USED SINCE THE START")
	for _, t := range list {
		used := "-"
		if t.UsedUS > 0 {
			used = time.UnixMicro(t.UsedUS).Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ID, t.Name, t.Scopes,
			time.UnixMicro(t.CreatedUS).Format(time.DateTime), used)
	}
	return w.Flush()
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
