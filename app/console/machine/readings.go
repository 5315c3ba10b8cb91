package machine

import (
	"strconv"

	"nereid/app/history"
	"nereid/engine/device"
)

// Readings returns what the machine and the loaded models take now, for the history. What is not known is left out.
func (m *Monitor) Readings() (out []history.Reading) {
	use := device.Host()
	if busy := m.cpu.update(use); busy != nil {
		out = append(out, history.Reading{Name: history.CPU, Value: *busy})
	}
	if use.Memory > 0 {
		out = append(out, history.Reading{Name: history.Memory, Value: float64(use.Memory - use.Free)})
	}
	readings, errs := m.GPUs.Readings()
	for i, g := range m.GPUs.GPUs() {
		if errs[i] != nil {
			continue
		}
		number := strconv.Itoa(g.Index)
		if readings[i].Known&device.HasUtilization != 0 {
			out = append(out, history.Reading{Name: history.GPU + number, Value: readings[i].Utilization})
		}
		if readings[i].Known&device.HasMemory != 0 {
			out = append(out, history.Reading{Name: history.GPUMemory + number, Value: float64(readings[i].MemoryUsed)})
		}
	}
	m.Engine.Residency() // measures the memory of the models
	for _, st := range m.Engine.Models() {
		if st.Memory.Host > 0 {
			out = append(out, history.Reading{Name: history.Memory, Model: st.Name, Value: float64(st.Memory.Host)})
		}
		var gpu int64
		for _, n := range st.Memory.GPU {
			gpu += n
		}
		if gpu > 0 {
			out = append(out, history.Reading{Name: history.GPUMemory, Model: st.Name, Value: float64(gpu)})
		}
	}
	return out
}
