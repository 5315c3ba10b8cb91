package onnxruntime_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
)

// twoCores returns all cores of the process, and the last one.
func twoCores(t *testing.T) (all, last []int) {
	t.Helper()
	all, err := affinity.Cores()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skip("with one core there is nothing to choose")
	}
	return all, all[len(all)-1:]
}

// threadsOn counts a process's threads whose affinity is exactly these cores, and all its threads.
func threadsOn(t *testing.T, pid string, cores []int) (those, total int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := affinity.OfThread(id); err == nil && slices.Equal(got, cores) { // it may have ended
			those++
		}
		total++
	}
	return those, total
}

// digitsSpec is a model with convolutions, which ONNX Runtime runs on several threads.
func digitsSpec(parameters map[string]string) backend.Spec {
	folder := filepath.Join("..", "..", "..", "models-sample", "digits")
	s := backend.Spec{ModelName: "digits", Version: 1, ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"),
		Log: slog.New(slog.DiscardHandler),
		Config: config(32, []tensorIO{{"image", tensor.FP32, []int64{1, 28, 28}}},
			[]tensorIO{{"scores", tensor.FP32, []int64{10}}})}
	s.Config.Parameters = map[string]*inferencepb.ModelParameter{}
	for k, v := range parameters {
		s.Config.Parameters[k] = &inferencepb.ModelParameter{StringValue: v}
	}
	return s
}

// ONNX Runtime's threads for an instance run on the cores of its host policy. Their number is the configured one, or
// one per core, less the calling thread.
func TestHostPolicyOfThreads_C065(t *testing.T) {
	all, last := twoCores(t)
	b := open(t)
	image := floats("image", []int64{1, 1, 28, 28}, make([]float32, 28*28)...)
	want := ask(t, b, digitsSpec(nil), 1, image)
	if want.Err != nil {
		t.Fatal(want.Err)
	}
	for _, tt := range []struct {
		name       string
		parameters map[string]string
		cores      []int
		threads    int // that keep to the last core
	}{
		{"C065 no policy", map[string]string{"intra_op_thread_count": "3"}, nil, 0},
		{"C065 three threads on the last core", map[string]string{"intra_op_thread_count": "3"}, last, 2},
		{"C065 all threads on all cores", map[string]string{"intra_op_thread_count": "3"}, all, 0},
		{"C065 as many threads as cores", nil, last, 0},
		{"C065 where the configuration says", map[string]string{"intra_op_thread_count": "2",
			"session.intra_op_thread_affinities": strconv.Itoa(last[0] + 1)}, all, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			self := strconv.Itoa(os.Getpid())
			before, _ := threadsOn(t, self, last)
			m, err := b.Load(t.Context(), digitsSpec(tt.parameters))
			if err != nil {
				t.Fatal(err)
			}
			inst, err := m.NewInstance(t.Context(), backend.Placement{Name: "digits_0_0",
				Kind: inferencepb.ModelInstanceGroup_KIND_CPU, Affinity: affinity.Policy{Cores: tt.cores}})
			if err != nil {
				t.Fatal(err)
			}
			after, _ := threadsOn(t, self, last)
			for begin := time.Now(); after-before < tt.threads &&
				time.Since(begin) < 30*time.Second; runtime.Gosched() {
				after, _ = threadsOn(t, self, last) // a thread keeps to its cores once it runs
			}
			if after-before != tt.threads {
				t.Errorf("%d threads keep to %v, want %d", after-before, last, tt.threads)
			}
			got := once(t, inst, 1, image)
			if got.Err != nil || !bytes.Equal(got.Outputs[0].Data, want.Outputs[0].Data) {
				t.Errorf("answer %v, want that without a policy", got.Err)
			}
			got.Release()
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// All threads of an isolated instance's process run on the cores of its host policy, from the start of the process.
func TestHostPolicyOfIsolatedProcess_C065(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all, last := twoCores(t)
	b := isolating(t)
	s := digitsSpec(nil)
	isolate(s.Config)
	m, err := b.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, cores := range [][]int{last, all} {
		p := backend.Placement{Name: fmt.Sprint("digits_0_", i), Kind: inferencepb.ModelInstanceGroup_KIND_CPU}
		if i == 0 {
			p.Affinity.Cores = cores
		}
		known := children(t)
		inst, err := m.NewInstance(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		started := slices.DeleteFunc(children(t), func(pid string) bool { return slices.Contains(known, pid) })
		if len(started) != 1 {
			t.Fatalf("processes %v were started", started)
		}
		if those, total := threadsOn(t, started[0], cores); those != total || total == 0 {
			t.Errorf("%d of %d threads of instance %d keep to %v", those, total, i, cores)
		}
		if resp := once(t, inst,
			1, floats("image", []int64{1, 1, 28, 28}, make([]float32, 28*28)...)); resp.Err != nil {
			t.Error(resp.Err)
		}
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	}
}

// children returns the ids of the child processes.
func children(t testing.TB) (all []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		if b, err := os.ReadFile(file); err == nil { // a thread may have ended
			all = append(all, strings.Fields(string(b))...)
		}
	}
	return all
}

// Instances with separate sessions can be made concurrently.
func TestInstancesLoadConcurrently_C066(t *testing.T) {
	var b backend.Backend = open(t)
	if !b.Traits().ParallelInstances {
		t.Fatal("the backend does not say that instances may be made side by side")
	}
	for _, parameters := range []map[string]string{nil, {"intra_op_thread_count": "1"},
		{"intra_op_thread_count": "1", "share_session_between_instances": "true"}} {
		m, err := b.(*onnxruntime.Backend).Load(t.Context(), digitsSpec(parameters))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		instances := make([]backend.Instance, 6)
		for i := range instances {
			wg.Go(func() {
				p := backend.Placement{Name: fmt.Sprint("digits_0_", i), Kind: inferencepb.ModelInstanceGroup_KIND_CPU}
				var err error
				if instances[i], err = m.NewInstance(t.Context(), p); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, inst := range instances {
			if resp := once(t, inst,
				1, floats("image", []int64{1, 1, 28, 28}, make([]float32, 28*28)...)); resp.Err != nil {
				t.Error(resp.Err)
			}
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
