//go:build !cpuonly

package backends

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"nereid/app/options"
	"nereid/engine/device"
	"nereid/engine/device/nvml"
)

// OpenMachine finds the GPUs that models may use, and returns nil if there are none. If the driver does not work, the
// log says why and the server starts without GPUs.
func OpenMachine(c *options.Config, log *slog.Logger) *device.Machine {
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
	o := c.GPUs
	o.Driver, o.Log, o.ReadEvery = driver, log, c.Metrics.Interval
	if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		o.Visible = &v
	}
	if order := os.Getenv(device.CUDAOrder); order != "PCI_BUS_ID" {
		log.Warn("CUDA numbers GPUs with the fastest first; where cards differ, numbers and UUIDs shown here may "+
			"not be those that models get", device.CUDAOrder, order, "better", "PCI_BUS_ID")
	}
	m, err := device.NewMachine(o)
	if err != nil {
		log.Warn("there are no GPUs; models run on the CPU", "why", errors.Join(err, driver.Close()))
		return nil
	}
	for _, g := range m.GPUs() {
		log.Info("found a GPU", "gpu", g.Index, "physical", g.Physical, "uuid", g.UUID, "name", g.Name,
			"capability", fmt.Sprintf("%d.%d", g.Major, g.Minor), "memory_mib", g.MemoryBytes>>20, "driver",
			driver.Version)
	}
	return m
}
