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
	ErrorLeftOut string   `json:"errorLeftOut,omitempty"`
	Inputs       []Tensor `json:"inputs"`
	// Outputs are those of all responses. An output of several responses is joined; see tensor.JoinShapes.
	Outputs []Tensor `json:"outputs"`
	// Responses counts them, without an empty one at the end; 0: an older program wrote it.
	Responses  int         `json:"responses,omitempty"`
	Parameters []Parameter `json:"parameters,omitempty"`
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

// contentsOf copies what s lets be captured of a request. It returns the bytes of the tensors.
func (s *Settings) contentsOf(r *infer.Request) (c *Contents, size int64) {
	c = &Contents{Sequence: r.Correlation != infer.CorrelationID{}}
	c.Inputs = s.add(nil, r.Inputs, &size)
	for _, p := range r.Parameters {
		q := Parameter{Name: strings.Clone(p.Name)}
		if s.leaves(q.Name) {
			q.LeftOut = ByRule
		} else {
			q.Value = valueOf(p)
		}
		c.Parameters = append(c.Parameters, q)
	}
	return c, size
}

// addResponse copies what s lets be captured of a response.
func (s *Settings) addResponse(c *Contents, resp *infer.Response, size *int64) {
	if !resp.Empty {
		c.Responses++
	}
	c.Outputs = s.add(c.Outputs, resp.Outputs, size)
	if resp.Err != nil && c.ruled() {
		c.ErrorLeftOut = ByRule
	} else if resp.Err != nil {
		c.Error = resp.Err.Error()
	}
}

// ruled reports whether a rule left out something of the request.
func (c *Contents) ruled() bool {
	return slices.ContainsFunc(c.Inputs, func(t Tensor) bool { return t.LeftOut == ByRule }) ||
		slices.ContainsFunc(c.Parameters, func(p Parameter) bool { return p.LeftOut == ByRule })
}

// add copies tensors until their bytes would be more than s.MaxBytes. One that is there already is joined.
func (s *Settings) add(to []Tensor, all []tensor.Tensor, size *int64) []Tensor {
	for i := range all {
		t := &all[i]
		at := slices.IndexFunc(to, func(x Tensor) bool { return x.Name == t.Name })
		if at < 0 {
			at = len(to)
			to = append(to, Tensor{Name: strings.Clone(t.Name), DataType: t.DataType.String(),
				Shape: append([]int64{}, t.Shape...)})
		} else {
			to[at].Shape = tensor.JoinShapes(to[at].Shape, t.Shape)
		}
		if to[at].LeftOut == "" {
			to[at].LeftOut = s.leavesOut(t, *size)
		}
		if to[at].LeftOut != "" {
			to[at].Data = nil
			continue
		}
		to[at].Data = append(to[at].Data, t.Data...)
		*size += int64(t.Size())
	}
	return to
}

// leavesOut returns why a tensor is not kept of a request that has size bytes; empty if it is.
func (s *Settings) leavesOut(t *tensor.Tensor, size int64) string {
	switch {
	case s.leaves(t.Name):
		return ByRule
	case t.OnDevice() != nil:
		return OnGPU
	case size+int64(t.Size()) > s.MaxBytes:
		return BySize
	}
	return ""
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
