package catalog

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"nereid/engine/clock"
	"nereid/engine/device"
	"nereid/engine/system/proc"
)

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
	return n.platform.report(ctx, &r)
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
