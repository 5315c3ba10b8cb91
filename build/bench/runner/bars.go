package main

import (
	"fmt"
	"strings"
)

// bar is a figure that the project wants to reach.
type bar struct {
	what       string
	got, limit float64
	atLeast    bool
	unit       string
	// wantedShare and gotShare are the same as shares of the reference's figure in the same run; 0: there is none. A
	// bar in µs was set beside a reference measured on one machine, its share holds on any.
	wantedShare, gotShare float64
}

func (b bar) row() string {
	ok, sign := b.got <= b.limit, "≤"
	if b.atLeast {
		ok, sign = b.got >= b.limit, "≥"
	}
	share := "|"
	if b.wantedShare > 0 {
		share = fmt.Sprintf("≤ %.2f | %.2f, %s", b.wantedShare, b.gotShare, verdict(b.gotShare <= b.wantedShare))
	}
	return fmt.Sprintf("| %s | %s %g %s | %.3g | %s | %s |\n", b.what, sign, b.limit, b.unit, b.got, verdict(ok), share)
}

func verdict(ok bool) string {
	if ok {
		return "held"
	}
	return "**missed**"
}

// loadBar is a bar on a case of the table.
type loadBar struct {
	name    string
	clients int
	what    string
	limit   float64
	atLeast bool
	// recorded is the reference's figure on the machine on which a bar in µs was set; 0: the bar is a ratio.
	recorded float64
}

const cpuBar, rateBar, p99Bar, p50Bar = "server CPU", "rate against the reference", "p99 against the reference", "p50 against the reference"

// loadBars are the bars on the load cases: server CPU in µs a request, the others as ratios to the reference.
func loadBars() []loadBar {
	return []loadBar{
		{"identity-http", 64, cpuBar, 15, false, 25},
		{"identity-http", 64, cpuBar, 11, false, 25},
		{"identity-grpc", 64, cpuBar, 20, false, 34},
		{"identity-grpc", 64, cpuBar, 16, false, 34},
		{"mlpdb-http", 64, cpuBar, 28, false, 77},
		{"identity-http", 16, rateBar, 1.6, true, 0},
		{"identity-http", 64, rateBar, 1.6, true, 0},
		{"identity-json", 16, rateBar, 1.8, true, 0},
		{"identity-json", 64, rateBar, 1.8, true, 0},
		{"identity-grpc", 16, rateBar, 1.6, true, 0},
		{"identity-grpc", 64, rateBar, 1.6, true, 0},
		{"mlpdb-http", 64, rateBar, 2.6, true, 0},
		{"identity-http", 64, p99Bar, 1, false, 0},
		{"identity-json", 64, p99Bar, 1, false, 0},
		{"identity-grpc", 64, p99Bar, 1, false, 0},
		{"identity-http", 1, p50Bar, 0.7, false, 0},
		{"identity-grpc", 1, p50Bar, 0.8, false, 0},
		{"cached-http", 64, rateBar, 1.6, true, 0},
		{"cached-http", 1, p50Bar, 0.7, false, 0},
		{"cached-json", 64, rateBar, 1.8, true, 0},
		{"cached-grpc", 64, rateBar, 1.6, true, 0},
		{"cached-grpc", 1, p50Bar, 0.8, false, 0},
		{"python-http", 1, rateBar, 1.5, true, 0},
		{"python-http", 16, rateBar, 1.5, true, 0},
		{"python-http", 64, rateBar, 1.5, true, 0},
		{"python-grpc", 1, rateBar, 1.5, true, 0},
		{"python-grpc", 16, rateBar, 1.5, true, 0},
		{"python-grpc", 64, rateBar, 1.5, true, 0},
		{"python-http", 1, p99Bar, 1, false, 0},
		{"python-http", 16, p99Bar, 1, false, 0},
		{"python-http", 64, p99Bar, 1, false, 0},
		{"python-grpc", 1, p99Bar, 1, false, 0},
		{"python-grpc", 16, p99Bar, 1, false, 0},
		{"python-grpc", 64, p99Bar, 1, false, 0},
		{"python-1mb-shm", 1, rateBar, 3, true, 0},
		{"python-1mb-shm", 4, rateBar, 3, true, 0},
		{"python-1mb-shm", 16, rateBar, 3, true, 0},
		{"python-1mb-shm-add", 1, rateBar, 3, true, 0},
		{"python-1mb-shm-add", 4, rateBar, 3, true, 0},
		{"python-1mb-shm-add", 16, rateBar, 3, true, 0},
		{"python-1mb-http", 1, rateBar, 1.7, true, 0},
		{"python-1mb-http", 4, rateBar, 1.7, true, 0},
	}
}

