package affinity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Policy is the cores on which threads run, and the NUMA nodes of their memory. The zero value restricts nothing.
type Policy struct {
	// Cores are the numbers of the cores, ascending; nil: all.
	Cores []int `json:",omitempty"`
	// Nodes are the numbers of the NUMA nodes for memory; nil: any. They do not restrict the cores.
	Nodes []int `json:",omitempty"`
}

// Restricts reports whether the policy restricts anything.
func (p Policy) Restricts() bool { return p.Cores != nil || p.Nodes != nil }

// String returns the policy in the form of the command line: "cpu-cores=0-3,8 numa-node=1".
func (p Policy) String() string {
	var all []string
	settings := p.Settings()
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		all = append(all, key+"="+settings[key])
	}
	return strings.Join(all, " ")
}

// Settings returns the settings of the policy by Triton's names: "cpu-cores": "0-3,8".
func (p Policy) Settings() map[string]string {
	settings := map[string]string{}
	if p.Cores != nil {
		settings[coresSetting] = Format(p.Cores)
	}
	if p.Nodes != nil {
		settings[nodeSetting] = Format(p.Nodes)
	}
	return settings
}

// Triton's names of the settings of a host policy.
const (
	coresSetting = "cpu-cores"
	nodeSetting  = "numa-node"
)

// Set sets one setting of --host-policy=<name>,<key>=<value>: cpu-cores, a list of cores and ranges such as "0-3,8", or
// numa-node, a number.
func (p *Policy) Set(key, value string) (err error) {
	switch key {
	case coresSetting:
		if p.Cores, err = parseList(value); err != nil {
			return fmt.Errorf("cpu-cores: %w; write ranges and cores with commas, such as 0-3,8", err)
		}
	case nodeSetting:
		n, err := number(value)
		if err != nil {
			return fmt.Errorf("numa-node: %w", err)
		}
		p.Nodes = []int{n}
	default:
		return fmt.Errorf("Unsupported host policy setting '%s' is specified, "+ //nolint:staticcheck // Triton's text
			"supported settings are 'numa-node', 'cpu-cores'", key)
	}
	return nil
}

// Check returns an error that names the cores and nodes of the policy that this process cannot use.
func (p Policy) Check() error {
	var errs []error
	if p.Cores != nil {
		have, err := Cores()
		if err != nil {
			return err
		}
		if missing := without(p.Cores, have); len(missing) > 0 {
			errs = append(errs, fmt.Errorf("cpu-cores: there is no core %s for this process; it has %s",
				Format(missing), Format(have)))
		}
	}
	if p.Nodes != nil {
		have, err := Nodes()
		if err != nil {
			return err
		}
		if missing := without(p.Nodes, have); len(missing) > 0 {
			errs = append(errs, fmt.Errorf("numa-node: there is no node %s; this machine has %s",
				Format(missing), Format(have)))
		}
	}
	return errors.Join(errs...)
}

// without returns the elements of a that b does not have.
func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return slices.Contains(b, n) })
}

// most is the number of cores that the kernel can have at most; it has fewer nodes.
const most = 8192

func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= most {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", s, most-1)
	}
	return n, nil
}

// parseList reads a list in the form of the kernel and of Triton's cpu-cores, "0-3,8". The result is ascending and
// has each number once.
func parseList(s string) ([]int, error) {
	list := []int{}
	for part := range strings.SplitSeq(s, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		a, err := number(low)
		if err != nil {
			return nil, err
		}
		b := a
		if ranged {
			if b, err = number(high); err != nil {
				return nil, err
			}
		}
		if b < a {
			return nil, fmt.Errorf("%q ends before it begins", part)
		}
		for ; a <= b; a++ {
			list = append(list, a)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Format writes numbers in the form of parseList, in ascending order, with ranges for consecutive numbers.
func Format(list []int) string {
	list = slices.Sorted(slices.Values(list))
	var all []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		part := strconv.Itoa(list[i])
		if k > i {
			part += "-" + strconv.Itoa(list[k])
		}
		all = append(all, part)
		i = k + 1
	}
	return strings.Join(all, ",")
}
