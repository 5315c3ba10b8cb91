package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nereid/engine/lifecycle"
)

// units of sizes, the longer ones first.
var units = []struct {
	name  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1},
}

// parseBytes reads a size: a number, with a unit if it is not bytes.
func parseBytes(v string) (int64, error) {
	text, unit := strings.ToLower(strings.TrimSpace(v)), int64(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 || n*float64(unit) < 1 || n*float64(unit) >= 1<<62 {
		return 0, fmt.Errorf("%q is not a size over 0, such as 8GiB, 500MB or 1073741824", v)
	}
	return int64(n * float64(unit)), nil
}

func gpuBudget(c *Config, v string) error {
	id, size, ok := strings.Cut(v, ":")
	gpu, err := strconv.Atoi(id)
	if !ok || err != nil || gpu < 0 {
		return fmt.Errorf("%q is not the number of a GPU, a colon and a size, such as 0:20GiB", v)
	}
	n, err := parseBytes(size)
	if err != nil {
		return err
	}
	if c.Residency.GPU == nil {
		c.Residency.GPU = map[int]int64{}
	}
	c.Residency.GPU[gpu] = n
	return nil
}

func seconds(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || n < 0 || n > 1e9 {
			return fmt.Errorf("%q is not a number of seconds", v)
		}
		*field(c) = time.Duration(n * float64(time.Second))
		return nil
	}
}

func reloadPolicy(c *Config, v string) error {
	switch v {
	case lifecycle.ReloadAvailability, lifecycle.ReloadResources:
		c.ResourcesFirst = v == lifecycle.ReloadResources
		return nil
	}
	return fmt.Errorf("%q is neither %s nor %s", v, lifecycle.ReloadAvailability, lifecycle.ReloadResources)
}
