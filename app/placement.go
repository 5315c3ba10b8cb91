package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/instance"
	"nereid/engine/system/affinity"
)

// placementConfig is what the command line says about where and when instances run.
type placementConfig struct {
	RateLimit bool                // --rate-limit=execution_count
	Resources []instance.Resource // --rate-limit-resource

	MinCapability float64         // --min-supported-compute-capability
	GPULimits     map[int]float64 // --model-load-gpu-limit: shares of memory by GPU

	PinnedBytes int64         // --pinned-memory-pool-byte-size
	CUDABytes   map[int]int64 // --cuda-memory-pool-byte-size, by GPU

	HostPolicies map[string]affinity.Policy // --host-policy, by name
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

// hostPolicy reads "<policy>,<key>=<value>".
func hostPolicy(c *Config, v string) error {
	name, setting, ok := strings.Cut(v, ",")
	key, value, assigned := strings.Cut(setting, "=")
	if !ok || !assigned || name == "" || key == "" {
		return fmt.Errorf("%q is not of the form policy,key=value, such as gpu_0,cpu-cores=0-3", v)
	}
	if c.HostPolicies == nil {
		c.HostPolicies = map[string]affinity.Policy{}
	}
	p := c.HostPolicies[name]
	if err := p.Set(key, value); err != nil {
		return fmt.Errorf("%q: %w", v, err)
	}
	c.HostPolicies[name] = p
	return nil
}

// checkPolicies says which host policies ask for what this machine does not have.
func (c *Config) checkPolicies() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.HostPolicies)) {
		if err := c.HostPolicies[name].Check(); err != nil {
			errs = append(errs, fmt.Errorf("--host-policy: %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func minCapability(c *Config, v string) error {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0 && n < 100) {
		return fmt.Errorf("%q is not a compute capability, such as 7.5", v)
	}
	c.MinCapability = n
	return nil
}

// gpuLimit reads "<gpu>:<fraction>".
func gpuLimit(c *Config, v string) error {
	gpu, fraction, ok := strings.Cut(v, ":")
	id, err1 := strconv.ParseUint(gpu, 10, 16)
	f, err2 := strconv.ParseFloat(fraction, 64)
	if !ok || err1 != nil || err2 != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not of the form gpu:fraction with a fraction from 0 to 1, such as 0:0.8", v)
	}
	if c.GPULimits == nil {
		c.GPULimits = map[int]float64{}
	}
	c.GPULimits[int(id)] = f
	return nil
}

// gpuBytes checks "<gpu>:<bytes>".
func gpuBytes(v string) error {
	gpu, bytes, ok := strings.Cut(v, ":")
	_, err1 := strconv.ParseUint(gpu, 10, 16)
	_, err2 := strconv.ParseUint(bytes, 10, 63)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("%q is not of the form gpu:bytes, such as 0:67108864", v)
	}
	return nil
}

// pinnedBytes is --pinned-memory-pool-byte-size.
func pinnedBytes(c *Config, v string) error {
	n, err := strconv.ParseUint(v, 10, 47) // more than any process may have
	if err != nil {
		return fmt.Errorf("%q is not a number of bytes, such as 268435456; 0 for no pool", v)
	}
	c.PinnedBytes = int64(n)
	return nil
}

// cudaBytes is --cuda-memory-pool-byte-size.
func cudaBytes(c *Config, v string) error {
	if err := gpuBytes(v); err != nil {
		return err
	}
	gpu, bytes, _ := strings.Cut(v, ":")
	id, err1 := strconv.Atoi(gpu)
	n, err2 := strconv.ParseUint(bytes, 10, 47)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%q: %w", v, err)
	}
	if c.CUDABytes == nil {
		c.CUDABytes = map[int]int64{}
	}
	c.CUDABytes[id] = int64(n)
	return nil
}
