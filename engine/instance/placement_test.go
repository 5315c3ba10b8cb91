package instance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

func TestPlacements(t *testing.T) {
	for _, tt := range []struct {
		name, groups string
		gpus         []int32
		want         string // name kind device policy
		err          string
	}{
		{name: "none: the backend's default", want: "m_0_0 CPU 0 cpu, m_0_1 CPU 0 cpu"},
		{name: "C058 count", groups: `{ count: 1 kind: KIND_CPU }`, want: "m_0_0 CPU 0 cpu"},
		{name: "C057 auto without GPUs", groups: `{ count: 2 }`, want: "m_0_0 CPU 0 cpu, m_0_1 CPU 0 cpu"},
		{name: "C061 two groups", groups: `{ count: 1 kind: KIND_CPU }, { count: 1 kind: KIND_MODEL }`,
			want: "m_0_0 CPU 0 cpu, m_1_0 MODEL 0 model"},
		{name: "C061 its own name", groups: `{ name: "x" count: 2 kind: KIND_CPU }`,
			want: "x_0 CPU 0 cpu, x_1 CPU 0 cpu"},
		{name: "C059 count on each GPU listed", groups: `{ count: 2 kind: KIND_GPU gpus: [ 0, 2 ] }`,
			gpus: []int32{0, 1, 2},
			want: "m_0_0_gpu0 GPU 0 gpu_0, m_0_0_gpu2 GPU 2 gpu_2, m_0_1_gpu0 GPU 0 gpu_0, m_0_1_gpu2 GPU 2 gpu_2"},
		{name: "C059 CPU and GPU side by side",
			groups: `{ count: 1 kind: KIND_GPU gpus: 1 }, { count: 2 kind: KIND_CPU }`, gpus: []int32{0, 1},
			want: "m_0_0_gpu1 GPU 1 gpu_1, m_1_0 CPU 0 cpu, m_1_1 CPU 0 cpu"},
		{name: "host policy", groups: `{ count: 1 kind: KIND_GPU gpus: 0 host_policy: "p" }`, gpus: []int32{0},
			want: "m_0_0_gpu0 GPU 0 p"},
		{name: "C062 a passive group and one that is not",
			groups: `{ count: 1 kind: KIND_CPU }, { count: 1 kind: KIND_CPU passive: true }`,
			want:   "m_0_0 CPU 0 cpu, m_1_0 CPU 0 cpu passive"},
		{name: "C062 all passive", groups: `{ count: 1 kind: KIND_CPU passive: true }`,
			err: "nothing would run its requests"},
		{name: "C073 the machine has no GPU", groups: `{ count: 1 kind: KIND_GPU }`,
			err: "instance group m_0 of model m has kind KIND_GPU but no GPUs are available"},
		{name: "C073 not that GPU", groups: `{ count: 1 kind: KIND_GPU gpus: 3 }`, gpus: []int32{0},
			err: "specifies invalid or unsupported gpu id 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, faults := modelconfig.Parse("config.pbtxt", []byte(`name: "m" instance_group [ `+tt.groups+" ]"))
			if err := faults.Err(); err != nil {
				t.Fatal(err)
			}
			got, err := Placements(cfg, 2, tt.gpus, nil)
			var all []string
			for _, p := range got {
				s := fmt.Sprint(p.Name, " ", strings.TrimPrefix(p.Kind.String(), "KIND_"), " ", p.Device, " ",
					p.HostPolicy)
				if p.Passive {
					s += " passive"
				}
				all = append(all, s)
			}
			if s := strings.Join(all, ", "); s != tt.want || (err == nil) != (tt.err == "") || err != nil &&
				!strings.Contains(err.Error(), tt.err) {
				t.Errorf("Placements = %s, %v; want %s, %q", s, err, tt.want, tt.err)
			}
		})
	}
	if _, err := Placements(&inferencepb.ModelConfig{InstanceGroup: []*inferencepb.ModelInstanceGroup{{Kind: 99}}}, 1,
		nil, nil); err == nil {
		t.Error("an unknown kind passes")
	}
}

// The other settings of a group reach the backend with each of its instances, and with no other group's.
func TestPlacementsCarryGroupSettings(t *testing.T) {
	cfg, _, faults := modelconfig.Parse("config.pbtxt", []byte(`name: "m" instance_group [
  { count: 2 kind: KIND_GPU gpus: 0 profile: [ "1", "3" ] secondary_devices { kind: KIND_NVDLA device_id: 1 }
     rate_limiter { priority: 2 } },
  { count: 1 kind: KIND_CPU } ]`))
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	m := &placed{fake: &fake{execute: answer}}
	o := options(m.fake)
	o.Model = m
	var err error
	if o.Placements, err = Placements(cfg, 1, []int32{0}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range m.got {
		profiles, devices, priority := "1 3", 1, uint32(2)
		if i == 2 {
			profiles, devices, priority = "", 0, 0
		}
		if strings.Join(p.Profiles, " ") != profiles || len(p.SecondaryDevices) != devices ||
			p.RateLimiter.GetPriority() != priority ||
			devices > 0 && (p.SecondaryDevices[0].GetDeviceId() != 1 ||
				p.SecondaryDevices[0].GetKind() != inferencepb.ModelInstanceGroup_SecondaryDevice_KIND_NVDLA) {
			t.Errorf("instance %d was made at %+v", i, p)
		}
	}
	if len(m.got) != 3 {
		t.Errorf("%d instances were made", len(m.got))
	}
	o.Batcher.Close()
	s.Close(t.Context())
}

// placed records the placements of its instances.
type placed struct {
	*fake
	got []backend.Placement
}

func (m *placed) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	m.got = append(m.got, p)
	return m.fake.NewInstance(ctx, p)
}

// A passive instance is created and never executes a request. It is closed with the others or by Resize.
func TestPassiveInstances_C062(t *testing.T) {
	m := &fake{}
	var by sync.Map
	m.execute = answer
	o := options(m)
	o.Placements = []backend.Placement{{Name: "a"}, {Name: "p", Passive: true}, {Name: "q", Passive: true}}
	o.Model = &watched{m, &by}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.names(); len(got) != 3 || s.Count() != 3 {
		t.Errorf("instances %v", got)
	}
	for range 50 {
		r := infer.New()
		inline(s) // or not, if the working instance is not free
		if err := send(t, o, r); err != nil {
			t.Error(err)
		}
		r.Release()
	}
	by.Range(func(name, _ any) bool {
		if name != "a" {
			t.Errorf("the passive instance %v ran a request", name)
		}
		return true
	})
	if err := s.Resize(t.Context(), o.Placements[:2]); err != nil || len(m.names()) != 2 {
		t.Errorf("Resize = %v with %v", err, m.names())
	}
	o.Batcher.Close()
	s.Close(t.Context())
	if open := m.names(); len(open) > 0 {
		t.Errorf("instances %v are open after Close", open)
	}
}

// watched records which instances execute.
type watched struct {
	*fake
	by *sync.Map
}

type watchedInstance struct {
	backend.Instance
	by   *sync.Map
	name string
}

func (w *watched) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	inst, err := w.fake.NewInstance(ctx, p)
	return &watchedInstance{inst, w.by, p.Name}, err
}

func (w *watchedInstance) Execute(ctx context.Context, b *infer.Batch) error {
	w.by.Store(w.name, true)
	return w.Instance.Execute(ctx, b)
}
