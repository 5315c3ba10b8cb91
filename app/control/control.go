// Package control is the way of the program's commands to a running server of the same user: a socket in the data
// folder. Whoever may open it may read the data folder anyway, so it needs no token.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"nereid/app/access"
	"nereid/engine/system/socket"
	"nereid/store"
)

const (
	folderName = "control" // in the data folder, mode 0700
	socketName = "socket"  // in it, mode 0600
	// headerLimit is how long a request's header may take.
	headerLimit = 10 * time.Second
)

// Listen makes the socket of a data folder. Remove deletes it.
func Listen(dataDir string) (net.Listener, error) {
	dir := filepath.Join(dataDir, folderName)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	address, done, err := socketAddress(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.Listen("unix", address)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(false) // the name may be gone; Remove deletes the folder
	if err := os.Chmod(filepath.Join(dir, socketName), 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return ownUser{ul}, nil
}

// ownUser accepts connections of this program's user and of root only. The modes of the folder and the socket say the
// same, but not on every file system.
type ownUser struct{ *net.UnixListener }

// Accept closes connections of other users.
func (l ownUser) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return c, nil //nolint:nilerr // the connection is closed, as its server will find
		}
		if uid, known := socket.UnixPeer(raw); !known || uid == 0 || uid == os.Getuid() {
			return c, nil
		}
		_ = c.Close() // it was not used
	}
}

// Remove deletes the socket of a data folder. If it cannot, the next Listen does.
func Remove(dataDir string) { _ = os.RemoveAll(filepath.Join(dataDir, folderName)) }

// dial connects to the server that has a data folder open.
func dial(ctx context.Context, dataDir string) (net.Conn, error) {
	address, done, err := socketAddress(filepath.Join(dataDir, folderName))
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", address)
}

// maxSocketPath fits into a socket's address on every system.
const maxSocketPath = 100

// socketAddress is the address of the socket in dir until done is called. A long path goes through the descriptor of
// the folder.
func socketAddress(dir string) (address string, done func(), err error) {
	path := filepath.Join(dir, socketName)
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("control socket: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketName), func() { _ = f.Close() }, nil
}

// Token is an access token.
type Token struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Scopes    string `json:"scopes"`
	CreatedUS int64  `json:"createdUs,omitempty"` // Unix time in microseconds
	UsedUS    int64  `json:"usedUs,omitempty"`    // the last use; 0: not since the start of the server
	// Token is its text, which only the response to its creation has.
	Token string `json:"token,omitempty"`
}

func tokenOf(t access.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Scopes: t.Scope.String(), CreatedUS: t.CreatedUS, UsedUS: t.UsedUS}
}

// NewServer returns a server that creates, lists and revokes tokens, stores revisions of configurations, makes links to
// the GUI with link, and writes support bundles with support.
func NewServer(tokens *access.Tokens, st *store.Store, link func() (string, error),
	support func(context.Context, io.Writer) error) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tokens", func(w http.ResponseWriter, _ *http.Request) {
		list := []Token{}
		for _, t := range tokens.List() {
			list = append(list, tokenOf(t))
		}
		respond(w, list, nil)
	})
	mux.HandleFunc("POST /tokens", func(w http.ResponseWriter, r *http.Request) {
		var in Token
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in)
		if err == nil {
			in, err = create(r.Context(), tokens, in)
		}
		respond(w, in, err)
	})
	mux.HandleFunc("DELETE /tokens/{id}", func(w http.ResponseWriter, r *http.Request) {
		t, err := tokens.Revoke(r.Context(), r.PathValue("id"))
		respond(w, tokenOf(t), err)
	})
	mux.HandleFunc("POST /revisions", func(w http.ResponseWriter, r *http.Request) {
		var rev store.Revision
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&rev)
		if err == nil {
			rev.ID, rev.Parent = 0, 0
			rev, err = st.AddRevision(r.Context(), rev)
		}
		respond(w, struct{ ID int64 }{rev.ID}, err)
	})
	mux.HandleFunc("POST /link", func(w http.ResponseWriter, _ *http.Request) {
		url, err := link()
		respond(w, url, err)
	})
	mux.HandleFunc("GET /support", func(w http.ResponseWriter, r *http.Request) {
		if err := support(r.Context(), w); err != nil {
			panic(http.ErrAbortHandler) // the client sees that the bundle is not complete
		}
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: headerLimit}
}

func respond(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // it fails only if the client has gone
}

func create(ctx context.Context, tokens *access.Tokens, in Token) (Token, error) {
	scope, err := access.ParseScopes(in.Scopes)
	if err != nil {
		return Token{}, err
	}
	made, text, err := tokens.Create(ctx, in.Name, scope)
	out := tokenOf(made)
	out.Token = text
	return out, err
}
