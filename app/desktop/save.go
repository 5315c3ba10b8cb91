package desktop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"nereid/engine/system/replace"
)

// saveRequest is what the page asks to save in a file, because a window has no downloads: the response to a GET of the
// console, or bytes that the page has.
type saveRequest struct {
	Name string `json:"name"`           // suggested to the user
	Path string `json:"path,omitempty"` // below /api/, with its query
	Data []byte `json:"data,omitempty"` // base64 in JSON; used if Path is empty
}

// parseSave reads the data of the page's event, one object.
func parseSave(data []any) (s saveRequest, err error) {
	if len(data) != 1 {
		return s, fmt.Errorf("a request to save has %d parts, want 1", len(data))
	}
	b, err := json.Marshal(data[0])
	if err != nil {
		return s, fmt.Errorf("a request to save: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("a request to save: %w", err)
	}
	if s.Path != "" && !strings.HasPrefix(s.Path, "/api/") {
		return s, fmt.Errorf("a request to save asks for %q, which is not below /api/", s.Path)
	}
	s.Name = strings.ReplaceAll(s.Name, "/", "_")
	return s, nil
}

// write saves to the file atomically: an existing file stays until the new one is complete. base is the URL of the
// console.
func (s saveRequest) write(ctx context.Context, base, file string) error {
	from, err := s.open(ctx, base)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := replace.File(file, from, 0o644); err != nil {
		return fmt.Errorf("cannot save %s: %w", file, err)
	}
	return nil
}

func (s saveRequest) open(ctx context.Context, base string) (io.ReadCloser, error) {
	if s.Path == "" {
		return io.NopCloser(bytes.NewReader(s.Data)), nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+s.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot save: %w", err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req) // loopback: no proxy
	if err != nil {
		return nil, fmt.Errorf("cannot save: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var said struct{ Error string }
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(b, &said)
	}
	if err != nil || said.Error == "" {
		said.Error = resp.Status
	}
	return nil, errors.New("cannot save: " + said.Error)
}
