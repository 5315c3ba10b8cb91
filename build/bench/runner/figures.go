package main

import (
	"fmt"
	"slices"
)

// loadPoint is what loadgen and embedded print of one load, as far as it is used here.
type loadPoint struct {
	Rate     float64  `json:"rate"` // requests per second
	P50MS    float64  `json:"p50_ms"`
	P99MS    float64  `json:"p99_ms"`
	ServerUS float64  `json:"server_us"` // CPU time per request
	OtherCPU float64  `json:"other_cpu"` // cores that other processes used
	Errors   uint64   `json:"errors"`
	Faults   []string `json:"faults"`
}

// figure is one value of a point.
type figure func(loadPoint) float64

func rate(p loadPoint) float64     { return p.Rate }
func p50(p loadPoint) float64      { return p.P50MS }
func p99(p loadPoint) float64      { return p.P99MS }
func serverUS(p loadPoint) float64 { return p.ServerUS }

// pair is the points of two sides that were measured in turn; side 0 is ours.
type pair [2][]loadPoint

func (p *pair) add(side int, point loadPoint) { p[side] = append(p[side], point) }

// text is a figure's median and range on one side.
func (p *pair) text(side int, of figure, format string) string {
	if len(p[side]) == 0 {
		return "–"
	}
	return spreadOf(p[side], of).text(format)
}

// ratio is the spread over the pairs of side 0's figure to side 1's; false if there are no pairs.
func (p *pair) ratio(of figure) (spread, bool) {
	var v []float64
	for i := range min(len(p[0]), len(p[1])) {
		if d := of(p[1][i]); d > 0 {
			v = append(v, of(p[0][i])/d)
		}
	}
	return median(v), len(v) > 0
}

func (p *pair) ratioText(of figure, format string) string {
	if v, ok := p.ratio(of); ok {
		return v.text(format)
	}
	return "–"
}

// spread is a median with its range.
type spread struct{ median, low, high float64 }

func median(v []float64) spread { return spreadOf(v, func(x float64) float64 { return x }) }

func spreadOf[T any](points []T, of func(T) float64) spread {
	var v []float64
	for _, p := range points {
		v = append(v, of(p))
	}
	if len(v) == 0 {
		return spread{}
	}
	slices.Sort(v)
	m := v[len(v)/2]
	if len(v)%2 == 0 {
		m = (v[len(v)/2-1] + m) / 2
	}
	return spread{m, v[0], v[len(v)-1]}
}

func (s spread) text(format string) string {
	if s.low == s.high {
		return fmt.Sprintf(format, s.median)
	}
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", s.median, s.low, s.high)
}
