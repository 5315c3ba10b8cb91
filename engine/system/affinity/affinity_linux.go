package affinity

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cores returns the numbers of the cores that this process may use.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil, fmt.Errorf("the cores of this process are not known: sched_getaffinity: %w", err)
	}
	return members(&set), nil
}

// OfThread returns the cores on which a thread may run, by the thread's id; 0 is the calling thread.
func OfThread(id int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(id, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	return members(&set), nil
}

func members(set *unix.CPUSet) []int {
	var list []int
	for i := range len(set) * int(unsafe.Sizeof(set[0])) * 8 {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list
}

// onlineNodes lists the NUMA nodes. Source of the format: Documentation/admin-guide/mm/numaperf of the kernel.
const onlineNodes = "/sys/devices/system/node/online"

// Nodes returns the numbers of the machine's NUMA nodes; [0] if the kernel does not report any.
func Nodes() ([]int, error) {
	b, err := os.ReadFile(onlineNodes)
	if err != nil {
		return []int{0}, nil // built without NUMA, or hidden by the container
	}
	list, err := parseList(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", onlineNodes, err)
	}
	return list, nil
}

// Apply binds the calling thread, and the threads and processes that it starts outside of Go, to the policy. The
// goroutine must be locked to the thread. memory is the reason why the policy's nodes are not applied: containers
// forbid it by default. This costs only speed, so it is not an error.
func (p Policy) Apply() (memory, err error) {
	if p.Cores != nil {
		var set unix.CPUSet
		for _, n := range p.Cores {
			set.Set(n)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return nil, fmt.Errorf("the thread cannot be kept to the cores %s: sched_setaffinity: %w",
				Format(p.Cores), err)
		}
	}
	if p.Nodes != nil {
		if err := bindMemory(p.Nodes); err != nil {
			return fmt.Errorf("memory cannot be kept to NUMA node %s: set_mempolicy: %w; "+
				"in a container this takes the capability SYS_NICE", Format(p.Nodes), err), nil
		}
	}
	return nil, nil
}

// Run calls f on a new thread that is bound to the policy, and returns when f returns. memory and err are Apply's. The
// thread exits afterwards. It is never the main thread of the process, which could not exit and would keep the policy.
func (p Policy) Run(f func(memory, err error)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			p.Run(f) // on another thread: this one stays locked meanwhile
			runtime.UnlockOSThread()
			return
		}
		f(p.Apply()) // never unlocked: the thread exits with the goroutine
	}()
	<-done
}

// Current returns the policy of the calling thread, for Restore.
func Current() (Policy, error) {
	cores, err := OfThread(0)
	if err != nil {
		return Policy{}, err
	}
	nodes, err := MemoryNodes()
	if err != nil {
		nodes = nil // the kernel forbids choosing nodes, so there is nothing to restore
	}
	return Policy{Cores: cores, Nodes: nodes}, nil
}

// Restore undoes Apply on the calling thread. before is what Current returned before Apply.
func (p Policy) Restore(before Policy) error {
	if p.Nodes != nil && before.Nodes == nil {
		_ = setMempolicy(modeDefault, nil) // it fails if Apply could not set it
	}
	_, err := before.Apply()
	return err
}

// The modes of set_mempolicy(2).
const (
	modeDefault = 0
	modeBind    = 2
)

func bindMemory(nodes []int) error {
	mask := make([]uint64, most/64)
	for _, n := range nodes {
		mask[n/64] |= 1 << (n % 64)
	}
	return setMempolicy(modeBind, mask[:nodes[len(nodes)-1]/64+1])
}

func setMempolicy(mode int, mask []uint64) error {
	maxNode := 0
	if mask != nil {
		maxNode = len(mask)*64 + 1 // the kernel reads one bit less
	}
	_, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(unsafe.Pointer(unsafe.SliceData(mask))),
		uintptr(maxNode))
	if errno != 0 {
		return errno
	}
	return nil
}

// MemoryNodes returns the NUMA nodes that the calling thread's memory is bound to, nil for none.
func MemoryNodes() ([]int, error) {
	var mode int32
	mask := make([]uint64, most/64)
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)),
		uintptr(unsafe.Pointer(unsafe.SliceData(mask))), most, 0, 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("get_mempolicy: %w", errno)
	}
	var list []int
	for n := range most {
		if mode == modeBind && mask[n/64]&(1<<(n%64)) != 0 {
			list = append(list, n)
		}
	}
	return list, nil
}
