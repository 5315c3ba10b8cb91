package worker

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// maxSuspects is how many inputs of a model are remembered.
const maxSuspects = 256

// Suspects are the inputs that a model's processes executed when they crashed. An input that was executed at two
// crashes is refused for refuseTime. One that is executed without a crash is no suspect any more. A suspect is executed
// alone, so that an input is not refused because of those in its batch; only batches of sequences stay together. Inputs
// are compared by their hash, and only while there are suspects. Safe for concurrent use.
type Suspects struct {
	model string
	log   *slog.Logger
	saver *saver

	some atomic.Bool // there are any
	mu   sync.Mutex
	all  map[digest]*suspect // guarded by mu
}

type digest [sha256.Size]byte

// suspect is an input that was executed at a crash.
type suspect struct {
	bytes   int // the size of the input
	crashes int
	last    infer.Stamp // the last crash
}

// refused reports whether the input is refused.
func (x *suspect) refused() bool { return x.crashes > 1 }

// NewSuspects returns an empty list for a model version, whose instances share it.
func (l *Launcher) NewSuspects(model string, log *slog.Logger) *Suspects {
	return &Suspects{model: model, log: log, saver: &l.saver, all: map[digest]*suspect{}}
}

// any reports whether there are suspects. s may be nil.
func (s *Suspects) any() bool { return s != nil && s.some.Load() }

// find returns the digest of a request's input if it is a suspect, else nil. s.mu is not held.
func (s *Suspects) find(r *infer.Request) (digest, *suspect) {
	n := inputBytes(r)
	s.mu.Lock()
	same := false
	for d, x := range s.all {
		if infer.Now().Sub(x.last) > refuseTime {
			delete(s.all, d)
		}
		same = same || x.bytes == n
	}
	s.some.Store(len(s.all) > 0)
	s.mu.Unlock()
	if !same {
		return digest{}, nil
	}
	d, ok := digestOf(r)
	if !ok {
		return d, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.all[d]; x != nil {
		now := *x
		return d, &now
	}
	return d, nil
}

// refuse answers the requests whose input is refused, and returns the others.
func (s *Suspects) refuse(requests []*infer.Request) []*infer.Request {
	left := make([]*infer.Request, 0, len(requests))
	for _, r := range requests {
		_, x := s.find(r)
		if x == nil || !x.refused() {
			left = append(left, r)
			continue
		}
		r.Fail(status.Errorf(status.InvalidArg,
			"this input has crashed the process of model '%s' twice; it is refused until %s, and others are served; "+
				"change the input, or repair the model and load it again", s.model,
			x.last.Time().Add(refuseTime).UTC().Format(time.RFC3339)))
	}
	return left
}

// separate divides requests into those that are executed together and suspects, each of which is executed alone.
func (s *Suspects) separate(requests []*infer.Request) (parts [][]*infer.Request) {
	var together []*infer.Request
	for i, r := range requests {
		if _, x := s.find(r); x != nil {
			parts = append(parts, requests[i:i+1])
		} else {
			together = append(together, r)
		}
	}
	if len(together) > 0 {
		parts = slices.Insert(parts, 0, together)
	}
	return parts
}

// survived forgets the inputs of requests whose execution has ended with err, and not with a crash.
func (s *Suspects) survived(requests []*infer.Request, err error) {
	if status.CodeOf(err) == status.Unavailable {
		return
	}
	for _, r := range requests {
		if !r.Answered() {
			continue // of a decoupled model: it goes on
		}
		if d, x := s.find(r); x != nil && !x.refused() {
			s.mu.Lock()
			delete(s.all, d)
			s.some.Store(len(s.all) > 0)
			s.mu.Unlock()
		}
	}
}

// crashed notes that a process crashed while it executed requests. A request that began before the last crash of the
// same input does not count again: one cause may crash several processes at once.
func (s *Suspects) crashed(requests []*infer.Request) {
	for _, r := range requests {
		d, ok := digestOf(r)
		if !ok || r.Batch == nil { // without a batch it is a warmup sample
			continue
		}
		s.mu.Lock()
		x := s.all[d]
		if x == nil && len(s.all) < maxSuspects {
			x = &suspect{bytes: inputBytes(r)}
			s.all[d] = x
		}
		refuse := false
		if x != nil && r.Batch.Started >= x.last {
			x.crashes, x.last = x.crashes+1, infer.Now()
			refuse = x.crashes == 2
		}
		s.some.Store(len(s.all) > 0)
		s.mu.Unlock()
		if refuse {
			s.log.Error("an input has crashed a model's process twice and is refused from now on", "model", s.model,
				"input", hex.EncodeToString(d[:8]), "for", refuseTime)
			s.saver.save(r, d, s.log)
		}
	}
}

func inputBytes(r *infer.Request) (n int) {
	for i := range r.Inputs {
		n += r.Inputs[i].Size()
	}
	return n
}

// digestOf returns the hash of a request's input tensors. false: there is none, because some are on a GPU or the
// request is a stand-in.
func digestOf(r *infer.Request) (d digest, ok bool) {
	inputs := slices.SortedFunc(slices.Values(r.Inputs), func(a, b tensor.Tensor) int {
		return strings.Compare(a.Name, b.Name)
	})
	h := sha256.New()
	put := func(n int64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) } // never fails
	for i := range inputs {
		t := &inputs[i]
		if t.OnDevice() != nil {
			return d, false
		}
		put(int64(len(t.Name)))
		_, _ = h.Write([]byte(t.Name))
		put(int64(t.DataType))
		put(int64(len(t.Shape)))
		for _, n := range t.Shape {
			put(n)
		}
		put(int64(len(t.Data)))
		_, _ = h.Write(t.Data)
	}
	return digest(h.Sum(nil)), !r.Null
}

// executedBy returns what a process executed when it crashed: of a series, the request that had begun. If nothing was
// executed, it is the request of a decoupled model that was not finished, if there is only one.
func executedBy(w *Worker, ex *execution, late map[uint64]*pending) (had []*infer.Request) {
	if ex == nil && len(late) == 1 {
		for _, q := range late {
			had = append(had, q.r)
		}
	}
	if ex == nil {
		return had
	}
	for i := range ex.requests {
		q := &ex.requests[i]
		if !q.done && (ex.series == nil || q.ticket == w.p.Up.LastBegun()) {
			had = append(had, q.r)
		}
	}
	return had
}
