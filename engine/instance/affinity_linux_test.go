package instance

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/modelconfig"
	"nereid/engine/system/affinity"
)

// threads is a model that records the cores and the memory policy of the threads it is called on, by instance.
type threads struct {
	*fake
	t     *testing.T
	mu    sync.Mutex
	cores map[string][][]int // guarded by mu, as is nodes
	nodes map[string][]int
}

type threadsInstance struct {
	backend.Instance
	m    *threads
	name string
}

func (m *threads) note(name string) {
	cores, err := affinity.OfThread(0)
	if err != nil {
		m.t.Error(err)
	}
	nodes, err := affinity.MemoryNodes()
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cores[name] = append(m.cores[name], cores)
	m.nodes[name] = nodes
}

func (m *threads) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	m.note(p.Name)
	inst, err := m.fake.NewInstance(ctx, p)
	return &threadsInstance{inst, m, p.Name}, err
}

func (i *threadsInstance) Execute(ctx context.Context, b *infer.Batch) error {
	i.m.note(i.name)
	return i.Instance.Execute(ctx, b)
}

// Instances are created and execute on threads with the cores and the memory of their host policy: that of the group,
// or else that of their kind. Instances without a policy have those of the process. At the end no thread is restricted.
func TestHostPolicies_C065(t *testing.T) {
	all, err := affinity.Cores()
	if err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1:]
	for _, tt := range []struct {
		name, group string
		policies    map[string]affinity.Policy
		cores       []int
		nodes       []int
	}{
		{name: "C065 its group's", group: `host_policy: "mine"`,
			policies: map[string]affinity.Policy{"mine": {Cores: last}, "cpu": {Cores: all}}, cores: last},
		{name: "C065 of its kind: cpu", group: `kind: KIND_CPU`,
			policies: map[string]affinity.Policy{"cpu": {Cores: last}}, cores: last},
		{name: "C065 of its kind: model", group: `kind: KIND_MODEL`,
			policies: map[string]affinity.Policy{"model": {Cores: last}}, cores: last},
		{name: "C065 of its kind: gpu_1", group: `kind: KIND_GPU gpus: 1`,
			policies: map[string]affinity.Policy{"gpu_1": {Cores: last}}, cores: last},
		{name: "C065 of another kind", group: `kind: KIND_CPU`,
			policies: map[string]affinity.Policy{"gpu_1": {Cores: last}}, cores: all},
		{name: "C065 memory of a node", group: `kind: KIND_CPU`,
			policies: map[string]affinity.Policy{"cpu": {Nodes: []int{0}}}, cores: all, nodes: []int{0}},
		{name: "C065 one that is not there restricts nothing", group: `host_policy: "other"`,
			policies: map[string]affinity.Policy{"cpu": {Cores: last}}, cores: all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, faults := modelconfig.Parse("config.pbtxt",
				[]byte(`name: "m" instance_group [ { count: 2 `+tt.group+" } ]"))
			if err := faults.Err(); err != nil {
				t.Fatal(err)
			}
			m := &threads{fake: &fake{execute: answer}, t: t, cores: map[string][][]int{}, nodes: map[string][]int{}}
			o := options(m.fake)
			o.Model, o.Parallel = m, 2
			var log bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			if o.Placements, err = Placements(cfg, 1, []int32{0, 1}, tt.policies); err != nil {
				t.Fatal(err)
			}
			s, err := Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				r := infer.New()
				inline(s) // runs it here only where no policy wants a thread
				if err := send(t, o, r); err != nil {
					t.Error(err)
				}
				r.Release()
			}
			o.Batcher.Close()
			s.Close(t.Context())
			for name, calls := range m.cores {
				for i, got := range calls {
					if !slices.Equal(got, tt.cores) {
						t.Errorf("call %d of %s on cores %v, want %v", i, name, got, tt.cores)
					}
				}
				if strings.Contains(log.String(), "holds for cores alone") {
					t.Logf("this kernel binds no memory: %s", &log)
				} else if !slices.Equal(m.nodes[name], tt.nodes) {
					t.Errorf("memory of %s from nodes %v, want %v", name, m.nodes[name], tt.nodes)
				}
			}
			if len(m.cores) != len(o.Placements) {
				t.Errorf("instances %v were made", m.cores)
			}
			if now, err := affinity.Cores(); err != nil || !slices.Equal(now, all) {
				t.Errorf("the process has the cores %v, %v after; want %v", now, err, all)
			}
		})
	}
}

// A policy that the kernel refuses fails the load with an error that names the cores.
func TestInvalidHostPolicyFailsTheLoad_C065(t *testing.T) {
	o := options(&fake{execute: answer})
	o.Placements = []backend.Placement{{Name: "a", HostPolicy: "p", Affinity: affinity.Policy{Cores: []int{1023}}}}
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(),
		`host policy "p" of instance a: the thread cannot be kept to the cores 1023`) {
		t.Errorf("Start = %v, want a refusal that names the policy and the cores", err)
	}
}
