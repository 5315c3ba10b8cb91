package shadow

import (
	"math"
	"slices"

	"nereid/engine/compare"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// RuleKind says when two outputs agree.
type RuleKind string

// The kinds.
const (
	// ByOutput chooses for each output: RuleTop for floating point numbers with a last dimension above 1, RuleNear for
	// others, RuleEqual for all other types.
	ByOutput  RuleKind = ""
	RuleTop   RuleKind = "top"   // the highest element of each row is the same one
	RuleNear  RuleKind = "near"  // no element differs by more than Tolerance; see compare.Difference.MaxError
	RuleEqual RuleKind = "equal" // all elements are equal
)

// Rule says when two answers agree: all their outputs do.
type Rule struct {
	Kind      RuleKind
	Tolerance float64 // of RuleNear; 0: DefaultTolerance
}

// DefaultTolerance is the Tolerance of a Rule without one.
const DefaultTolerance = 1e-3

const (
	// flagFaults is how many disagreements a verdict needs.
	flagFaults = 3
	// flagShare is the share of answers that may disagree.
	flagShare = 0.001
	z95       = 1.959964 // of the normal distribution: 95 % are within
)

// Report is what was compared.
type Report struct {
	Seen     int64 // requests of the version in service
	Compared int64
	Agreed   int64
	// Failed counts copies that the candidate did not answer, and LastError says why the last one. They are not in
	// Compared.
	Failed    int64
	LastError string
	// Dropped counts sampled requests for which there was no room or time, Skipped those that cannot be copied.
	Dropped, Skipped int64
	Waiting          int
	// GapSeconds is by how much the candidate's executions took longer, on average; the true mean is within GapError of
	// it with 95 %. GapError is infinite before two comparisons.
	GapSeconds, GapError float64
	Outputs              []Output
}

// Output is what was compared of one output.
type Output struct {
	Name   string
	Rule   RuleKind
	Agreed int64
	// Mismatched says why the last one could not be compared, such as another shape.
	Mismatched string
	// The worst differences.
	MaxAbs, MaxRel float64
}

// Flagged reports whether the candidate disagrees too often, or fails: with 95 % certainty more than one answer in
// 1,000.
func (r *Report) Flagged() bool {
	n := r.Compared + r.Failed
	return n-r.Agreed >= flagFaults && wilson(n-r.Agreed, n) > flagShare
}

// wilson returns the lower end of the 95 % confidence interval of a share k/n. Source: E. B. Wilson, 1927.
func wilson(k, n int64) float64 {
	p, m := float64(k)/float64(n), float64(n)
	z2 := z95 * z95
	return (p + z2/(2*m) - z95*math.Sqrt(p*(1-p)/m+z2/(4*m*m))) / (1 + z2/m)
}

func (r *Report) failed(err error) {
	r.Failed++
	r.LastError = err.Error()
}

// add counts one comparison.
func (r *Report) add(rule Rule, want []tensor.Tensor, got *infer.Response) {
	r.Compared++
	all := true
	for i := range want {
		at := slices.IndexFunc(r.Outputs, func(o Output) bool { return o.Name == want[i].Name })
		if at < 0 {
			at = len(r.Outputs)
			r.Outputs = append(r.Outputs, Output{Name: want[i].Name, Rule: rule.of(&want[i])})
		}
		all = r.Outputs[at].add(rule, &want[i], got.Output(want[i].Name)) && all
	}
	if all {
		r.Agreed++
	}
}

func (r Rule) of(t *tensor.Tensor) RuleKind {
	n := len(t.Shape)
	switch {
	case t.DataType == tensor.Bytes || r.Kind == ByOutput && !compare.IsFloat(t.DataType):
		return RuleEqual
	case r.Kind == RuleTop && (n == 0 || t.Shape[n-1] < 2):
		return RuleEqual
	case r.Kind != ByOutput:
		return r.Kind
	case n > 0 && t.Shape[n-1] > 1:
		return RuleTop
	}
	return RuleNear
}

func (o *Output) add(rule Rule, want, got *tensor.Tensor) bool {
	if got == nil {
		o.Mismatched = "the candidate did not give this output"
		return false
	}
	d, err := compare.Tensors(got, want)
	if err != nil {
		o.Mismatched = err.Error()
		return false
	}
	o.MaxAbs, o.MaxRel = max(o.MaxAbs, d.MaxAbs), max(o.MaxRel, d.MaxRel)
	agreed := d.Differing == 0
	switch o.Rule {
	case RuleTop:
		if k, ok := compare.TopK(want, got, 1); ok {
			agreed = k.Same == k.Rows
		}
	case RuleNear:
		tolerance := rule.Tolerance
		if tolerance == 0 {
			tolerance = DefaultTolerance
		}
		agreed = d.Within(tolerance, want.DataType)
	}
	if agreed {
		o.Agreed++
	}
	return agreed
}

// welford is a running mean and variance. Source: B. P. Welford, 1962.
type welford struct {
	n        float64
	mean, m2 float64
}

func (w *welford) add(v float64) {
	w.n++
	d := v - w.mean
	w.mean += d / w.n
	w.m2 += d * (v - w.mean)
}

// interval returns the mean and half the width of its 95 % confidence interval, infinite below two values.
func (w *welford) interval() (mean, half float64) {
	if w.n < 2 {
		return w.mean, math.Inf(1)
	}
	return w.mean, z95 * math.Sqrt(w.m2/(w.n-1)/w.n)
}
