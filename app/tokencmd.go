package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"nereid/app/access"
	"nereid/store"
)

const tokenUsage = `Makes, lists and revokes the tokens by which clients may use the server.

Usage:
  nereid token create --name=<name> [--scope=infer[,control][,admin]] [--data-dir=<folder>]
  nereid token list [--json] [--data-dir=<folder>]
  nereid token revoke [--data-dir=<folder>] <id or name>

Scopes: infer opens inference and shared memory; control the model repository, trace and log settings; admin everything.
The token is printed once, on standard output, and cannot be had again. Changes count at once, in a running server too.
From the first token on, every client must send one: Authorization: <token>, or Authorization: Bearer <token>.
`

// tokenCommand runs "nereid token …".
func tokenCommand(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(stdout, tokenUsage)
		return 0
	}
	return ended(runToken(args[0], args[1:], lookup, stdout, stderr), tokenUsage, stdout, stderr)
}

func runToken(verb string, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("nereid token "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	name := flags.String("name", "", "")
	scope := flags.String("scope", "infer", "")
	asJSON := flags.Bool("json", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var run func(tokenKeeper) error
	switch {
	case verb == "create" && flags.NArg() == 0:
		run = func(k tokenKeeper) error { return printCreated(k, *name, *scope, stdout, stderr) }
	case verb == "list" && flags.NArg() == 0:
		run = func(k tokenKeeper) error { return printTokens(k, *asJSON, stdout) }
	case verb == "revoke" && flags.NArg() == 1:
		run = func(k tokenKeeper) error {
			gone, err := k.revoke(flags.Arg(0))
			if err == nil {
				fmt.Fprintf(stdout, "revoked %s (%s)\n", gone.ID, gone.Name)
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
	dir, err := commandDataDir(*dataDir, lookup)
	if err != nil {
		return err
	}
	return withTokens(dir, run)
}

// commandDataDir is the data folder of a command, as the server's options choose it.
func commandDataDir(given string, lookup func(string) (string, bool)) (string, error) {
	if given == "" {
		given, _ = lookup("NEREID_DATA_DIR")
	}
	if given == "" {
		return defaultDataDir(lookup)
	}
	return given, nil
}

func printCreated(k tokenKeeper, name, scope string, stdout, stderr io.Writer) error {
	made, err := k.create(tokenBody{Name: name, Scopes: scope})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "token %s (%s) opens %s; this is the only time it is shown:\n", made.ID, made.Name, made.Scopes)
	fmt.Fprintln(stdout, made.Token)
	return nil
}

func printTokens(k tokenKeeper, asJSON bool, stdout io.Writer) error {
	list, err := k.list()
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSCOPES\tCREATED")
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.ID, t.Name, t.Scopes, time.UnixMicro(t.CreatedUS).Format(time.DateTime))
	}
	return w.Flush()
}

// tokenKeeper is where tokens are changed: a running server, or the store while none runs.
type tokenKeeper interface {
	create(tokenBody) (tokenBody, error)
	list() ([]tokenBody, error)
	revoke(idOrName string) (tokenBody, error)
}

// withTokens runs f on the server that has the data folder, or on the folder itself.
func withTokens(dir string, f func(tokenKeeper) error) error {
	return withStore(dir, func(c *controlClient) error { return f(remoteTokens{c}) }, func(ctx context.Context, st *store.Store) error {
		tokens, err := access.New(ctx, access.Options{Store: st})
		if err != nil {
			return err
		}
		return f(&localTokens{tokens})
	})
}

type localTokens struct{ tokens *access.Tokens }

func (l *localTokens) create(in tokenBody) (tokenBody, error) {
	return createToken(context.Background(), l.tokens, in)
}

func (l *localTokens) list() (out []tokenBody, err error) {
	for _, t := range l.tokens.List() {
		out = append(out, bodyOf(t))
	}
	return out, nil
}

func (l *localTokens) revoke(idOrName string) (tokenBody, error) {
	gone, err := l.tokens.Revoke(context.Background(), idOrName)
	return bodyOf(gone), err
}

type remoteTokens struct{ *controlClient }

func (r remoteTokens) create(in tokenBody) (out tokenBody, err error) {
	err = r.call(http.MethodPost, "/tokens", in, &out)
	return out, err
}

func (r remoteTokens) list() (out []tokenBody, err error) {
	err = r.call(http.MethodGet, "/tokens", nil, &out)
	return out, err
}

func (r remoteTokens) revoke(idOrName string) (out tokenBody, err error) {
	err = r.call(http.MethodDelete, "/tokens/"+url.PathEscape(idOrName), nil, &out)
	return out, err
}
