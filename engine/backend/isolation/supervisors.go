package isolation

import (
	"slices"
	"sync"
	"time"

	"nereid/engine/backend"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// Supervisors are the processes of a model's instances. A model that embeds it has backend.Health, MemoryReporter,
// ProcessReporter, InputMemory and Leaver. The zero value has no process. All methods are safe for concurrent use.
type Supervisors struct {
	// Suspects are the inputs that have ended processes of the model. nil: none is refused.
	Suspects *worker.Suspects

	mu  sync.Mutex
	all []*worker.Supervisor // guarded by mu
}

// Add adds the process of a new instance.
func (s *Supervisors) Add(x *worker.Supervisor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, x)
}

// Remove removes the process of an instance that is closed.
func (s *Supervisors) Remove(x *worker.Supervisor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(y *worker.Supervisor) bool { return y == x })
}

// InputBuffer implements backend.InputMemory with the memory of the only process. With several, it is not known yet
// which one will execute the request.
func (s *Supervisors) InputBuffer(n int) *tensor.Buffer {
	s.mu.Lock()
	var w *worker.Worker
	if len(s.all) == 1 {
		w = s.all[0].Worker()
	}
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.InputBuffer(n)
}

// All returns the processes as they are now.
func (s *Supervisors) All() []*worker.Supervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Working returns those of the instances that take requests.
func (s *Supervisors) Working() []*worker.Supervisor {
	return slices.DeleteFunc(s.All(), (*worker.Supervisor).Passive)
}

// Leave implements backend.Leaver.
func (s *Supervisors) Leave() (limit time.Duration) {
	for _, x := range s.All() {
		limit = max(limit, x.Leave())
	}
	return limit
}

// Healthy returns nil if an instance takes requests, or there is none; else why the first one takes none.
func (s *Supervisors) Healthy() error {
	var first error
	for _, x := range s.Working() {
		err := x.State().Err
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Processes implements backend.ProcessReporter.
func (s *Supervisors) Processes() (all []backend.Process) {
	for _, x := range s.All() {
		r := x.Report()
		all = append(all, backend.Process{
			Instance: r.Name, PID: r.PID, Since: r.Since, MemoryBytes: r.Bytes, Ends: r.Ends,
			Quarantined: r.Quarantined, Err: r.Err, Output: r.Output, Before: r.Before,
		})
	}
	return all
}

// MemoryBytes returns the resident memory of the processes in bytes, with what is shared with them.
func (s *Supervisors) MemoryBytes() (total int64) {
	for _, x := range s.All() {
		if w := x.Worker(); w != nil {
			total += w.ResidentBytes()
		}
	}
	return total
}
