package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"nereid/app/access"
	"nereid/store"
)

// The commands of the same user talk to a running server over a socket in the data folder: whoever may open it may read
// the data folder anyhow, so that it asks for no token.
const (
	controlFolder = "control" // in the data folder, mode 0700
	controlName   = "socket"  // in it, mode 0600
)

// tokenBody is a token on the control socket. Token is its text, only in the answer to its making.
type tokenBody struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Scopes    string `json:"scopes"`
	CreatedUS int64  `json:"createdUs,omitempty"`
	Token     string `json:"token,omitempty"`
}

func bodyOf(t access.Token) tokenBody {
	return tokenBody{ID: t.ID, Name: t.Name, Scopes: t.Scope.String(), CreatedUS: t.CreatedUS}
}

// listenControl makes the socket. close takes it away.
func listenControl(dataDir string) (l net.Listener, err error) {
	dir := filepath.Join(dataDir, controlFolder)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	address, done, err := socketAddress(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if l, err = net.Listen("unix", address); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the name may be gone; removeControl takes the folder away
	if err := os.Chmod(filepath.Join(dir, controlName), 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

func removeControl(dataDir string) { _ = os.RemoveAll(filepath.Join(dataDir, controlFolder)) } // the next start does too

// dialControl connects to the server that holds a data folder.
func dialControl(ctx context.Context, dataDir string) (net.Conn, error) {
	address, done, err := socketAddress(filepath.Join(dataDir, controlFolder))
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", address)
}

// maxSocketPath is what fits into a socket's address on every system.
const maxSocketPath = 100

// socketAddress is how the socket in dir is called until done: a long path goes by the folder's descriptor.
func socketAddress(dir string) (address string, done func(), err error) {
	path := filepath.Join(dir, controlName)
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("control socket: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), controlName), func() { _ = f.Close() }, nil
}

// controlHandler makes, lists and revokes tokens, and keeps revisions of configurations that a command has changed.
func controlHandler(tokens *access.Tokens, st *store.Store) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any, err error) {
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			v = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(v) // an error is the reader's leaving
	}
	mux.HandleFunc("GET /tokens", func(w http.ResponseWriter, _ *http.Request) {
		list := []tokenBody{}
		for _, t := range tokens.List() {
			list = append(list, bodyOf(t))
		}
		answer(w, list, nil)
	})
	mux.HandleFunc("POST /tokens", func(w http.ResponseWriter, r *http.Request) {
		var in tokenBody
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil {
			answer(w, nil, err)
			return
		}
		out, err := createToken(r.Context(), tokens, in)
		answer(w, out, err)
	})
	mux.HandleFunc("DELETE /tokens/{id}", func(w http.ResponseWriter, r *http.Request) {
		gone, err := tokens.Revoke(r.Context(), r.PathValue("id"))
		answer(w, bodyOf(gone), err)
	})
	mux.HandleFunc("POST /revisions", func(w http.ResponseWriter, r *http.Request) {
		out, err := postRevision(st, w, r)
		answer(w, out, err)
	})
	return mux
}

func createToken(ctx context.Context, tokens *access.Tokens, in tokenBody) (tokenBody, error) {
	scope, err := access.ParseScopes(in.Scopes)
	if err != nil {
		return tokenBody{}, err
	}
	made, text, err := tokens.Create(ctx, in.Name, scope)
	out := bodyOf(made)
	out.Token = text
	return out, err
}

// serveControl serves the control socket, or says why the token commands will not reach this server.
func (s *server) serveControl() {
	l, err := listenControl(s.data.path)
	if err != nil {
		s.warn(fmt.Sprintf("the command nereid token cannot reach this server while it runs: %v", err))
		return
	}
	s.servePlain(l, &http.Server{Handler: controlHandler(s.tokens, s.store), ReadHeaderTimeout: 10 * time.Second})
}
