package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"nereid/app/command"
	"nereid/app/console/api"
)

const removeAbout = `Takes models out of service and moves their folders to the server's trash. The GUI restores them.

It uses the GUI's interface, so only Nereid has it. That listens on port 8003 by default, and lets in programs of the
server's user and of root, and tokens with the scope admin.`

// Remove runs "nereid remove".
func Remove(ctx context.Context, e *command.Env, args []string) int {
	var address string
	var sure bool
	return runVerb(ctx, e, verb{
		name: "remove", args: "MODEL ...", least: 1, most: -1, about: removeAbout,
		options: []command.Option{
			command.Opt("-y, --yes", "", "does not ask", &sure),
			command.Opt("--ui-url", "URL", "default: port 8003 of the server's machine", &address),
		},
		run: func(ctx context.Context, s *session, models []string) error {
			// Several servers may run on one machine. Only with the default port of the one is the other's port known.
			if u, err := url.Parse(s.url); err == nil && u.Port() != "8000" && address == "" {
				return fmt.Errorf("name the GUI of the server %s with --ui-url", s.url)
			}
			address = s.beside(address, "8003")
			if !sure {
				if err := s.askToRemove(models, address); err != nil {
					return err
				}
			}
			for _, m := range models {
				if err := s.remove(ctx, address, m); err != nil {
					return fmt.Errorf("%s: %w", m, err)
				}
			}
			return nil
		},
	}, args)
}

// askToRemove returns nil if the user agrees.
func (s *session) askToRemove(models []string, address string) error {
	if !command.IsTerminal(s.Stdin) {
		return errors.New("nothing was removed: this needs --yes where nobody can be asked")
	}
	fmt.Fprintf(s.Stderr, "Move %s to the trash of %s? [y/N] ", strings.Join(models, ", "), address)
	answer, err := bufio.NewReader(s.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); err != nil || a != "y" && a != "yes" {
		return errors.New("nothing was removed")
	}
	return nil
}

func (s *session) remove(ctx context.Context, address, model string) error {
	body, err := s.call(ctx, http.MethodDelete, address+"/api/models/"+url.PathEscape(model),
		"the trash (only Nereid has one, in its GUI's interface)", "--ui-url")
	if err != nil {
		return err
	}
	var item api.Trashed
	if json.Unmarshal(body, &item) != nil || item.ID == "" {
		return errors.New("this is no interface of a Nereid GUI; give its address with --ui-url")
	}
	return s.print(item, [][]string{{printable(item.Model + " is in the trash, from " + item.From)}})
}
