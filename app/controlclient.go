package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"nereid/store"
)

// withStore runs local on the store of a data folder, or remote with the server that has the folder.
func withStore(dir string, remote func(*controlClient) error, local func(context.Context, *store.Store) error) error {
	ctx := context.Background()
	data, err := openDataDir(dir)
	var used *inUseError
	if errors.As(err, &used) {
		return remote(&controlClient{used})
	}
	if err != nil {
		return err
	}
	defer data.close()
	st, err := store.Open(ctx, data.path, store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(local(ctx, st), st.Close())
}

// controlClient talks to the server that has a data folder, over its control socket.
type controlClient struct{ used *inUseError }

// call asks the running server.
func (c *controlClient) call(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialControl(ctx, c.used.path) }}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return fmt.Errorf("the server%s that has the data folder %s does not answer: %w", c.used.holder, c.used.path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error string `json:"error"`
		}
		if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&e); err != nil || strings.TrimSpace(e.Error) == "" {
			return fmt.Errorf("the server%s answers %s", c.used.holder, resp.Status)
		}
		return errors.New(e.Error)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
