package nvml

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"nereid/engine/device"
)

// ErrNoDriver is returned by Open where NVIDIA's driver is not installed.
var ErrNoDriver = errors.New("libnvidia-ml.so.1, a part of NVIDIA's driver, is not installed")

// Driver is an opened libnvidia-ml.
type Driver struct {
	lib  nvml.Interface
	gpus map[string]nvml.Device // by UUID; not changed after Open
	list []device.GPU
	// reserved: the library tells memory that the driver reserves from memory in use; libraries before 510 add them.
	reserved bool
	// Version is the driver's version, such as "550.54.15"; "": unknown.
	Version string
}

var (
	_ device.Driver        = (*Driver)(nil)
	_ device.ProcessReader = (*Driver)(nil)
)

// Open loads the library and lists the GPUs. lib is for tests; nil: the system's. GPUs that cannot be read are left
// out, and faults has their errors. The caller closes the driver. Errors: ErrNoDriver, and those of the library.
func Open(lib nvml.Interface) (d *Driver, faults []error, err error) {
	if lib == nil {
		lib = nvml.New()
	}
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, nil, ErrNoDriver
	default:
		return nil, nil, fmt.Errorf(
			"NVIDIA's driver is installed but does not start (%s); see whether nvidia-smi works", said(ret))
	}
	d = &Driver{lib: lib, gpus: map[string]nvml.Device{},
		reserved: lib.Extensions().LookupSymbol("nvmlDeviceGetMemoryInfo_v2") == nil}
	if v, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		d.Version = v
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		err := fmt.Errorf("counting the GPUs failed (%s)", said(ret))
		return nil, nil, errors.Join(err, d.Close())
	}
	for i := range n {
		g, h, err := describe(lib, i)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		d.gpus[g.UUID] = h
		d.list = append(d.list, g)
	}
	slices.SortStableFunc(d.list, func(a, b device.GPU) int { return strings.Compare(a.Bus, b.Bus) })
	return d, faults, nil
}

func describe(lib nvml.Interface, i int) (g device.GPU, h nvml.Device, err error) {
	fail := func(what string, ret nvml.Return) (device.GPU, nvml.Device, error) {
		return g, nil, fmt.Errorf("GPU %d does not report its %s (%s)", i, what, said(ret))
	}
	h, ret := lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return fail("handle", ret)
	}
	if g.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return fail("UUID", ret)
	}
	if g.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return fail("name", ret)
	}
	if g.Major, g.Minor, ret = h.GetCudaComputeCapability(); ret != nvml.SUCCESS {
		return fail("compute capability", ret)
	}
	m, ret := h.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return fail("memory", ret)
	}
	g.MemoryBytes = m.Total
	if pci, ret := h.GetPciInfo(); ret == nvml.SUCCESS {
		g.Bus = text(pci.BusId[:])
	}
	return g, h, nil
}

func text[T int8 | uint8](b []T) string {
	var s strings.Builder
	for _, c := range b {
		if c == 0 {
			break
		}
		s.WriteByte(byte(c))
	}
	return s.String()
}

// said formats a result. Before the library is loaded, go-nvml knows only numbers.
func said(ret nvml.Return) string { return fmt.Sprintf("%s, code %d", ret.Error(), int32(ret)) }

// GPUs implements device.Driver.
func (d *Driver) GPUs() ([]device.GPU, error) { return slices.Clone(d.list), nil }

// Read implements device.Driver. Figures that a GPU does not support are left out.
func (d *Driver) Read(uuid string) (r device.Reading, err error) {
	h := d.gpus[uuid]
	if h == nil {
		return r, fmt.Errorf("there is no GPU %q", uuid)
	}
	m, ret := d.memory(h)
	if ret != nvml.SUCCESS {
		return r, fmt.Errorf("GPU %s does not answer (%s)", uuid, said(ret)) // every GPU reports its memory
	}
	r.MemoryUsed, r.MemoryTotal, r.Known = m.Used, m.Total, device.HasMemory
	if u, ret := h.GetUtilizationRates(); ret == nvml.SUCCESS {
		r.Utilization = float64(u.Gpu) / 100
		r.Known |= device.HasUtilization
	}
	if mw, ret := h.GetPowerUsage(); ret == nvml.SUCCESS {
		r.Power = float64(mw) / 1000
		r.Known |= device.HasPower
	}
	if mw, ret := h.GetPowerManagementLimit(); ret == nvml.SUCCESS {
		r.PowerLimit = float64(mw) / 1000
		r.Known |= device.HasPowerLimit
	}
	if mj, ret := h.GetTotalEnergyConsumption(); ret == nvml.SUCCESS {
		r.Energy = float64(mj) / 1000
		r.Known |= device.HasEnergy
	}
	if c, ret := h.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		r.Temperature = float64(c)
		r.Known |= device.HasTemperature
	}
	return r, nil
}

// memory returns the memory of a GPU. Used is that of programs, as nvidia-smi and Triton report it, without what the
// driver reserves, which is hundreds of MB on a large GPU. A GPU may not support the function for that.
func (d *Driver) memory(h nvml.Device) (nvml.Memory, nvml.Return) {
	if d.reserved {
		if m, ret := h.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			return nvml.Memory{Total: m.Total, Free: m.Free, Used: m.Used}, ret
		}
	}
	return h.GetMemoryInfo()
}

// Processes implements device.ProcessReader. On Windows and for parts of a GPU (MIG) the library does not report it.
func (d *Driver) Processes(uuid string) (map[int]uint64, error) {
	h := d.gpus[uuid]
	if h == nil {
		return nil, fmt.Errorf("there is no GPU %q", uuid)
	}
	list, ret := h.GetComputeRunningProcesses()
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND:
		return nil, fmt.Errorf("%w (%s)", device.ErrNotReported, said(ret))
	default:
		return nil, fmt.Errorf("GPU %s does not answer (%s)", uuid, said(ret))
	}
	all := map[int]uint64{}
	for _, p := range list {
		if p.UsedGpuMemory == math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
			return nil, fmt.Errorf("%w: no figure for process %d", device.ErrNotReported, p.Pid)
		}
		all[int(p.Pid)] += p.UsedGpuMemory
	}
	return all, nil
}

// Close unloads the library.
func (d *Driver) Close() error {
	if ret := d.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("closing NVIDIA's driver failed (%s)", said(ret))
	}
	return nil
}
