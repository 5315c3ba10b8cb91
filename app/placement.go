package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/instance"
)

// placementConfig is what the command line says about where and when instances run.
type placementConfig struct {
	RateLimit bool                // --rate-limit=execution_count
	Resources []instance.Resource // --rate-limit-resource
}

// limiter returns the rate limiter, nil if there is to be none.
func (c *Config) limiter() *instance.Limiter {
	if !c.RateLimit {
		return nil
	}
	return instance.NewLimiter(c.Resources)
}

func rateLimitText(on bool) string {
	if on {
		return "EXEC_COUNT"
	}
	return "OFF"
}

func rateLimit(c *Config, v string) error {
	if !slices.Contains([]string{"off", "execution_count"}, v) {
		return fmt.Errorf("%q is neither off nor execution_count", v)
	}
	c.RateLimit = v == "execution_count"
	return nil
}

// rateLimitResource reads "<name>:<count>", on every device, or "<name>:<count>:<device>".
func rateLimitResource(c *Config, v string) error {
	f := strings.Split(v, ":")
	if len(f) < 2 || len(f) > 3 || f[0] == "" {
		return fmt.Errorf("%q is not of the form name:count or name:count:device, such as R1:10:0", v)
	}
	n, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return fmt.Errorf("%q: the count %q is not a whole number from 0 on", v, f[1])
	}
	r := instance.Resource{Name: f[0], Count: uint32(n), Device: instance.EveryDevice}
	if len(f) == 3 {
		device, err := strconv.ParseUint(f[2], 10, 16)
		switch {
		case strings.EqualFold(f[2], "global"):
			r.Device = instance.GlobalDevice
		case err != nil:
			return fmt.Errorf("%q: the device %q is neither a GPU's number nor global", v, f[2])
		default:
			r.Device = int(device)
		}
	}
	c.Resources = append(c.Resources, r)
	return nil
}
