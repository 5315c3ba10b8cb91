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

// OfThread returns the cores that a thread of this machine keeps to. 0: the calling one.
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

// onlineNodes lists the NUMA nodes; source of the format: Documentation/admin-guide/mm/numaperf of the kernel.
const onlineNodes = "/sys/devices/system/node/online"

// Nodes returns the numbers of the machine's NUMA nodes. One that the kernel does not tell of is node 0.
func Nodes() ([]int, error) {
	b, err := os.ReadFile(onlineNodes)
	if err != nil {
		return []int{0}, nil // built without NUMA, or hidden by the container: there is one
	}
	list, err := parseList(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", onlineNodes, err)
	}
	return list, nil
}

// Apply keeps the calling thread, and those that it starts from C or as processes, to the policy. The goroutine must be locked
// to the thread. memory says why the policy's memory nodes do not hold, where the kernel does not allow to choose them
// (containers forbid it by default): that costs speed and nothing else, so it is not an error.
func (p Policy) Apply() (memory, err error) {
	if p.Cores != nil {
		var set unix.CPUSet
		for _, n := range p.Cores {
			set.Set(n)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return nil, fmt.Errorf("the thread cannot be kept to the cores %s: sched_setaffinity: %w", Format(p.Cores), err)
		}
	}
	if p.Nodes != nil {
		if err := bindMemory(p.Nodes); err != nil {
			return fmt.Errorf("memory cannot be kept to NUMA node %s: set_mempolicy: %w; in a container this takes the capability SYS_NICE", Format(p.Nodes), err), nil
		}
	}
	return nil, nil
}

// Run calls f on a thread of its own that keeps to the policy, and returns when f has. memory and err are Apply's. The thread
// ends after: it is never the process's first one, which cannot end and would keep the policy.
func (p Policy) Run(f func(memory, err error)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			p.Run(f) // elsewhere: this thread is taken
			runtime.UnlockOSThread()
			return
		}
		f(p.Apply()) // never unlocked: the thread ends with the goroutine
	}()
	<-done
}

// Current returns what the calling thread keeps to, for Restore.
func Current() (Policy, error) {
	cores, err := OfThread(0)
	if err != nil {
		return Policy{}, err
	}
	nodes, err := MemoryNodes()
	if err != nil {
		nodes = nil // the kernel lets nobody choose, so there is nothing to bring back
	}
	return Policy{Cores: cores, Nodes: nodes}, nil
}

// Restore takes from the calling thread what Apply has set; before is what Current said then.
func (p Policy) Restore(before Policy) error {
	if p.Nodes != nil && before.Nodes == nil {
		_ = setMempolicy(modeDefault, nil) // it fails where setting did
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
	_, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(unsafe.Pointer(unsafe.SliceData(mask))), uintptr(len(mask)*64+boolInt(mask != nil)))
	if errno != 0 {
		return errno
	}
	return nil
}

// boolInt is 1 for true: the kernel takes one bit less than maxnode says.
func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// MemoryNodes returns the NUMA nodes that the calling thread's memory is bound to, nil for none.
func MemoryNodes() ([]int, error) {
	var mode int32
	mask := make([]uint64, most/64)
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(unsafe.SliceData(mask))), most, 0, 0, 0)
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
