package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// longPoll is how long the platform may wait for a change before it answers.
	longPoll = 30 * time.Second
	// maxAnswer limits the answers of the platform, in bytes.
	maxAnswer = 32 << 20
)

// platform is a client of the platform's API, for one node.
type platform struct {
	url       *url.URL
	node      string // its name
	tokenFile string // "": requests have no token
	client    *http.Client
}

// call sends a request to the platform. The caller closes the body of the answer.
func (p *platform) call(ctx context.Context, method, path string, body []byte, header map[string]string) (
	*http.Response, error) {
	at := p.url.JoinPath("v1/nodes", url.PathEscape(p.node), path)
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // e has the URL
	}
	return resp, err
}

// desired asks for the desired state; nil if it is still the one with the tag.
func (p *platform) desired(ctx context.Context, tag string) (d *Desired, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*longPoll)
	defer cancel()
	header := map[string]string{"Prefer": "wait=" + strconv.Itoa(int(longPoll.Seconds()))}
	if tag != "" {
		header["If-None-Match"] = tag
	}
	resp, err := p.call(ctx, http.MethodGet, "desired", nil, header)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil, "", nil
	case http.StatusOK:
	default:
		return nil, "", fmt.Errorf("the catalog answers %s", resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, "", err
	}
	if len(b) > maxAnswer {
		return nil, "", fmt.Errorf("the desired state has more than %d bytes", maxAnswer)
	}
	parsed, err := parse(b)
	if err != nil {
		return nil, "", err
	}
	return &parsed, resp.Header.Get("ETag"), nil
}

// report sends a report.
func (p *platform) report(ctx context.Context, r *Report) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	resp, err := p.call(ctx, http.MethodPut, "", body, map[string]string{"Content-Type": "application/json"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the catalog answers %s", resp.Status)
	}
	return nil
}

// token reads the token of the catalog, which may change; "" if there is none.
func (p *platform) token() (string, error) {
	if p.tokenFile == "" {
		return "", nil
	}
	f, err := os.Open(p.tokenFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return strings.TrimSpace(string(b)), err
}
