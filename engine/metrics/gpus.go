package metrics

import (
	"strconv"

	"nereid/engine/device"
)

// gpus writes the GPUs' families, with Triton's names and label. A GPU that cannot be reached has no samples. A figure
// that a GPU does not report has none either.
func (e *Exporter) gpus(w *writer) {
	readings, errs := e.o.GPUs.Readings()
	for _, f := range []struct {
		name, help, kind string
		has              device.Figures
		value            func(r *device.Reading) string
	}{
		{"nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", "gauge",
			device.HasUtilization, func(r *device.Reading) string { return float(r.Utilization) }},
		{"nv_gpu_memory_total_bytes", "GPU total memory, in bytes", "gauge",
			device.HasMemory, func(r *device.Reading) string { return whole(r.MemoryTotal) }},
		{"nv_gpu_memory_used_bytes", "GPU used memory, in bytes", "gauge",
			device.HasMemory, func(r *device.Reading) string { return whole(r.MemoryUsed) }},
		{"nv_gpu_power_usage", "GPU power usage in watts", "gauge",
			device.HasPower, func(r *device.Reading) string { return float(r.Power) }},
		{"nv_gpu_power_limit", "GPU power management limit in watts", "gauge",
			device.HasPowerLimit, func(r *device.Reading) string { return float(r.PowerLimit) }},
		{"nv_energy_consumption", "GPU energy consumption in joules since the Triton Server started", "counter",
			device.HasEnergy, func(r *device.Reading) string { return float(r.Energy) }},
		{"nereid_gpu_temperature_celsius", "GPU temperature, in degrees Celsius", "gauge",
			device.HasTemperature, func(r *device.Reading) string { return float(r.Temperature) }},
	} {
		if f.has == device.HasTemperature && e.o.OmitOwn {
			continue
		}
		w.family(f.name, f.help, f.kind)
		for i := range readings {
			if errs[i] == nil && readings[i].Known&f.has != 0 {
				w.start(f.name, "gpu_uuid", e.o.GPUs.GPUs()[i].UUID)
				w.end(f.value(&readings[i]))
			}
		}
	}
	if e.o.OmitOwn {
		return
	}
	const info = "nereid_gpu_info"
	w.family(info, "The GPUs that models may use, as labels; the value is 1 for one that can be reached, else 0",
		"gauge")
	for i, g := range e.o.GPUs.GPUs() {
		w.start(info, "gpu_uuid", g.UUID, "gpu", strconv.Itoa(g.Index), "physical_gpu", strconv.Itoa(g.Physical),
			"name", g.Name)
		reached := 0
		if errs[i] == nil {
			reached = 1
		}
		w.end(whole(reached))
	}
}
