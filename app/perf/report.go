package perf

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// ReportOptions say what a report contains.
type ReportOptions struct {
	Model    *Model
	Protocol string // "HTTP" or "gRPC"
	Verbose  bool
}

func us(d time.Duration) string { return fmt.Sprintf("%d usec", d.Microseconds()) }

// WriteReport writes the figures of a level as text, in the order and words of perf_analyzer.
func WriteReport(w io.Writer, p *Point, o ReportOptions) error {
	var b strings.Builder
	b.WriteString("  Client: \n")
	clientReport(&b, p, &o)
	if p.Server != nil {
		b.WriteString("  Server: \n")
		serverReport(&b, p.Server, o.Model.Cached, "    ")
	}
	if p.Metrics != nil {
		b.WriteString("  Server Prometheus Metrics: \n")
		gpuReport(&b, p.Metrics)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func clientReport(b *strings.Builder, p *Point, o *ReportOptions) {
	fmt.Fprintf(b, "    Request count: %d\n", p.Requests)
	if !p.Concurrency && p.Requests > 0 {
		fmt.Fprintf(b, "    Latency counts from when a request was due; it was sent %s later on average\n",
			us(p.mean(p.Lag)))
		if share := 100 * float64(p.Delayed) / float64(p.Requests); share > 1 {
			fmt.Fprintf(b, "    [WARNING] %.2f%% of the requests were sent more than a millisecond late\n", share)
		}
	}
	if o.Model.Sequence {
		fmt.Fprintf(b, "    Sequence count: %d (%.2f seq/sec)\n", p.Sequences, p.Rate(p.Sequences))
	}
	fmt.Fprintf(b, "    Throughput: %s infer/sec\n", decimal(p.Throughput()))
	if o.Model.Decoupled {
		fmt.Fprintf(b, "    Response Throughput: %s infer/sec\n", decimal(p.ResponseThroughput()))
	}
	if p.Percentile == 0 {
		fmt.Fprintf(b, "    Avg latency: %s (standard deviation %s)\n", us(p.Latency.Mean()), us(p.Latency.Deviation()))
	}
	for _, n := range percentiles(p.Percentile) {
		fmt.Fprintf(b, "    p%d latency: %s\n", n, us(p.Latency.Quantile(float64(n)/100)))
	}
	send, wait, receive := p.clientTimes()
	fmt.Fprintf(b, "    Avg %s time: %s (", o.Protocol, us(p.mean(p.Wait)))
	switch grpc := o.Protocol == "gRPC"; {
	case o.Verbose && grpc:
		fmt.Fprintf(b, "marshal %s + response wait %s + unmarshal %s)\n", us(send), us(wait), us(receive))
	case o.Verbose:
		fmt.Fprintf(b, "send %s + response wait %s + receive %s)\n", us(send), us(wait), us(receive))
	case grpc:
		fmt.Fprintf(b, "(un)marshal request/response %s + response wait %s)\n", us(send+receive), us(wait))
	default:
		fmt.Fprintf(b, "send/recv %s + response wait %s)\n", us(send+receive), us(wait))
	}
}

func serverReport(b *strings.Builder, s *ServerStats, cached bool, indent string) {
	if s.Success.Count == 0 {
		fmt.Fprintf(b, "%sRequest count: 0\n", indent)
		return
	}
	fmt.Fprintf(b, "%sInference count: %d\n%sExecution count: %d\n", indent, s.Inferences, indent, s.Executions)
	if cached {
		fmt.Fprintf(b, "%sCache hit count: %d\n%sCache miss count: %d\n", indent, s.CacheHit.Count, indent,
			s.CacheMiss.Count)
	}
	fmt.Fprintf(b, "%sSuccessful request count: %d\n", indent, s.Success.Count)
	if s.Fail.Count > 0 {
		fmt.Fprintf(b, "%sFailed request count: %d\n", indent, s.Fail.Count)
	}
	latencyReport(b, s, cached, indent)
	if len(s.Composing) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%sComposing models: \n", indent)
	for i := range s.Composing {
		c := &s.Composing[i]
		fmt.Fprintf(b, "%s%s, version: %s\n", indent, c.Model.Name, c.Model.Version)
		serverReport(b, c, cached, indent+"    ")
	}
}

// latencyReport writes the average latency and its parts. With a cache the parts of hits and of misses are averages
// over these alone, and follow below.
func latencyReport(b *strings.Builder, s *ServerStats, cached bool, indent string) {
	total, compute := s.Success.Mean(), s.Compute()
	fmt.Fprintf(b, "%sAvg request latency: %s (overhead ", indent, us(total))
	parts := fmt.Sprintf("compute input %s + compute infer %s + compute output %s)\n", us(s.Input.Mean()),
		us(s.Infer.Mean()), us(s.Output.Mean()))
	if !cached {
		fmt.Fprintf(b, "%s + queue %s + %s", us(max(0, total-s.Accounted())), us(s.Queue.Mean()), parts)
		return
	}
	hitOrMiss := Duration{Count: compute.Count + s.CacheHit.Count,
		Sum: compute.Sum + s.CacheHit.Sum + s.CacheMiss.Sum}.Mean()
	fmt.Fprintf(b, "%s + queue %s + cache hit/miss %s)\n", us(max(0, total-s.Queue.Mean()-hitOrMiss)),
		us(s.Queue.Mean()), us(hitOrMiss))
	fmt.Fprintf(b, "%s  Average Cache Hit Latency: %s\n", indent, us(s.CacheHit.Mean()))
	fmt.Fprintf(b, "%s  Average Cache Miss Latency: %s (cache lookup/insertion %s + %s", indent,
		us(s.CacheMiss.Mean()+compute.Mean()), us(s.CacheMiss.Mean()), parts)
}

// gpuReport writes the figures of at most sixteen GPUs.
func gpuReport(b *strings.Builder, m Metrics) {
	one := func(title, unit string, g Gauge, of func(Reading) float64) {
		fmt.Fprintf(b, "    %s:\n", title)
		for i, gpu := range slices.Sorted(maps.Keys(g)) {
			if i == 16 {
				fmt.Fprintf(b, "      and %d more\n", len(g)-i)
				break
			}
			fmt.Fprintf(b, "      %s : %s%s\n", gpu, decimal(of(g[gpu])), unit)
		}
	}
	one("Avg GPU Utilization", "%", m[GPUUtilization], func(r Reading) float64 { return 100 * r.Mean() })
	one("Avg GPU Power Usage", " watts", m[GPUPower], Reading.Mean)
	one("Max GPU Memory Usage", " bytes", m[GPUUsedMemory], func(r Reading) float64 { return r.Max })
	one("Total GPU Memory", " bytes", m[GPUTotalMemory], func(r Reading) float64 { return r.First })
}

// WriteSummary writes a line for each point.
func WriteSummary(w io.Writer, points []Point) error {
	if len(points) == 0 {
		return nil
	}
	var b strings.Builder
	what := "Average"
	if n := points[0].Percentile; n > 0 {
		what = fmt.Sprintf("p%d", n)
	}
	fmt.Fprintf(&b, "Inferences/Second vs. Client %s Batch Latency\n", what)
	for i := range points {
		p := &points[i]
		fmt.Fprintf(&b, "%s: %s, throughput: %s infer/sec, latency %s\n", levelName(p), decimal(p.Level),
			decimal(p.Throughput()), us(p.Decisive()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
