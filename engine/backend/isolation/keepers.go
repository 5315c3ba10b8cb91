package isolation

import (
	"slices"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// Keepers are the processes of a model's instances; a model that has one makes its backend.Health, MemoryReporter,
// ProcessReporter and Separate of it. The zero value has none. The methods are safe for concurrent use.
type Keepers struct {
	mu  sync.Mutex
	all []*worker.Keeper // guarded by mu
}

// Add takes the process of a new instance in.
func (k *Keepers) Add(own *worker.Keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, own)
}

// Remove forgets the process of an instance that is closed.
func (k *Keepers) Remove(own *worker.Keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(x *worker.Keeper) bool { return x == own })
}

// InputBuffer implements backend.InputMemory: the memory is that of the only process. Which of several will have the request
// is not known before.
func (k *Keepers) InputBuffer(n int) *tensor.Buffer {
	k.mu.Lock()
	var w *worker.Worker
	if len(k.all) == 1 {
		w = k.all[0].Worker()
	}
	k.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.InputBuffer(n)
}

// All returns the processes as they are now.
func (k *Keepers) All() []*worker.Keeper {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

// Healthy returns nil if an instance takes requests.
func (k *Keepers) Healthy() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	for _, x := range k.all {
		s := x.State()
		if s.Err == nil {
			return nil
		}
		if err == nil {
			err = s.Err
		}
	}
	return err
}

// Processes implements backend.ProcessReporter.
func (k *Keepers) Processes() (all []backend.Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.all {
		r := x.Report()
		all = append(all, backend.Process{Instance: r.Name, PID: r.PID, Since: r.Since, MemoryBytes: r.Bytes, Ends: r.Ends,
			Quarantined: r.Quarantined, Err: r.Err, Output: r.Output, Before: r.Before})
	}
	return all
}

// MemoryBytes returns the resident memory of the processes, with what is shared with them.
func (k *Keepers) MemoryBytes() (total int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.all {
		if w := x.Worker(); w != nil {
			total += w.ResidentBytes()
		}
	}
	return total
}
