package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"

	"nereid/app/backends"
	"nereid/app/command"
	"nereid/app/options"
	"nereid/engine/device"
	"nereid/engine/system/affinity"
)

// Devices runs "nereid devices …": it prints the machine as models see it.
func Devices(_ context.Context, e *command.Env, args []string) int {
	if slices.Contains(args, "--help") {
		fmt.Fprint(e.Stdout, "Shows the CPUs and GPUs that models may use. It takes the options of nereid serve; "+
			"only those about GPUs have an effect.\n\n")
	}
	c, status := options.ForCommand(e, false, "nereid devices", args)
	if c == nil {
		return status
	}
	m := backends.OpenMachine(c, warnings(e.Stderr))
	return e.ExitStatus(errors.Join(printDevices(e.Stdout, m), m.Close()), "")
}

// whichCores names the cores and NUMA nodes, for --host-policy. It returns "" where the system does not report them.
func whichCores() string {
	cores, err := affinity.Cores()
	if err != nil {
		return ""
	}
	nodes, err := affinity.Nodes()
	if err != nil {
		return " (" + affinity.Format(cores) + ")"
	}
	return " (" + affinity.Format(cores) + "; NUMA nodes " + affinity.Format(nodes) + ")"
}

func printDevices(w io.Writer, m *device.Machine) error {
	fmt.Fprintf(w, "CPU: %d cores that this process may use%s\n", runtime.NumCPU(), whichCores())
	if len(m.GPUs()) == 0 {
		_, err := fmt.Fprintln(w, "GPU: none that models can use")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\tphysical\tUUID\tname\tcapability\tmemory\tin use\tutilization\tpower\ttemperature")
	readings, errs := m.Readings()
	for i, g := range m.GPUs() {
		r := readings[i]
		figure := func(has device.Figures, format string, v float64) string {
			if errs[i] != nil || r.Known&has == 0 {
				return "-"
			}
			return fmt.Sprintf(format, v)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%d.%d\t%d MiB\t%s\t%s\t%s\t%s\n",
			g.Index, g.Physical, g.UUID, g.Name, g.Major, g.Minor, g.MemoryBytes>>20,
			figure(device.HasMemory, "%.0f MiB", float64(r.MemoryUsed>>20)),
			figure(device.HasUtilization, "%.0f %%", 100*r.Utilization), figure(device.HasPower, "%.0f W", r.Power),
			figure(device.HasTemperature, "%.0f °C", r.Temperature))
	}
	return t.Flush()
}