// barOf compares a bar with what was measured; false: it was not.
func (r *report) barOf(l loadBar) (bar, bool) {
	s := r.points[caseKey{l.name, l.clients}]
	if s == nil || len(s[0]) == 0 {
		return bar{}, false
	}
	clients := "clients"
	if l.clients == 1 {
		clients = "client"
	}
	b := bar{what: fmt.Sprintf("%s, %d %s, %s", l.name, l.clients, clients, l.what), limit: l.limit, atLeast: l.atLeast, unit: "times"}
	figure := map[string]func(loadPoint) float64{
		cpuBar:  func(p loadPoint) float64 { return p.ServerUS },
		rateBar: func(p loadPoint) float64 { return p.Rate },
		p99Bar:  func(p loadPoint) float64 { return p.P99MS },
		p50Bar:  func(p loadPoint) float64 { return p.P50MS },
	}[l.what]
	v, paired := pairRatio(s, figure)
	if l.recorded == 0 {
		b.got = v.median
		return b, paired
	}
	b.unit, b.got = "µs", spreadOf(s[0], figure).median
	if paired {
		b.wantedShare, b.gotShare = l.limit/l.recorded, v.median
	}
	return b, true
}

// bars compares the figures with the bars that the project has set itself.
func (r *report) bars() string {
	var list []bar
	for _, l := range loadBars() {
		if b, ok := r.barOf(l); ok {
			list = append(list, b)
		}
	}
	us := func(p loadPoint) float64 { return p.ServerUS }
	for _, k := range r.echoKeys() {
		if v, ok := pairRatio(r.echo[k], us); ok {
			list = append(list, bar{what: fmt.Sprintf("1 MiB tensors, %d clients, server CPU against the echo over %s", k.clients, k.library), got: v.median, limit: 1.2, unit: "times"})
		}
	}
	for _, p := range r.idle {
		if p.proto != "http" {
			continue
		}
		list = append(list,
			bar{what: fmt.Sprintf("%d idle HTTP connections, memory each", p.connections), got: float64(p.bytesEach) / 1000, limit: 10, unit: "KB"},
			bar{what: "a request on one of them, at most", got: ms(p.old.most), limit: 50, unit: "ms"},
			bar{what: "a request on a new connection beside them, at most", got: ms(p.fresh.most), limit: 50, unit: "ms"})
	}
	if v, ok := pairRatio(&r.history, us); ok {
		list = append(list, bar{what: "recording the history, server CPU", got: (v.median - 1) * 100, limit: 2, unit: "%"})
	}
	list = append(list, r.instances.bars()...)
	list = append(list, r.conv.bars()...)
	list = append(list, r.python.bars()...)
	list = append(list, r.recovery.bars()...)
	if p := r.starts[0]; len(p) > 0 {
		list = append(list,
			bar{what: "start to ready, empty repository", got: spreadOf(p, func(p startPoint) float64 { return float64(p.toReady) / 1e6 }).median, limit: 150, unit: "ms"},
			bar{what: "RSS at rest, no models", got: spreadOf(p, func(p startPoint) float64 { return p.rssMB }).median, limit: 60, unit: "MB"},
			bar{what: "CPU at rest", got: spreadOf(p, func(p startPoint) float64 { return p.idleCPU }).median, limit: 1, unit: "%"})
	}
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| bar | wanted | measured | | share of the reference wanted | measured |\n|---|---|---|---|---|---|\n")
	for _, x := range list {
		b.WriteString(x.row())
	}
	return b.String()
}
