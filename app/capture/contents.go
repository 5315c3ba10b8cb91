package capture

import (
	"path"
	"slices"
	"strings"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Contents are what was captured of one request.
type Contents struct {
	ID     int64  `json:"id"`     // of its record
	TimeUS int64  `json:"timeUs"` // when it ended; 0: an older program wrote it
	Model  string `json:"model"`
	Error  string `json:"error,omitempty"`
	// ErrorLeftOut is "rule" if the request failed and its error may quote what a rule left out.
	ErrorLeftOut string      `json:"errorLeftOut,omitempty"`
	Inputs       []Tensor    `json:"inputs"`
	Outputs      []Tensor    `json:"outputs"` // of the final response
	Parameters   []Parameter `json:"parameters,omitempty"`
	// Sequence: it belongs to a sequence of requests.
	Sequence bool `json:"sequence,omitempty"`
}

// Tensor is an input or an output.
type Tensor struct {
	Name     string  `json:"name"`
	DataType string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	Data     []byte  `json:"data"` // as tensor.Tensor has it
	// LeftOut says why there is no Data: "rule", "size" or "gpu".
	LeftOut string `json:"leftOut,omitempty"`
}

// Parameter is a parameter of the request.
type Parameter struct {
	Name    string `json:"name"`
	Value   any    `json:"value"`
	LeftOut string `json:"leftOut,omitempty"` // "rule"
}

// Reasons for which contents are left out.
const (
	ByRule = "rule"
	BySize = "size"
	OnGPU  = "gpu"
)

// leaves reports whether a rule leaves out what has this name.
func (s *Settings) leaves(name string) bool {
	for _, pattern := range s.LeaveOut {
		if ok, _ := path.Match(withoutSlash(pattern), withoutSlash(name)); ok {
			return true
		}
	}
	return false
}

// withoutSlash lets a "*" of path.Match stand for a whole name that has slashes.
func withoutSlash(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// contentsOf copies what s lets be captured. It returns the bytes of the tensors.
func (s *Settings) contentsOf(r *infer.Request, resp *infer.Response) (c *Contents, size int64) {
	c = &Contents{Sequence: r.Correlation != infer.CorrelationID{}}
	c.Inputs = s.copyOf(r.Inputs, &size)
	c.Outputs = s.copyOf(resp.Outputs, &size)
	for _, p := range r.Parameters {
		q := Parameter{Name: strings.Clone(p.Name)}
		if s.leaves(q.Name) {
			q.LeftOut = ByRule
		} else {
			q.Value = valueOf(p)
		}
		c.Parameters = append(c.Parameters, q)
	}
	if resp.Err != nil && c.ruled() {
		c.ErrorLeftOut = ByRule
	} else if resp.Err != nil {
		c.Error = resp.Err.Error()
	}
	return c, size
}

// ruled reports whether a rule left out something of the request.
func (c *Contents) ruled() bool {
	return slices.ContainsFunc(c.Inputs, func(t Tensor) bool { return t.LeftOut == ByRule }) ||
		slices.ContainsFunc(c.Parameters, func(p Parameter) bool { return p.LeftOut == ByRule })
}

// copyOf copies tensors until their bytes would be more than s.MaxBytes.
func (s *Settings) copyOf(all []tensor.Tensor, size *int64) []Tensor {
	out := make([]Tensor, len(all))
	for i := range all {
		t := &all[i]
		out[i] = Tensor{Name: strings.Clone(t.Name), DataType: t.DataType.String(),
			Shape: append([]int64{}, t.Shape...)}
		switch n := int64(t.Size()); {
		case s.leaves(t.Name):
			out[i].LeftOut = ByRule
		case t.OnDevice() != nil:
			out[i].LeftOut = OnGPU
		case *size+n > s.MaxBytes:
			out[i].LeftOut = BySize
		default:
			out[i].Data = append([]byte{}, t.Data...)
			*size += n
		}
	}
	return out
}

func valueOf(p infer.Parameter) any {
	switch p.Kind {
	case infer.BoolParameter:
		return p.Bool
	case infer.IntParameter:
		return p.Int
	case infer.UintParameter:
		return p.Uint
	case infer.FloatParameter:
		return p.Float
	}
	return strings.Clone(p.Text)
}
