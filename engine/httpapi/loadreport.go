package httpapi

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"nereid/engine/httpapi/tensorjson"
)

// loadFormatName is the request header that asks for a load report in the reply of generate; its value is text or json.
// loadReportName is the report's header. Format: ORCA, as Triton fills it.
const (
	loadFormatName = "endpoint-load-metrics-format"
	loadReportName = "endpoint-load-metrics"
)

// cacheFamily is the metric of a language model's key-value cache, with the label kv_cache_block_type. Without it there
// is nothing to report.
const cacheFamily = "nv_trt_llm_kv_cache_block_metrics"

// reportLoad adds the load report to the reply if the client wants one. Without the metrics there is none, as in
// Triton.
func (s *Server) reportLoad(x *exchange) {
	format := x.headers.Peek(loadFormatName)
	if len(format) == 0 || s.opt.Metrics == nil {
		return
	}
	report, err := loadReport(string(format), s.opt.Metrics(nil))
	if err != nil {
		s.opt.Log.Warn("no load report for a request with "+loadFormatName, "err", err)
		return
	}
	x.loadReport = report
}

// loadReport makes the report of a format from Prometheus text. It fails if the format is unknown or a metric is
// missing.
func loadReport(format string, metrics []byte) (string, error) {
	found := map[string]float64{}
	for line := range bytes.Lines(metrics) {
		text, ok := strings.CutPrefix(string(line), cacheFamily+"{")
		if !ok {
			continue
		}
		labels, value, ok := strings.Cut(text, "}")
		_, kind, ok2 := strings.Cut(labels, `kv_cache_block_type="`)
		kind, _, ok3 := strings.Cut(kind, `"`)
		fields := strings.Fields(value)
		if !ok || !ok2 || !ok3 || len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil && v >= 0 {
			found[kind] = v
		}
	}
	for _, kind := range []string{"tokens_per", "used", "max"} {
		if _, ok := found[kind]; !ok {
			return "", fmt.Errorf("no model has the metric %s{kv_cache_block_type=%q}", cacheFamily, kind)
		}
	}
	use, capacity := 0.0, uint64(found["max"]*found["tokens_per"])
	if found["max"] > 0 {
		use = found["used"] / found["max"]
	}
	switch format {
	case "text":
		return fmt.Sprintf("TEXT named_metrics.kv_cache_utilization=%f, named_metrics.max_token_capacity=%d",
			use, capacity), nil
	case "json":
		metrics := tensorjson.Object("kv_cache_utilization", tensorjson.JSON(tensorjson.AppendFloat(nil, use)),
			"max_token_capacity", capacity)
		return "JSON " + string(tensorjson.Object("named_metrics", metrics)), nil
	}
	return "", fmt.Errorf("%s: %q is neither text nor json", loadFormatName, format)
}
