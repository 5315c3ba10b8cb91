package console_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/engine"
	"nereid/engine/backend/python"
	"nereid/engine/device"
)

// cards is a driver of two GPUs, the second of which does not tell everything.
type cards struct{}

func (cards) GPUs() ([]device.GPU, error) {
	return []device.GPU{
		{UUID: "GPU-a", Name: "Card A", Major: 8, Minor: 6, MemoryBytes: 24 << 30},
		{UUID: "GPU-b", Name: "Card B", Major: 7, Minor: 0, MemoryBytes: 16 << 30},
	}, nil
}

func (cards) Read(uuid string) (device.Reading, error) {
	if uuid == "GPU-b" {
		return device.Reading{}, errors.New("it has fallen off the bus")
	}
	return device.Reading{Utilization: 0.25, MemoryUsed: 2 << 30, Temperature: 61,
		Known: device.HasUtilization | device.HasMemory | device.HasTemperature}, nil
}

func (cards) Close() error { return nil }

func TestMachine(t *testing.T) {
	t.Run("without GPUs", func(t *testing.T) {
		r := newRig(t, engine.ModeExplicit)
		m := get[api.Machine](r, 200, "GET", "/api/machine", nil)
		if m.CPUs < 1 || m.MemoryBytes <= 0 || m.MemoryFreeBytes <= 0 || m.ProcessBytes <= 0 || len(m.GPUs) != 0 ||
			m.Budget.On || m.Budget.Resident != 1 {
			t.Errorf("machine = %+v", m)
		}
		if told := next[api.Machine](r.Stream("machine"), "machine"); told.CPUBusy == nil ||
			*told.CPUBusy < 0 || *told.CPUBusy > 1 {
			t.Errorf("the stream reports %+v, want how busy the cores are", told)
		}
	})
	t.Run("with GPUs", func(t *testing.T) {
		r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
			var err error
			if o.Check.Machine, err = device.NewMachine(device.Options{Driver: cards{},
				Log: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
		})
		m := get[api.Machine](r, 200, "GET", "/api/machine", nil)
		if len(m.GPUs) != 2 {
			t.Fatalf("GPUs = %+v", m.GPUs)
		}
		a, b := m.GPUs[0], m.GPUs[1]
		if a.UUID != "GPU-a" || a.Capability != "8.6" || a.MemoryBytes != 24<<30 || a.UsedBytes == nil ||
			*a.UsedBytes != 2<<30 ||
			a.Utilization == nil || *a.Utilization != 0.25 || a.Celsius == nil || *a.Celsius != 61 ||
			a.PowerW != nil || a.Error != "" {
			t.Errorf("the first GPU = %+v", a)
		}
		if b.Index != 1 || b.Error != "it has fallen off the bus" || b.UsedBytes != nil || b.Utilization != nil {
			t.Errorf("the second GPU = %+v", b)
		}
	})
}

func TestRuntimeOfAModel(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	v := get[api.ModelRuntime](r, 200, "GET", "/api/models/ready/runtime", nil)
	if len(v.Instances) == 0 || v.Environment != nil {
		t.Fatalf("runtime = %+v", v)
	}
	if i := v.Instances[0]; i.Version != "1" || i.Kind != "KIND_CPU" || i.HostPolicy != "cpu" || i.Process != nil ||
		i.Name == "" {
		t.Errorf("the first instance = %+v", i)
	}
	if code, _ := r.Call("GET", "/api/models/nope/runtime", nil); code != 404 {
		t.Errorf("of a model that is not there: %d", code)
	}
}

// shelf is a source of one framework whose installation waits for the test.
type shelf struct {
	mu        sync.Mutex
	installed bool
	began     chan struct{}
	result    chan error
}

func (*shelf) List() []python.Framework {
	return []python.Framework{{Name: "pytorch", Title: "PyTorch", Module: "torch", Requirements: "torch==1.0\nnumpy\n",
		Size: "5 GB"}}
}

func (s *shelf) Installed(python.Framework) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installed
}

func (s *shelf) Install(ctx context.Context, _ python.Framework, out io.Writer) error {
	_, _ = io.WriteString(out, "Collecting torch\n10 %\r20 %\rSuccess")
	s.began <- struct{}{}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.result:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.installed = err == nil
		return err
	}
}

func TestInstallingAFramework(t *testing.T) {
	s := &shelf{began: make(chan struct{}), result: make(chan error)}
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) { o.Frameworks = s })
	const path = "/api/frameworks/pytorch/install"
	ends := func(e *events) api.Framework {
		for {
			if f := next[api.Framework](e, "framework"); f.State != api.FrameworkInstalling {
				return f
			}
		}
	}
	list := get[api.Frameworks](r, 200, "GET", "/api/frameworks", nil).Frameworks
	if len(list) != 1 || list[0].State != api.FrameworkMissing || list[0].Package != "torch==1.0" ||
		list[0].Size != "5 GB" {
		t.Fatalf("frameworks = %+v", list)
	}
	if e := get[api.Error](r, 412, "POST", path, nil); e.Code != api.CodeConsent {
		t.Errorf("without consent: %+v", e)
	}
	if code, _ := r.Call("POST", "/api/frameworks/nope/install", api.InstallFramework{Consent: true}); code != 404 {
		t.Errorf("an unknown one: %d", code)
	}
	if code, _ := r.Call("DELETE", path, nil); code != 409 {
		t.Errorf("stopping what is not under way: %d", code)
	}

	e := r.Stream("framework")
	get[api.Framework](r, 202, "POST", path, api.InstallFramework{Consent: true})
	<-s.began
	if f := get[api.Frameworks](r, 200, "GET", "/api/frameworks",
		nil).Frameworks[0]; f.State != api.FrameworkInstalling || len(f.Log) != 3 || f.Log[2] != "20 %" {
		t.Errorf("under way: %+v", f)
	}
	if code, _ := r.Call("POST", path, api.InstallFramework{Consent: true}); code != 409 {
		t.Errorf("a second time at once: %d", code)
	}
	get[api.Framework](r, 200, "DELETE", path, nil)
	if f := ends(e); f.State != api.FrameworkFailed || f.Reason != "the installation was stopped" {
		t.Errorf("stopped: %+v", f)
	}

	get[api.Framework](r, 202, "POST", path, api.InstallFramework{Consent: true})
	<-s.began
	s.result <- errors.New("no space left on device")
	if f := ends(e); f.State != api.FrameworkFailed || f.Reason != "no space left on device" {
		t.Errorf("failed: %+v", f)
	}

	get[api.Framework](r, 202, "POST", path, api.InstallFramework{Consent: true})
	<-s.began
	s.result <- nil
	if f := ends(e); f.State != api.FrameworkInstalled {
		t.Errorf("installed: %+v", f)
	}
	if code, _ := r.Call("POST", path, api.InstallFramework{Consent: true}); code != 409 {
		t.Errorf("what is installed: %d", code)
	}
}

func TestMetricsThatAreOffSayHowToTurnThemOn(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	e := get[api.Error](r, 501, "GET", "/api/metrics", nil)
	if want := "this server has no metrics; leave out --allow-metrics=false"; e.Error != want {
		t.Errorf("error %q, want %q", e.Error, want)
	}
}
