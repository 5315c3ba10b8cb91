package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"nereid/app/command"
	"nereid/app/console/api"
	"nereid/engine/client"
)

// verb is one command: what the help says, and what it takes.
type verb struct {
	name, args string // args is the usage after the name
	about      string // of the help
	options    []command.Option
	least      int // number of arguments
	most       int // -1: any number
	run        func(ctx context.Context, s *session, args []string) error
}

// session is a call of a command: the server that it talks to, and where it prints.
type session struct {
	*command.Env

	url, token, ca string
	insecure       bool
	asJSON         bool
	timeout        float64 // seconds of a request; 0: no bound

	plain  *http.Client
	client *client.HTTP
}

// runVerb parses the arguments of a command, connects and runs it. It returns the exit status.
func runVerb(ctx context.Context, e *command.Env, v verb, args []string) int {
	s := &session{Env: e}
	sections := []command.Section{{Options: v.options}, {Title: "Server", Options: s.options()}}
	name := "nereid " + v.name
	flags := command.NewFlagSet(name, sections)
	err := command.ParseMixed(flags, args)
	usage := v.about + "\n\nUsage:\n  " + name + " " + strings.TrimLeft(v.args+" [options]", " ") + "\n" +
		command.Help(sections)
	switch {
	case err != nil && !errors.Is(err, flag.ErrHelp):
		err = command.FlagError(name, err)
	case err == nil && (flags.NArg() < v.least || v.most >= 0 && flags.NArg() > v.most):
		err = fmt.Errorf("usage: %s; %s --help lists the options", strings.TrimSpace(name+" "+v.args), name)
	case err == nil:
		err = s.connect()
	}
	if err != nil {
		return e.ExitStatus(err, usage)
	}
	defer s.client.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = v.run(ctx, s, flags.Args())
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = errors.New("interrupted")
	}
	return e.ExitStatus(s.explain(err), usage)
}

func (s *session) options() []command.Option {
	return []command.Option{
		command.Opt("-u, --url", "URL", "the server; default: the environment variable NEREID_URL, else "+
			"http://localhost:8000", &s.url),
		command.Opt("--token", "TOKEN", "sent as Authorization: Bearer; default: the environment variable "+
			"NEREID_TOKEN, which other users of this machine cannot see", &s.token),
		command.Opt("--ca", "FILE", "the authorities for https, in PEM form; default: the system's", &s.ca),
		command.Opt("--insecure", "", "does not check the certificate of https", &s.insecure),
		command.Opt("--timeout", "SECONDS", "how long a request may take; default: any time", &s.timeout),
		command.Opt("--json", "", "prints JSON", &s.asJSON),
	}
}

// connect makes the clients. It sends nothing.
func (s *session) connect() error {
	for _, v := range []struct {
		to             *string
		name, fallback string
	}{{&s.url, "NEREID_URL", "http://localhost:8000"}, {&s.token, "NEREID_TOKEN", ""}} {
		if *v.to == "" {
			*v.to = v.fallback
			if text, ok := s.Lookup(v.name); ok && text != "" {
				*v.to = text
			}
		}
	}
	s.url = withScheme(s.url)
	conf, err := tlsConfig(s.ca, s.insecure)
	if err != nil {
		return err
	}
	s.plain = &http.Client{
		Timeout: time.Duration(s.timeout * float64(time.Second)),
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		},
	}
	s.client, err = client.NewHTTP(s.url, client.HTTPOptions{Client: s.plain, Token: s.token})
	return err
}

func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}

// beside returns given, or the URL of another port of the server's machine.
func (s *session) beside(given, port string) string {
	if given != "" {
		return strings.TrimRight(withScheme(given), "/")
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return s.url
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
}

// get reads a resource that is not part of KServe v2. what names it in errors.
func (s *session) get(ctx context.Context, address, what, option string) ([]byte, error) {
	return s.call(ctx, http.MethodGet, address, what, option)
}

// call is get for any method.
func (s *session) call(ctx context.Context, method, address, what, option string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Nereid", "1") // the GUI's interface wants it in a request that changes something
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.plain.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; give its address with %s", what, unwrapURL(err), option)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<28))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s needs a token: give one with --token or NEREID_TOKEN (%s)", what, address)
	case resp.StatusCode != http.StatusOK:
		var e api.Error
		switch err := json.Unmarshal(body, &e); {
		case err == nil && e.Code != "": // the GUI's interface refuses
			return nil, errors.New(e.Error)
		case err == nil && e.Error != "":
			return nil, fmt.Errorf("%s: %s; %s names its address", what, e.Error, option)
		}
		return nil, fmt.Errorf("%s: %s answers %s; give its address with %s", what, address, resp.Status, option)
	}
	return body, nil
}

func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// explain says what to do about an error of the connection, and which extension a server lacks.
func (s *session) explain(err error) error {
	var e *url.Error
	if errors.As(err, &e) && strings.HasPrefix(e.URL, s.url) {
		return fmt.Errorf("the server %s cannot be reached: %w; start one with nereid serve, or name another with "+
			"--url", s.url, e.Err)
	}
	return err
}

// lacks explains the error of a call that needs an extension of KServe v2, if the server does not have it.
func (s *session) lacks(ctx context.Context, err error, extension string) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || !slices.Contains([]int{400, 404, 405, 501}, e.Status) {
		return err
	}
	meta, metaErr := s.client.ServerMetadata(ctx)
	if metaErr != nil || slices.Contains(meta.GetExtensions(), extension) {
		return err
	}
	name := strings.TrimSpace(meta.GetName() + " " + meta.GetVersion())
	return fmt.Errorf("the server %s (%s) has no extension %q, which this command needs", s.url, name, extension)
}

// print writes a value as JSON, or a table of rows, the header first.
func (s *session) print(value any, rows [][]string) error {
	if s.asJSON {
		enc := json.NewEncoder(s.Stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(value)
	}
	return writeTable(s.Stdout, rows)
}

func writeTable(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(r, "\t"), "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}
