package nvml

import (
	"errors"
	"log/slog"
	"maps"
	"testing"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"nereid/engine/device"
)

// server is a machine with eight cards and a library whose functions a test sets.
func server() *dgxa100.Server {
	s := dgxa100.New()
	s.ExtensionsFunc = func() lib.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return lib.ERROR_FUNCTION_NOT_FOUND }}
	}
	for i := range s.Devices {
		d := s.Devices[i].(*dgxa100.Device)
		d.MemoryInfo.Used = uint64(i) << 30
		d.GetUtilizationRatesFunc = func() (lib.Utilization, lib.Return) {
			return lib.Utilization{Gpu: 37},
				lib.SUCCESS
		}
		d.GetPowerUsageFunc = func() (uint32, lib.Return) { return 58954, lib.SUCCESS }
		d.GetPowerManagementLimitFunc = func() (uint32, lib.Return) { return 300000, lib.SUCCESS }
		d.GetTotalEnergyConsumptionFunc = func() (uint64, lib.Return) { return 0, lib.ERROR_NOT_SUPPORTED }
		d.GetTemperatureFunc = func(lib.TemperatureSensors) (uint32, lib.Return) { return 41, lib.SUCCESS }
	}
	return s
}

func TestGPUsOfTheLibrary(t *testing.T) {
	s := server()
	d, faults, err := Open(s)
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	gpus, err := d.GPUs()
	if err != nil || len(gpus) != 8 || d.Version != "550.54.15" {
		t.Fatalf("GPUs = %v, %v with driver %q; want 8 of 550.54.15", gpus, err, d.Version)
	}
	g, card := gpus[3], s.Devices[3].(*dgxa100.Device)
	if g.UUID != card.UUID || g.Name != card.Name || g.Capability() != 8.0 || g.MemoryBytes != 42949672960 {
		t.Errorf("the fourth is %+v", g)
	}
	r, err := d.Read(g.UUID)
	want := device.Reading{Utilization: 0.37, MemoryUsed: 3 << 30, MemoryTotal: 42949672960, Power: 58.954,
		PowerLimit: 300, Temperature: 41,
		Known: device.HasUtilization | device.HasMemory | device.HasPower | device.HasPowerLimit |
			device.HasTemperature}
	if err != nil || r != want {
		t.Errorf("Read = %+v, %v; want %+v", r, err, want)
	}
	card.GetMemoryInfoFunc = func() (lib.Memory, lib.Return) { return lib.Memory{}, lib.ERROR_GPU_IS_LOST }
	if _, err := d.Read(g.UUID); err == nil {
		t.Error("a lost card is read")
	}
	if _, err := d.Read("GPU-x"); err == nil {
		t.Error("a card that is not there is read")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Since 510 the library has a function that does not count as used what the driver reserves.
func TestMemoryThatTheDriverReservesIsNotUsed(t *testing.T) {
	s := server()
	s.ExtensionsFunc = func() lib.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
	}
	card := s.Devices[3].(*dgxa100.Device)
	card.GetMemoryInfo_v2Func = func() (lib.Memory_v2, lib.Return) {
		return lib.Memory_v2{Total: 40 << 30, Reserved: 1 << 30, Used: 2 << 30, Free: 37 << 30}, lib.SUCCESS
	}
	d, _, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Read(card.UUID)
	if err != nil || r.MemoryUsed != 2<<30 || r.MemoryTotal != 40<<30 {
		t.Errorf("Read = %+v, %v; want 2 of 40 GiB in use", r, err)
	}
	card.GetMemoryInfo_v2Func = func() (lib.Memory_v2, lib.Return) { return lib.Memory_v2{}, lib.ERROR_NOT_SUPPORTED }
	if r, err = d.Read(card.UUID); err != nil || r.MemoryUsed != 3<<30 {
		t.Errorf("Read without that function = %+v, %v; want 3 GiB in use", r, err)
	}
}

func TestOpenFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(s *dgxa100.Server)
		want   error
		failed bool
		gpus   int
	}{
		{"C073 no driver", func(s *dgxa100.Server) {
			s.InitFunc = func() lib.Return { return lib.ERROR_LIBRARY_NOT_FOUND }
		}, ErrNoDriver, true, 0},
		{"driver that does not start",
			func(s *dgxa100.Server) { s.InitFunc = func() lib.Return { return lib.ERROR_DRIVER_NOT_LOADED } }, nil,
			true, 0},
		{"cards that cannot be counted", func(s *dgxa100.Server) {
			s.DeviceGetCountFunc = func() (int, lib.Return) { return 0, lib.ERROR_UNKNOWN }
		}, nil, true, 0},
		{"C072 a card that does not answer is left out", func(s *dgxa100.Server) {
			s.Devices[2].(*dgxa100.Device).GetUUIDFunc = func() (string, lib.Return) {
				return "",
					lib.ERROR_GPU_IS_LOST
			}
		}, nil, false, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := server()
			tt.edit(s)
			d, faults, err := Open(s)
			if (err != nil) != tt.failed || tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("Open = %v, want %v", err, tt.want)
			}
			if err == nil && (len(d.list) != tt.gpus || len(faults) != 8-tt.gpus) {
				t.Errorf("%d cards, faults %v; want %d", len(d.list), faults, tt.gpus)
			}
		})
	}
}

func TestProcesses(t *testing.T) {
	s := server()
	d, _, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	card := s.Devices[2].(*dgxa100.Device)
	for _, tt := range []struct {
		name string
		list []lib.ProcessInfo
		ret  lib.Return
		want map[int]uint64
		is   error
	}{
		{"none", nil, lib.SUCCESS, map[int]uint64{}, nil},
		{"two, one of them twice", []lib.ProcessInfo{{Pid: 7, UsedGpuMemory: 100}, {Pid: 8, UsedGpuMemory: 1},
			{Pid: 7, UsedGpuMemory: 5}}, lib.SUCCESS,
			map[int]uint64{7: 105, 8: 1}, nil},
		{"one without a figure", []lib.ProcessInfo{{Pid: 7, UsedGpuMemory: 100}, {Pid: 8, UsedGpuMemory: 1<<64 - 1}},
			lib.SUCCESS, nil, device.ErrNotReported},
		{"not supported", nil, lib.ERROR_NOT_SUPPORTED, nil, device.ErrNotReported},
		{"not allowed", nil, lib.ERROR_NO_PERMISSION, nil, device.ErrNotReported},
		{"lost", nil, lib.ERROR_GPU_IS_LOST, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			card.GetComputeRunningProcessesFunc = func() ([]lib.ProcessInfo, lib.Return) { return tt.list, tt.ret }
			got, err := d.Processes(card.UUID)
			if !maps.Equal(got, tt.want) || (err == nil) != (tt.want != nil) ||
				errors.Is(err, device.ErrNotReported) != (tt.is != nil) {
				t.Errorf("Processes = %v, %v; want %v, %v", got, err, tt.want, tt.is)
			}
		})
	}
	if _, err := d.Processes("GPU-x"); err == nil {
		t.Error("a card that does not exist reports its processes")
	}
}

// With a driver on this machine its cards can be read. Without one, Open reports that.
func TestInstalledLibrary(t *testing.T) {
	d, _, err := Open(nil)
	if errors.Is(err, ErrNoDriver) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := device.NewMachine(device.Options{Driver: d, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range m.GPUs() {
		if _, errs := m.Readings(); errs[i] != nil || g.UUID == "" {
			t.Errorf("GPU %+v: %v", g, errs[i])
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
