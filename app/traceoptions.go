package app

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"nereid/engine/trace"
)

func traceOptions() []option {
	const g = "Tracing"
	short := func(key string) func(*Config, string) error {
		return func(c *Config, v string) error { return setTrace(c, key, v) }
	}
	return []option{
		{names: []string{"trace-config"}, group: g, arg: "[mode,]key=value", row: "H071",
			help: "Request tracing: level=OFF|TIMESTAMPS|TENSORS, rate, count, mode=triton|opentelemetry; triton,file and triton,log-frequency; " +
				"opentelemetry,url, resource=<key>=<value>, bsp_max_queue_size, bsp_schedule_delay, bsp_max_export_batch_size. May be given several times.",
			set: traceConfig},
		{names: []string{"trace-level"}, group: g, arg: "OFF|TIMESTAMPS|TENSORS", row: "H089", help: "Old form of --trace-config=level.", set: short("level")},
		{names: []string{"trace-file"}, group: g, arg: "path", row: "H089", help: "Old form of --trace-config=triton,file.", set: short("triton,file")},
		{names: []string{"trace-rate"}, group: g, arg: "integer", row: "H089", help: "Old form of --trace-config=rate.", set: short("rate")},
		{names: []string{"trace-count"}, group: g, arg: "integer", row: "H089", help: "Old form of --trace-config=count.", set: short("count")},
		{names: []string{"trace-log-frequency"}, group: g, arg: "integer", row: "H089", help: "Old form of --trace-config=triton,log-frequency.",
			set: short("triton,log-frequency")},
	}
}

func traceConfig(c *Config, v string) error {
	key, value, ok := strings.Cut(v, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not of the form [mode,]key=value", v)
	}
	return setTrace(c, key, value)
}

// setTrace sets one key of --trace-config.
func setTrace(c *Config, key, v string) error {
	switch key {
	case "level":
		l, err := trace.ParseLevel(strings.ToUpper(v))
		if err != nil {
			return fmt.Errorf("level %q is none of OFF, TIMESTAMPS, TENSORS", v)
		}
		if l == 0 {
			c.Trace.Level = 0
		}
		c.Trace.Level |= l
		return nil
	case "mode":
		if c.Trace.Mode = trace.Mode(v); v != "triton" && v != "opentelemetry" {
			return fmt.Errorf("mode %q is neither triton nor opentelemetry", v)
		}
		return nil
	case "rate":
		return traceNumber(v, math.MaxUint32, &c.Trace.Rate)
	case "count":
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < -1 {
			return fmt.Errorf("count %q is not a whole number from -1, which means no limit, to %d", v, math.MaxInt32)
		}
		c.Trace.Count = int32(n)
		return nil
	case "triton,file":
		c.Trace.File = v
		return nil
	case "triton,log-frequency":
		return traceNumber(v, math.MaxUint32, &c.Trace.LogFrequency)
	case "opentelemetry,url":
		c.Telemetry.URL = v
		return nil
	case "opentelemetry,resource":
		k, value, ok := strings.Cut(v, "=")
		if !ok || k == "" {
			return fmt.Errorf("resource %q is not of the form key=value", v)
		}
		c.Telemetry.Resource = append(c.Telemetry.Resource, [2]string{k, value})
		return nil
	case "opentelemetry,bsp_max_queue_size":
		return traceNumber(v, math.MaxInt32, &c.Telemetry.MaxQueueSize)
	case "opentelemetry,bsp_max_export_batch_size":
		return traceNumber(v, math.MaxInt32, &c.Telemetry.MaxExportBatchSize)
	case "opentelemetry,bsp_schedule_delay":
		ms := 0
		err := traceNumber(v, math.MaxInt32, &ms)
		c.Telemetry.ScheduleDelay = time.Duration(ms) * time.Millisecond
		return err
	}
	return fmt.Errorf("unknown key %q; known are level, rate, count, mode, triton,file, triton,log-frequency, opentelemetry,url, opentelemetry,resource, "+
		"opentelemetry,bsp_max_queue_size, opentelemetry,bsp_schedule_delay, opentelemetry,bsp_max_export_batch_size", key)
}

func traceNumber[T int | uint32](v string, high uint64, field *T) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n > high {
		return errors.New(strconv.Quote(v) + " is not a whole number from 0 to " + strconv.FormatUint(high, 10))
	}
	*field = T(n)
	return nil
}
