package main

import (
	"fmt"
	"slices"
	"strings"
)

// limit says what a bar limits.
type limit int

const (
	atMost       limit = iota // our value
	ratioAtMost               // our value to the other's
	ratioAtLeast              // the same
)

// bar is a limit that the project sets for a figure.
type bar struct {
	name    string // of a case without its clients; without clients, the beginning of the names of the cases
	clients []int
	figure  figure
	kind    limit
	limit   float64
	// recorded is the reference's figure on the machine on which a bar in µs was set; 0: none. The bar's share of it
	// holds on any machine.
	recorded float64
}

// bars returns all bars. Some depend on what was measured.
func bars(all *results) []bar {
	one, more, every := []int{1}, []int{16, 64}, []int{1, 16, 64}
	most, few := []int{64}, []int{1, 4, 16}
	numpy := 0.0
	if r := all.find(numpyImport, seconds); r != nil {
		numpy = spreadOf(r.sides[0]).median
	}
	list := []bar{
		{"identity-http", most, serverUS, atMost, 15, 25},
		{"identity-http", most, serverUS, atMost, 11, 25},
		{"identity-grpc", most, serverUS, atMost, 20, 34},
		{"identity-grpc", most, serverUS, atMost, 16, 34},
		{"mlpdb-http", most, serverUS, atMost, 28, 77},
		{"identity-http", more, rate, ratioAtLeast, 1.6, 0},
		{"identity-json", more, rate, ratioAtLeast, 1.8, 0},
		{"identity-grpc", more, rate, ratioAtLeast, 1.6, 0},
		{"mlpdb-http", most, rate, ratioAtLeast, 2.6, 0},
		{"identity-http", most, p99, ratioAtMost, 1, 0},
		{"identity-json", most, p99, ratioAtMost, 1, 0},
		{"identity-grpc", most, p99, ratioAtMost, 1, 0},
		{"identity-http", one, p50, ratioAtMost, 0.7, 0},
		{"identity-grpc", one, p50, ratioAtMost, 0.8, 0},
		{"cached-http", most, rate, ratioAtLeast, 1.6, 0},
		{"cached-http", one, p50, ratioAtMost, 0.7, 0},
		{"cached-json", most, rate, ratioAtLeast, 1.8, 0},
		{"cached-grpc", most, rate, ratioAtLeast, 1.6, 0},
		{"cached-grpc", one, p50, ratioAtMost, 0.8, 0},
		{"start", nil, toReady, atMost, 150, 0},
		{"start", nil, restMemory, atMost, 60, 0},
		{"start", nil, restCPU, atMost, 1, 0},
		{"history", nil, serverUS, ratioAtMost, 1.02, 0},
		{"record-requests", nil, serverUS, ratioAtMost, 1.02, 0},
		{"echo-", nil, serverUS, ratioAtMost, 1.2, 0},
		{"idle-http", nil, idleMemory, atMost, 10, 0},
		{"idle-http", nil, idleMost, atMost, 50, 0},
		{"conv", nil, rate, ratioAtLeast, 0.97, 0},
		{"python-http", every, rate, ratioAtLeast, 1.5, 0},
		{"python-grpc", every, rate, ratioAtLeast, 1.5, 0},
		{"python-http", every, p99, ratioAtMost, 1, 0},
		{"python-grpc", every, p99, ratioAtMost, 1, 0},
		{"python-1mb-shm", few, rate, ratioAtLeast, 2, 0},
		{"python-1mb-shm-add", few, rate, ratioAtLeast, 2, 0},
		{"python-1mb-http", []int{1, 4}, rate, ratioAtLeast, 1.7, 0},
		{blsBuiltin, nil, blsCall, atMost, 60, 0},
		{pythonStart, nil, startTime, atMost, 0.3 + numpy, 0},
		{pythonStart, nil, stopTime, atMost, 0.2, 0},
		{libraryHTTP, []int{16}, rate, ratioAtLeast, 1.2, 0},
		{libraryWorker, []int{16}, rate, ratioAtLeast, 0.8, 0},
		{boundHTTP, []int{16}, rate, ratioAtLeast, 1.5, 0},
		{ocrHTTP, []int{8}, rate, ratioAtLeast, 1.5, 0},
		{ocrHTTP, []int{8}, p99, ratioAtMost, 1, 0},
		{"recovery", nil, failsAfter, atMost, 1, 0},
		{"recovery", nil, backAfter, atMost, 2, 0},
		{"recovery", nil, goneAfter, atMost, 2, 0},
	}
	for _, c := range instanceCases() {
		list = append(list, bar{c.name(), nil, c.figure, c.kind, c.limit, 0})
	}
	return list
}

// caseName is the name of a load with a number of clients.
func caseName(load string, clients int) string {
	if clients == 1 {
		return load + ", 1 client"
	}
	return fmt.Sprintf("%s, %d clients", load, clients)
}

func (b *bar) isAbout(r *result) bool {
	if b.clients == nil {
		return b.figure == r.figure && strings.HasPrefix(r.name, b.name)
	}
	return b.figure == r.figure &&
		slices.ContainsFunc(b.clients, func(n int) bool { return r.name == caseName(b.name, n) })
}

// row is the bar's row of the report for a result; "" if it is about another one.
func (b *bar) row(r *result) string {
	ratios := r.ratios()
	if !b.isAbout(r) || len(r.sides[0]) == 0 || b.kind != atMost && len(ratios) == 0 {
		return ""
	}
	got, ratio := spreadOf(r.sides[0]).median, spreadOf(ratios).median
	if b.kind != atMost {
		got = ratio
	}
	ok, sign, what := got <= b.limit, "≤", ""
	if b.kind == ratioAtLeast {
		ok, sign = got >= b.limit, "≥"
	}
	if b.kind != atMost {
		what = " times"
	}
	share := "|"
	if b.recorded > 0 && len(ratios) > 0 {
		wanted := b.limit / b.recorded
		share = fmt.Sprintf("≤ %.2f | %.2f, %s", wanted, ratio, verdict(ratio <= wanted))
	}
	return fmt.Sprintf("| %s: %s | %s %.3g%s | %.3g | %s | %s |\n", r.name, r.figure.name, sign, b.limit, what, got,
		verdict(ok), share)
}

func verdict(ok bool) string {
	if ok {
		return "held"
	}
	return "**missed**"
}
