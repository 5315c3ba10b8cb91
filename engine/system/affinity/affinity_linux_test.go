package affinity

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A thread is bound to the cores and the memory of its policy; other threads are not changed.
func TestApply_C065(t *testing.T) {
	all, err := Cores()
	if err != nil || len(all) == 0 {
		t.Fatalf("Cores = %v, %v", all, err)
	}
	p := Policy{Cores: all[len(all)-1:], Nodes: []int{0}}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread exits with the goroutine
		before, err := Current()
		if err != nil || !slices.Equal(before.Cores, all) {
			t.Errorf("Current = %v, %v; want the cores %v", before, err, all)
		}
		memory, err := p.Apply()
		if err != nil {
			t.Error(err)
		}
		got, err := OfThread(0)
		if err != nil || !slices.Equal(got, p.Cores) {
			t.Errorf("the thread keeps to %v, %v; want %v", got, err, p.Cores)
		}
		if memory != nil {
			t.Logf("memory is not bound: %v", memory)
		} else if nodes, err := MemoryNodes(); err != nil || !slices.Equal(nodes, p.Nodes) {
			t.Errorf("memory is bound to %v, %v; want %v", nodes, err, p.Nodes)
		}
		if err := p.Restore(before); err != nil {
			t.Error(err)
		}
		if got, err := OfThread(0); err != nil || !slices.Equal(got, all) {
			t.Errorf("restored to %v, %v; want %v", got, err, all)
		}
		if nodes, err := MemoryNodes(); err != nil || nodes != nil {
			t.Errorf("memory is bound to %v, %v after Restore", nodes, err)
		}
	}()
	<-done
	if now, err := Cores(); err != nil || !slices.Equal(now, all) {
		t.Errorf("the process has %v, %v; want %v", now, err, all)
	}
}

func TestCheck_C065(t *testing.T) {
	err := Policy{Cores: []int{0, 8000}, Nodes: []int{900}}.Check()
	if err == nil || !strings.Contains(err.Error(), "there is no core 8000 for this process; it has ") ||
		!strings.Contains(err.Error(), "there is no node 900; this machine has 0") {
		t.Errorf("Check = %v; want the core and the node that are missing, and those that are there", err)
	}
	if err := (Policy{}).Check(); err != nil || (Policy{}).Restricts() {
		t.Errorf("a policy that restricts nothing: %v", err)
	}
}
