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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nereid/engine/clock"
	"nereid/engine/device"
	"nereid/engine/system/proc"
)

const (
	// longPoll is how long the platform may wait for a change before it answers.
	longPoll = 30 * time.Second
	// maxAnswer limits the answers of the platform, in bytes.
	maxAnswer = 32 << 20
)

// call sends a request to the platform. The caller closes the body of the answer.
func (n *Node) call(ctx context.Context, method, path string, body []byte, header map[string]string) (*http.Response,
	error) {
	at := n.URL.JoinPath("v1/nodes", url.PathEscape(n.Name), path)
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	token, err := n.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := n.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // e has the URL
	}
	return resp, err
}

// getDesired asks for the desired state; nil if it is still the one with the tag.
func (n *Node) getDesired(ctx context.Context, tag string) (d *Desired, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*longPoll)
	defer cancel()
	header := map[string]string{"Prefer": "wait=" + strconv.Itoa(int(longPoll.Seconds()))}
	if tag != "" {
		header["If-None-Match"] = tag
	}
	resp, err := n.call(ctx, http.MethodGet, "desired", nil, header)
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

// report tells the platform about this node until ctx ends: at each interval, and when a model has changed.
func (n *Node) report(ctx context.Context) {
	rate := new(rate)
	for ctx.Err() == nil {
		n.pauseReport(ctx)
		if err := n.tell(ctx, rate); err != nil && ctx.Err() == nil {
			n.Log.Debug("the catalog takes no report", "err", err)
		}
	}
}

// tell sends one report.
func (n *Node) tell(ctx context.Context, rate *rate) error {
	r := n.makeReport()
	r.Load.RequestsPerSecond = rate.update(n.requests(), time.Now())
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return n.send(ctx, body)
}

// pauseReport waits for the interval, or for news, but not for less than a tenth of it.
func (n *Node) pauseReport(ctx context.Context) {
	clock.Sleep(ctx, n.Interval/10)
	rest := time.NewTimer(n.Interval - n.Interval/10)
	defer rest.Stop()
	select {
	case <-ctx.Done():
	case <-rest.C:
	case <-n.news:
	}
}

func (n *Node) send(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	resp, err := n.call(ctx, http.MethodPut, "", body, map[string]string{"Content-Type": "application/json"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the catalog answers %s", resp.Status)
	}
	return nil
}

func (n *Node) makeReport() Report {
	host := device.Host()
	r := Report{Version: n.Version, Models: []ModelReport{}, Files: n.files.digests(),
		Load: Load{MemoryBytes: host.Memory, MemoryFreeBytes: host.Free}}
	if free, ok := proc.FreeBytes(n.Folder); ok {
		r.Load.DiskFreeBytes = int64(free)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r.Peer, r.Desired = n.peer, n.state.Tag
	for _, m := range n.state.Desired.Models {
		report, ok := n.phases[m.Name]
		if !ok {
			report = ModelReport{Name: m.Name, State: waiting}
		}
		n.describe(&report)
		r.Models = append(r.Models, report)
	}
	return r
}

// describe adds what the engine knows of a model of the catalog.
func (n *Node) describe(r *ModelReport) {
	r.Versions = []VersionReport{}
	st, ok := n.engine.Model(n.key(r.Name))
	if !ok || filepath.Clean(st.Repository) != n.Repository() {
		return
	}
	served := false
	for _, v := range st.Versions {
		r.Versions = append(r.Versions, VersionReport{Version: v.Version, State: string(v.State), Reason: v.Reason})
		served = served || string(v.State) == ready
	}
	if r.State == ready && !served {
		r.State = failed
		if r.Reason = "no version is in service"; st.Err != nil {
			r.Reason = strings.TrimSpace(st.Err.Error())
		}
	}
}

// requests returns how many requests all models have answered.
func (n *Node) requests() (sum uint64) {
	for _, s := range n.engine.Snapshots(nil) {
		sum += s.Success.Count + s.Fail.Count
	}
	return sum
}

// rate makes requests per second of counts.
type rate struct {
	count uint64
	at    time.Time
}

func (r *rate) update(count uint64, now time.Time) float64 {
	before := *r
	r.count, r.at = count, now
	if before.at.IsZero() || count < before.count || !now.After(before.at) {
		return 0 // there is no earlier count, or a model was unloaded
	}
	return float64(count-before.count) / now.Sub(before.at).Seconds()
}
