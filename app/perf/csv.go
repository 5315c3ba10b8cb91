package perf

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// percentiles are those of the reports, including the decisive one.
func percentiles(also int) []int {
	list := []int{50, 90, 95, 99}
	if also > 0 && !slices.Contains(list, also) {
		list = append(list, also)
		slices.Sort(list)
	}
	return list
}

// CSVOptions select the columns.
type CSVOptions struct {
	Model   *Model
	Verbose bool
	Metrics bool // columns of the GPUs, in the verbose form
}

// WriteCSV writes the points in perf_analyzer's columns, sorted by throughput. Times are whole microseconds.
// Format: perf_analyzer's -f.
func WriteCSV(w io.Writer, points []Point, o CSVOptions) error {
	if len(points) == 0 {
		return nil
	}
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b Point) int { return cmp.Compare(a.Throughput(), b.Throughput()) })
	var b strings.Builder
	line := func(cells []string) { b.WriteString(strings.Join(cells, ",") + "\n") }
	line(csvHead(&sorted[0], &o))
	for i := range sorted {
		line(csvRow(&sorted[i], &o))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func levelName(p *Point) string {
	if p.Concurrency {
		return "Concurrency"
	}
	return "Request Rate"
}

func csvHead(p *Point, o *CSVOptions) []string {
	h := []string{levelName(p), "Inferences/Second"}
	if o.Model.Decoupled {
		h = append(h, "Response Throughput")
	}
	h = append(h, "Client Send")
	if p.Server != nil {
		h = append(h, serverHead(o.Model.Cached)...)
	}
	h = append(h, "Client Recv")
	for _, n := range percentiles(p.Percentile) {
		h = append(h, fmt.Sprintf("p%d latency", n))
	}
	if !o.Verbose {
		return h
	}
	if p.Percentile == 0 {
		h = append(h, "Avg latency")
	}
	h = append(h, "request/response", "response wait")
	if o.Metrics {
		h = append(h, "Avg GPU Utilization", "Avg GPU Power Usage", "Max GPU Memory Usage", "Total GPU Memory")
	}
	return h
}

func serverHead(cached bool) []string {
	h := []string{"Network+Server Send/Recv", "Server Queue", "Server Compute Input", "Server Compute Infer",
		"Server Compute Output"}
	if cached {
		h = append(h, "Server Cache Hit", "Server Cache Miss")
	}
	return h
}

// decimal formats a number with six digits, as perf_analyzer does.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// clientTimes are averages of the client: its own work before and after, and the wait for the response.
func (p *Point) clientTimes() (send, wait, receive time.Duration) {
	send, receive = p.mean(p.Send), p.mean(p.Receive)
	return send, max(0, p.mean(p.Wait)-send-receive), receive
}

func csvRow(p *Point, o *CSVOptions) []string {
	send, wait, receive := p.clientTimes()
	row := []string{decimal(p.Level), decimal(p.Throughput())}
	if o.Model.Decoupled {
		row = append(row, decimal(p.ResponseThroughput()))
	}
	row = append(row, micros(send))
	if p.Server != nil {
		row = append(row, serverCells(p.Server, wait-p.Server.Accounted(), o.Model.Cached)...)
	}
	row = append(row, micros(receive))
	for _, n := range percentiles(p.Percentile) {
		row = append(row, micros(p.Latency.Quantile(float64(n)/100)))
	}
	if !o.Verbose {
		return row
	}
	if p.Percentile == 0 {
		row = append(row, micros(p.Latency.Mean()))
	}
	row = append(row, micros(send+receive), micros(wait))
	if o.Metrics {
		row = append(row, gpuCells(p.Metrics)...)
	}
	return row
}

func serverCells(s *ServerStats, network time.Duration, cached bool) []string {
	cells := []string{micros(max(0, network)), micros(s.Queue.Mean()), micros(s.Input.Mean()), micros(s.Infer.Mean()),
		micros(s.Output.Mean())}
	if cached {
		cells = append(cells, micros(s.CacheHit.Mean()), micros(s.CacheMiss.Mean()))
	}
	return cells
}

func gpuCells(m Metrics) []string {
	if m == nil {
		return []string{"", "", "", ""}
	}
	cell := func(g Gauge, of func(Reading) float64) string {
		var b strings.Builder
		for _, gpu := range slices.Sorted(maps.Keys(g)) {
			fmt.Fprintf(&b, "%s:%s;", gpu, decimal(of(g[gpu])))
		}
		return b.String()
	}
	return []string{
		cell(m[GPUUtilization], Reading.Mean), cell(m[GPUPower], Reading.Mean),
		cell(m[GPUUsedMemory], func(r Reading) float64 { return r.Max }),
		cell(m[GPUTotalMemory], func(r Reading) float64 { return r.First }),
	}
}

// WriteComposingCSV writes the points' figures of a composing model, by its index in ServerStats.Composing. Its
// throughput is in proportion to its requests.
func WriteComposingCSV(w io.Writer, points []Point, which int, cached bool) error {
	var b strings.Builder
	for i := range points {
		p := &points[i]
		if p.Server == nil || which >= len(p.Server.Composing) {
			return fmt.Errorf("the point of level %v has no statistics of model %d", p.Level, which)
		}
		if i == 0 {
			h := append([]string{levelName(p), "Inferences/Second", "Client Send"}, serverHead(cached)...)
			b.WriteString(strings.Join(append(h, "Client Recv"), ",") + "\n")
		}
		s := &p.Server.Composing[which]
		rate := 0.0
		if p.Server.Success.Count > 0 {
			rate = float64(s.Success.Count) / float64(p.Server.Success.Count) * p.Throughput()
		}
		row := append([]string{decimal(p.Level), decimal(rate), "0"},
			serverCells(s, s.Success.Mean()-s.Accounted(), cached)...)
		b.WriteString(strings.Join(append(row, "0"), ",") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
