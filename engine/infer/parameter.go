package infer

// ParameterKind says which field of a Parameter holds its value.
type ParameterKind uint8

// The kinds of parameter values, those of inference.InferParameter.
const (
	BoolParameter ParameterKind = iota
	IntParameter
	UintParameter
	FloatParameter
	StringParameter
)

// Parameter is a named value beside the tensors of a request or a response.
type Parameter struct {
	Name  string
	Kind  ParameterKind
	Bool  bool
	Int   int64
	Uint  uint64
	Float float64
	Text  string
}
