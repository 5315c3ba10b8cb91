package options

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

// addResource reads "<name>:<count>", on every device, or "<name>:<count>:<device>".
func (r *RateLimit) addResource(v string) error {
	f := strings.Split(v, ":")
	if len(f) < 2 || len(f) > 3 || f[0] == "" {
		return fmt.Errorf("%q is not of the form name:count or name:count:device, such as R1:10:0", v)
	}
	n, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return fmt.Errorf("%q: the count %q is not a whole number from 0 on", v, f[1])
	}
	added := instance.Resource{Name: f[0], Count: uint32(n), Device: instance.EveryDevice}
	if len(f) == 3 {
		device, err := strconv.ParseUint(f[2], 10, 16)
		switch {
		case strings.EqualFold(f[2], "global"):
			added.Device = instance.GlobalDevice
		case err != nil:
			return fmt.Errorf("%q: the device %q is neither a GPU's number nor global", v, f[2])
		default:
			added.Device = int(device)
		}
	}
	r.Resources = append(r.Resources, added)
	return nil
}

// hostPolicy reads "<policy>,<key>=<value>".
func (c *Config) hostPolicy(v string) error {
	name, setting, ok := strings.Cut(v, ",")
	key, value, assigned := strings.Cut(setting, "=")
	if !ok || !assigned || name == "" || key == "" {
		return fmt.Errorf("%q is not of the form policy,key=value, such as gpu_0,cpu-cores=0-3", v)
	}
	p := c.Engine.HostPolicies[name]
	if err := p.Set(key, value); err != nil {
		return fmt.Errorf("%q: %w", v, err)
	}
	put(&c.Engine.HostPolicies, name, p)
	return nil
}

// checkPolicies reports the host policies that ask for what this machine does not have.
func checkPolicies(policies map[string]affinity.Policy) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if err := policies[name].Check(); err != nil {
			errs = append(errs, fmt.Errorf("--host-policy: %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// gpuLimit reads "<gpu>:<fraction>".
func (c *Config) gpuLimit() setter {
	const form = "gpu:fraction with a fraction from 0 to 1, such as 0:0.8"
	return byGPU(&c.Engine.GPULimits, form, parseFraction)
}

// byteCount reads a number of bytes, which may be 0.
func byteCount(field *int64) setter {
	return func(v string) (err error) {
		if *field, err = parseByteCount(v); err != nil {
			return fmt.Errorf("%q is not a number of bytes, such as 268435456; 0 for no pool", v)
		}
		return nil
	}
}

const gpuBytesForm = "gpu:bytes, such as 0:67108864"
