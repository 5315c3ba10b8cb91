package model

import (
	"io/fs"
	"path/filepath"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

// Memory is what a model takes, in bytes.
type Memory struct {
	Host int64
	GPU  map[int]int64 // by device; nil: none
	// Source says how Host is known, GPUSource how GPU is: the weakest of several; "" without figures.
	Source, GPUSource MemorySource
}

// MemorySource says how the memory of a model is known.
type MemorySource string

// The sources, the better ones first.
const (
	FromProcess   MemorySource = "process"   // of the processes that execute the model
	FromAllocator MemorySource = "allocator" // what the runtime's allocators hold for it, in this process
	// FromDifference is by how much the GPU's memory in use grew while the model was loaded, and nothing else was
	// there.
	FromDifference MemorySource = "difference"
	FromFiles      MemorySource = "files" // an estimate: the size of the version's files
)

var fromBest = []MemorySource{"", FromProcess, FromAllocator, FromDifference, FromFiles}

// Weaker returns the one of two sources that is to be trusted less.
func Weaker(a, b MemorySource) MemorySource {
	if slices.Index(fromBest, a) > slices.Index(fromBest, b) {
		return a
	}
	return b
}

// Memory asks the backend what the model and its instances take now. Without an answer it is the size of the files.
func (m *Model) Memory() Memory {
	if m.loaded == nil {
		return Memory{Source: FromAllocator} // an ensemble is its graph
	}
	mem := Memory{Host: m.fileBytes, Source: FromFiles}
	if r, ok := m.loaded.(backend.MemoryReporter); ok {
		if n := r.MemoryBytes(); n >= 0 {
			mem.Host, mem.Source = n, FromAllocator
		}
	}
	mem.GPU, mem.GPUSource = m.gpus.memory(m.loaded, m.fileBytes)
	if mem.Source == FromAllocator && m.loaded.Traits().OwnProcess {
		mem.Source = FromProcess
	}
	return mem
}

// EstimateMemory is what a version will probably take, before it is loaded: the size of its files, on each device that
// it asks for.
func EstimateMemory(cfg *inferencepb.ModelConfig, versionFolder string) Memory {
	if cfg.GetEnsembleScheduling() != nil {
		return Memory{Source: FromFiles}
	}
	size := folderBytes(versionFolder)
	mem := Memory{Host: size, Source: FromFiles}
	for _, g := range cfg.GetInstanceGroup() {
		for _, gpu := range g.GetGpus() {
			if mem.GPU == nil {
				mem.GPU = map[int]int64{}
			}
			mem.GPU[int(gpu)], mem.GPUSource = size, FromFiles
		}
	}
	return mem
}

// folderBytes adds up the files of a folder; what cannot be looked at counts nothing.
func folderBytes(folder string) (total int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // an estimate
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// LastUse returns when the last request came, 0 if none has. Only a model whose Spec has NoteUse knows.
func (m *Model) LastUse() infer.Stamp { return infer.Stamp(m.lastUse.Load()) }

// sequences is a scheduler that keeps state between requests.
type sequences interface {
	// Live returns how many sequences have begun and not ended.
	Live() int
}

// Resting reports whether the model can be evicted without loss: it has no request and no live sequence.
func (m *Model) Resting() bool { return m.Idle() && !m.HasSequences() }

// HasSequences reports whether a sequence is live, so that the model holds state that its next request needs.
func (m *Model) HasSequences() bool { return m.LiveSequences() > 0 }

// LiveSequences returns how many sequences have begun and not ended.
func (m *Model) LiveSequences() int {
	if s, ok := m.scheduler.(sequences); ok {
		return s.Live()
	}
	return 0
}
