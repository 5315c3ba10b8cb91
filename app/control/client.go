package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"nereid/app/access"
	"nereid/app/datadir"
	"nereid/app/listen"
	"nereid/app/support"
	"nereid/store"
)

// Client changes what a data folder holds: through the server that has the folder open, or in the folder itself if no
// server has.
type Client struct {
	dial   func(context.Context) (net.Conn, error)
	server string // in errors
}

// With runs f with a client of a data folder.
func With(dataDir string, f func(*Client) error) (err error) {
	data, err := datadir.Open(dataDir)
	var used *datadir.InUseError
	if errors.As(err, &used) {
		return f(&Client{
			dial:   func(ctx context.Context) (net.Conn, error) { return dial(ctx, used.Path) },
			server: fmt.Sprintf("the server%s that has the data folder %s", used.Holder, used.Path),
		})
	}
	if err != nil {
		return err
	}
	defer data.Close()
	ctx := context.Background()
	st, err := store.Open(ctx, data.Path, access.StoreOptions(data.Path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	tokens := access.New(ctx, access.Options{Folder: data.Path, Store: st})
	if err := tokens.Unread(); err != nil {
		return fmt.Errorf("the access tokens cannot be read: %w", err)
	}
	pipe, srv := listen.NewPipe(), NewServer(tokens, st, noServer(data.Path), stopped(data.Path, st))
	go func() { _ = srv.Serve(pipe) }() // until Shutdown
	err = f(&Client{dial: pipe.Dial, server: "this program"})
	return errors.Join(err, srv.Shutdown(ctx))
}

// noServer is the answer to what only a running server can do.
func noServer(dir string) func() (string, error) {
	return func() (string, error) { return "", fmt.Errorf("no server runs on the data folder %s", dir) }
}

// stopped writes the support bundle of a data folder without a server.
func stopped(dir string, st *store.Store) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		return support.Write(w, []support.Part{support.Events(ctx, st), support.Crash(dir)})
	}
}

// Link returns a link that opens the GUI of the running server, once.
func (c *Client) Link() (url string, err error) {
	err = c.call(http.MethodPost, "/link", struct{}{}, &url)
	return url, err
}

// CreateToken creates a token with the name and the scopes of in.
func (c *Client) CreateToken(in Token) (out Token, err error) {
	err = c.call(http.MethodPost, "/tokens", in, &out)
	return out, err
}

// Tokens lists the tokens.
func (c *Client) Tokens() (out []Token, err error) {
	err = c.call(http.MethodGet, "/tokens", nil, &out)
	return out, err
}

// RevokeToken revokes a token by its id or name, and returns it.
func (c *Client) RevokeToken(idOrName string) (out Token, err error) {
	err = c.call(http.MethodDelete, "/tokens/"+url.PathEscape(idOrName), nil, &out)
	return out, err
}

// Support writes a support bundle to w.
func (c *Client) Support(w io.Writer) error {
	return c.do(http.MethodGet, "/support", nil, func(body io.Reader) error {
		_, err := io.Copy(w, body)
		return err
	})
}

// AddRevision stores a revision of a configuration. Its ID and parent are chosen by the store.
func (c *Client) AddRevision(r store.Revision) error {
	return c.call(http.MethodPost, "/revisions", r, &struct{}{})
}

func (c *Client) call(method, path string, in, out any) error {
	return c.do(method, path, in, func(body io.Reader) error { return json.NewDecoder(body).Decode(out) })
}

// do sends in as JSON and has read read the reply.
func (c *Client) do(method, path string, in any, read func(io.Reader) error) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return c.dial(ctx)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", c.server, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error string `json:"error"`
		}
		err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&e)
		if err != nil || strings.TrimSpace(e.Error) == "" {
			return fmt.Errorf("%s answers %s", c.server, resp.Status)
		}
		return errors.New(e.Error)
	}
	return read(resp.Body)
}
