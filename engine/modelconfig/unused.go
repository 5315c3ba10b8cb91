package modelconfig

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// unusedField is a field that Triton has a use for and this server does not.
type unusedField struct {
	path    string // as in FieldDoc; the fields below it are unused too
	feature string // its id in docs/features.csv, listed in docs/not-supported.md
	refused bool   // an error says so, in place of the warning
	why     string
}

// unused is what the help of the editor, the warnings of Validate and their tests know of such fields.
var unused = []unusedField{
	{"input.is_shape_tensor", "C090", true, "only TensorRT has shape tensors, and there is no TensorRT backend"},
	{"input.is_non_linear_format_io", "C091", true,
		"only TensorRT has such formats, and there is no TensorRT backend"},
	{"output.is_shape_tensor", "C090", true, "only TensorRT has shape tensors, and there is no TensorRT backend"},
	{"output.is_non_linear_format_io", "C091", true,
		"only TensorRT has such formats, and there is no TensorRT backend"},
	{"instance_group.profile", "C063", true,
		"only TensorRT has profiles; ONNX models set theirs with the parameters trt_profile_*_shapes"},
	{"instance_group.secondary_devices", "C064", false, "only the TensorRT backend uses DLA cores"},
	{"optimization.priority", "C085", false, "only the TensorRT backend gives CUDA streams a priority"},
	{"optimization.cuda", "C086", false, "these are settings of the TensorRT backend"},
	{"optimization.gather_kernel_buffer_threshold", "C018", false,
		"the gather kernel is part of the TensorRT backend"},
	{"optimization.eager_batching", "C018", false, "a batch is formed when an instance is free"},
}

// unusedAt returns the entry for a path without indices, nil if the field is used.
func unusedAt(path string) *unusedField {
	for i, u := range unused {
		if path == u.path || strings.HasPrefix(path, u.path+".") {
			return &unused[i]
		}
	}
	return nil
}

// support is the remark in the help of a field.
func (u *unusedField) support() string {
	if u.refused {
		return "Refused by this server: " + u.why + "."
	}
	return "Without effect in this server: " + u.why + "."
}

var indices = regexp.MustCompile(`\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\]`)

// unusedFields warns of the fields in the file that have no effect, once for each.
func (c *checker) unusedFields() {
	if c.o.Positions == nil {
		return
	}
	known := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(c.o.Positions.at)) {
		plain := indices.ReplaceAllString(path, "")
		if u := unusedAt(plain); u != nil && !u.refused && !known[u.path] {
			known[u.path] = true
			c.warn(path, "", "%s has no effect in this server: %s", plain, u.why)
		}
	}
}
