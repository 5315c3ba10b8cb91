package options

import (
	"fmt"
	"math"
	"strings"
	"time"

	"nereid/engine/trace"
)

// traceConfig reads "[mode,]key=value", a value of --trace-config.
func (c *Config) traceConfig(v string) error {
	key, value, ok := strings.Cut(v, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not of the form [mode,]key=value", v)
	}
	return c.setTrace(key, value)
}

// setTrace sets one key of --trace-config.
func (c *Config) setTrace(key, v string) error {
	t, tel := &c.Trace.Settings, &c.Trace.Telemetry
	switch key {
	case "level":
		l, err := trace.ParseLevel(strings.ToUpper(v))
		if err != nil {
			return fmt.Errorf("level %q is none of OFF, TIMESTAMPS, TENSORS", v)
		}
		if l == 0 {
			t.Level = 0
		}
		t.Level |= l
		return nil
	case "mode":
		return choice(&t.Mode, "triton", "opentelemetry")(v)
	case "rate":
		return integer(0, math.MaxUint32, &t.Rate)(v)
	case "count":
		if integer(-1, math.MaxInt32, &t.Count)(v) != nil {
			return fmt.Errorf("count %q is not a whole number from -1, which means no limit, to %d", v, math.MaxInt32)
		}
		return nil
	case "triton,file":
		t.File = v
		return nil
	case "triton,log-frequency":
		return integer(0, math.MaxUint32, &t.LogFrequency)(v)
	case "opentelemetry,url":
		tel.URL = v
		return nil
	case "opentelemetry,resource":
		k, value, ok := strings.Cut(v, "=")
		if !ok || k == "" {
			return fmt.Errorf("resource %q is not of the form key=value", v)
		}
		tel.Resource = append(tel.Resource, [2]string{k, value})
		return nil
	case "opentelemetry,bsp_max_queue_size":
		return integer(0, math.MaxInt32, &tel.MaxQueueSize)(v)
	case "opentelemetry,bsp_max_export_batch_size":
		return integer(0, math.MaxInt32, &tel.MaxExportBatchSize)(v)
	case "opentelemetry,bsp_schedule_delay":
		tel.ScheduleDelay = new(time.Duration)
		return milliseconds(0, tel.ScheduleDelay)(v)
	}
	return fmt.Errorf("unknown key %q; known are level, rate, count, mode, triton,file, triton,log-frequency, "+
		"opentelemetry,url, opentelemetry,resource, opentelemetry,bsp_max_queue_size, "+
		"opentelemetry,bsp_schedule_delay, opentelemetry,bsp_max_export_batch_size", key)
}
