package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Field is what an axis changes.
type Field string

// The fields. All but Load are a model's configuration.
const (
	Load      Field = "load"             // requests in flight, or per second
	MaxBatch  Field = "max_batch_size"   // rows
	Delay     Field = "max_queue_delay"  // of dynamic batching, microseconds; NoBatching: there is none
	Instances Field = "instance_count"   // of each device
	Kind      Field = "instance_kind"    // KindCPU or KindGPU
	Threads   Field = "intra_op_threads" // of an execution in ONNX Runtime; 0, the last value: all cores
)

// NoBatching is the Delay of a model without dynamic batching.
const NoBatching = -1

// The values of Kind.
const (
	KindCPU = 0
	KindGPU = 1
)

// Axis is a field that may be changed, and its values in rising order.
type Axis struct {
	Model  string // whose configuration it is; "" for Load
	Field  Field
	Values []int
	Start  int // the index of the present configuration's value, or of the first load of a search
	// Present is set if the value at Start was not asked for. Brute measures it only in the present configuration.
	Present bool
}

// NewAxis returns an axis of values in any order. It adds the present value, at which the axis starts.
func NewAxis(model string, f Field, values []int, present int) Axis {
	a := Axis{Model: model, Field: f, Values: slices.Clone(values), Present: !slices.Contains(values, present)}
	if a.Present {
		a.Values = append(a.Values, present)
	}
	slices.SortFunc(a.Values, func(x, y int) int { return cmp.Compare(f.order(x), f.order(y)) })
	a.Values = slices.Compact(a.Values)
	a.Start = slices.Index(a.Values, present)
	return a
}

// Space is all candidates. The last axis is the load: candidates that differ only in it can use the same server.
type Space struct{ Axes []Axis }

// Candidate is an index into the values of each axis.
type Candidate []int

// Check returns the first fault of a space.
func (s *Space) Check() error {
	if len(s.Axes) == 0 || s.Axes[len(s.Axes)-1].Field != Load {
		return errors.New("the last axis of a search must be the load")
	}
	for _, a := range s.Axes {
		if a.Start < 0 || a.Start >= len(a.Values) {
			return fmt.Errorf("%s: the start %d is none of %d values", a.name(), a.Start, len(a.Values))
		}
		for i := range a.Values {
			if i > 0 && a.Field.order(a.Values[i]) <= a.Field.order(a.Values[i-1]) {
				return fmt.Errorf("%s: the values %v do not rise", a.name(), a.Values)
			}
		}
	}
	return nil
}

// order returns the number by which the values of an axis are sorted.
func (f Field) order(value int) int {
	if f == Threads && value == 0 {
		return math.MaxInt
	}
	return value
}

func (a *Axis) name() string {
	if a.Model == "" {
		return string(a.Field)
	}
	return a.Model + "." + string(a.Field)
}

// Start is the present configuration under the first load of a search.
func (s *Space) Start() Candidate {
	c := make(Candidate, len(s.Axes))
	for i := range s.Axes {
		c[i] = s.Axes[i].Start
	}
	return c
}

// Value is a candidate's value on an axis.
func (s *Space) Value(c Candidate, axis int) int { return s.Axes[axis].Values[c[axis]] }

// LoadOf is the load of a candidate.
func (s *Space) LoadOf(c Candidate) int { return s.Value(c, len(s.Axes)-1) }

// Key names a candidate. It is the same in every run of a search.
func (s *Space) Key(c Candidate) string { return s.key(c, len(s.Axes)) }

// Variant names a candidate's configuration, without the load.
func (s *Space) Variant(c Candidate) string { return s.key(c, len(s.Axes)-1) }

func (s *Space) key(c Candidate, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", s.Axes[i].name(), s.Value(c, i))
	}
	return b.String()
}

// IsPresent reports whether a candidate's configuration is the present one, under any load.
func (s *Space) IsPresent(c Candidate) bool {
	return slices.Equal(c[:len(c)-1], s.Start()[:len(c)-1])
}

// Change is an axis on which a candidate's configuration is not the present one.
type Change struct {
	Model    string
	Field    Field
	From, To int
}

// Changes are the differences between a candidate's configuration and the present one.
func (s *Space) Changes(c Candidate) []Change {
	var out []Change
	for i := range s.Axes[:len(s.Axes)-1] {
		if a := &s.Axes[i]; c[i] != a.Start {
			out = append(out, Change{Model: a.Model, Field: a.Field, From: a.Values[a.Start], To: a.Values[c[i]]})
		}
	}
	return out
}

// Singles are the configurations that differ from the present one in one field. A larger batch size has no effect
// without dynamic batching: where the present configuration has none, the two are changed together.
func (s *Space) Singles() (out []Candidate) {
	last := len(s.Axes) - 1
	for i := range s.Axes[:last] {
		a := &s.Axes[i]
		batching := slices.IndexFunc(s.Axes, func(b Axis) bool { return b.Model == a.Model && b.Field == Delay })
		for j := range a.Values {
			if j == a.Start {
				continue
			}
			c := s.Start()
			c[i] = j
			if a.Field == MaxBatch && batching >= 0 && s.Value(c, batching) == NoBatching {
				on := slices.IndexFunc(s.Axes[batching].Values, func(v int) bool { return v != NoBatching })
				if on < 0 || j < a.Start {
					continue
				}
				c[batching] = on
			}
			out = append(out, c)
		}
	}
	return out
}

// Size is the number of candidates that Brute measures.
func (s *Space) Size() int {
	n, present := 1, false
	for i := range s.Axes {
		k := len(s.Axes[i].Values)
		if s.Axes[i].Present && i < len(s.Axes)-1 {
			k, present = k-1, true
		}
		n *= k
	}
	if present {
		n += len(s.Axes[len(s.Axes)-1].Values)
	}
	return n
}
