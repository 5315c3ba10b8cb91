package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"nereid/engine/device"
	"nereid/engine/device/nvml"
	"nereid/engine/system/affinity"
)

// cudaOrder makes CUDA number GPUs as nvidia-smi does. By default CUDA puts the fastest first, which differs where cards do.
const cudaOrder = "CUDA_DEVICE_ORDER"

// openMachine finds the GPUs that models may use. What is wrong with the driver does not keep the server from starting:
// then there are none, and the log says why.
func openMachine(c *Config, log *slog.Logger) *device.Machine {
	driver, faults, err := nvml.Open(nil)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, nvml.ErrNoDriver) {
			level = slog.LevelInfo
		}
		log.Log(context.Background(), level, "there are no GPUs; models run on the CPU", "why", err)
		return nil
	}
	for _, f := range faults {
		log.Warn("a GPU is left out", "err", f)
	}
	o := device.Options{Driver: driver, MinCapability: c.MinCapability, Log: log, ReadEvery: time.Duration(c.MetricsIntervalMs) * time.Millisecond}
	if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		o.Visible = &v
	}
	if _, ok := os.LookupEnv(cudaOrder); !ok { // before anything opens CUDA
		if err := os.Setenv(cudaOrder, "PCI_BUS_ID"); err != nil {
			log.Warn("GPUs may be numbered in another order than nvidia-smi shows", "err", err)
		}
	} else if os.Getenv(cudaOrder) != "PCI_BUS_ID" {
		log.Warn("CUDA numbers GPUs with the fastest first; where cards differ, numbers and UUIDs shown here may not be those that models get",
			cudaOrder, os.Getenv(cudaOrder), "better", "PCI_BUS_ID")
	}
	m, err := device.NewMachine(o)
	if err != nil {
		log.Warn("there are no GPUs; models run on the CPU", "why", errors.Join(err, driver.Close()))
		return nil
	}
	for _, g := range m.GPUs() {
		log.Info("found a GPU", "gpu", g.Index, "physical", g.Physical, "uuid", g.UUID, "name", g.Name, "capability", fmt.Sprintf("%d.%d", g.Major, g.Minor),
			"memory_mib", g.MemoryBytes>>20, "driver", driver.Version)
	}
	return m
}

// devicesCommand prints the machine as models see it.
func devicesCommand(args []string, stdout, stderr io.Writer) int {
	if slices.Contains(args, "--help") {
		fmt.Fprint(stdout, "Shows the CPUs and GPUs that models may use. It takes the options of nereid serve, of which those about GPUs count.\n\n")
	}
	c, code := readOptions(false, "nereid devices", args, stdout, stderr)
	if c == nil {
		return code
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m := openMachine(c, log)
	if err := printDevices(stdout, m); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	if err := m.Close(); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// whichCores names the cores and NUMA nodes, for --host-policy; "" where the system does not tell.
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
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%d.%d\t%d MiB\t%s\t%s\t%s\t%s\n", g.Index, g.Physical, g.UUID, g.Name, g.Major, g.Minor, g.MemoryBytes>>20,
			figure(device.HasMemory, "%.0f MiB", float64(r.MemoryUsed>>20)), figure(device.HasUtilization, "%.0f %%", 100*r.Utilization),
			figure(device.HasPower, "%.0f W", r.Power), figure(device.HasTemperature, "%.0f °C", r.Temperature))
	}
	return t.Flush()
}

// gpuMetrics returns the GPUs whose figures are to be among the metrics, nil for none.
func (s *server) gpuMetrics() *device.Machine {
	if !s.c.AllowGPUMetrics {
		return nil
	}
	return s.machine
}
