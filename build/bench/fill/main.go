// Command fill makes a data folder with a day of 100 busy models and 1,000,000 kept requests. build/bench/page.py
// measures the page with it.
//
//	fill FOLDER
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"nereid/store"
)

const (
	models   = 100
	minutes  = 24 * 60
	requests = 1_000_000
	batch    = 20_000 // requests that are written at once
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: fill FOLDER")
	}
	if err := fill(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func fill(ctx context.Context, folder string) (err error) {
	s, err := store.Open(ctx, folder, store.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if closed := s.Close(); err == nil {
			err = closed
		}
	}()
	end := time.Now().Truncate(time.Minute)
	start := end.Add(-minutes * time.Minute)
	for m := range minutes {
		if !s.RecordSamples(minute(start.Add(time.Duration(m)*time.Minute), m)) {
			return fmt.Errorf("the samples of minute %d were dropped", m)
		}
		if m%100 == 99 {
			if err := s.Flush(ctx); err != nil {
				return err
			}
		}
	}
	var spans []store.Span
	for i := range models {
		spans = append(spans, store.Span{Model: model(i), Version: 1, FromUS: start.UnixMicro(), ToUS: end.UnixMicro()})
	}
	s.RecordSpans(spans)
	for from := 0; from < requests; from += batch {
		if !s.RecordRequests(kept(start, from)) {
			return fmt.Errorf("the requests from %d were dropped", from)
		}
		if err := s.Flush(ctx); err != nil {
			return err
		}
	}
	return s.Flush(ctx)
}

func model(i int) string { return fmt.Sprintf("model_%02d", i) }

// minute returns a sample for each model.
func minute(at time.Time, m int) []store.Sample {
	var out []store.Sample
	for i := range models {
		var h store.Histogram
		for k := range 50 {
			h.Add(300+(k+i)%60, uint64(1+(k*m)%9))
		}
		blob, _ := h.MarshalBinary() // has no errors
		n := int64(h.Count())
		out = append(out, store.Sample{Model: model(i), Version: 1, StartUS: at.UnixMicro(),
			Requests: n + 1 + int64(i), Successes: n + int64(i), Failures: store.Failures{Backend: 1},
			Inferences: n, Executions: n/2 + 1, BatchRows: n,
			QueueNS: n * 1_234_567, ComputeInferNS: n * 7_654_321, RequestNS: n * 9_000_000, Latency: blob})
	}
	return out
}

// kept returns a batch of requests: each tenth failed, some were refused, and some are slow.
func kept(start time.Time, from int) []store.Request {
	out := make([]store.Request, batch)
	step := int64(minutes) * 60_000_000 / requests
	for k := range out {
		i := from + k
		r := store.Request{ID: start.UnixMicro() + int64(i)*step,
			Protocol: "http", Client: fmt.Sprintf("10.0.0.%d", i%50),
			Model: model(i % models), Version: 1, RequestID: fmt.Sprintf("%016x", i*7919), Outcome: "ok", Status: 200,
			BytesIn: 128, BytesOut: 128, Responses: 1, Rows: 1, Instance: model(i%models) + "_0_0", BatchRows: 4,
			BatchRequests: 4, PhasesNS: [8]int64{9000, 2000, 150_000, 1000, 400_000, 2000, 8000, 30_000},
			BusyNS: 120_000, BusyRows: 8, BusyRequests: 8, Slow: i%25 == 0}
		r.TimeUS = r.ID - 1
		switch {
		case i%10 == 0:
			r.Outcome, r.Status, r.Text = "failed", 500, fmt.Sprintf("the model failed: code %d of 100%%", i%90)
		case i%15 == 0:
			r.Outcome, r.Status, r.Cause, r.Text = "refused", 400, "invalid", "unexpected shape for input 'IN_PUT0'"
		}
		out[k] = r
	}
	return out
}
