package api

import "encoding/json"

// List is a JSON array that is never null: a nil List encodes as [].
type List[T any] []T

// MarshalJSON encodes l as an array, nil as [].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Code is the kind of an error. The page decides by it what to do.
type Code string

// The codes, with their HTTP status.
const (
	CodeInvalid Code = "invalid" // 400: the request or its content is wrong; Faults may say where
	// 401: the client must open a session first (POST /api/session), or send a token with the scope admin or view
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"   // 403: Host, Origin, X-Nereid header, or a path that may not be touched
	CodeNotFound        Code = "not_found"   // 404
	CodeConflict        Code = "conflict"    // 409: something changed meanwhile, or the name is taken
	CodeConsent         Code = "consent"     // 412: the folder contains code; repeat with consentCode
	CodeTooLarge        Code = "too_large"   // 413
	CodeUnsupported     Code = "unsupported" // 501: this build or this control mode cannot do it
	CodeUnavailable     Code = "unavailable" // 503: not ready, busy or shutting down
	CodeInternal        Code = "internal"    // 500
	CodeDiskFull        Code = "disk_full"   // 507: a disk of the server has no space left
)

// Error is the body of every failed request.
type Error struct {
	// Error says what failed, where, and how to correct it.
	Error string `json:"error"`
	Code  Code   `json:"code"`
	// Faults are places in a configuration text, if the error concerns one.
	Faults List[Fault] `json:"faults,omitempty"`
}

// Severity of a fault, warning or event.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// State of a model version, in Triton's terms.
type State string

// The states. StateUnavailable covers both "unloaded" and "load failed"; the reason says which.
const (
	StateReady       State = "READY"
	StateLoading     State = "LOADING"
	StateUnloading   State = "UNLOADING"
	StateUnavailable State = "UNAVAILABLE"
)

// Tensor is one input or output of a model.
type Tensor struct {
	Name string `json:"name"`
	// DataType in the protocol's form: FP32, INT64, BYTES.
	DataType string `json:"dataType"`
	// Shape as clients send it, the batch dimension included when the model has one. -1: any size.
	Shape List[int64] `json:"shape"`
	// Dims as in config.pbtxt: without the batch dimension.
	Dims List[int64] `json:"dims"`
	// DimNames are the symbolic names of the model file, one per entry of Shape, "" where there is none. Empty when
	// unknown.
	DimNames List[string] `json:"dimNames"`
	// Format of an image input: FORMAT_NONE, FORMAT_NCHW or FORMAT_NHWC.
	Format   string `json:"format"`
	Optional bool   `json:"optional"`
	// Labels says that this output has a label file, so that a classification returns names.
	Labels bool `json:"labels"`
}

// File is one file of a model or a staged import.
type File struct {
	// Path relative to the model's folder, with slashes.
	Path      string `json:"path"`
	SizeBytes int64  `json:"sizeBytes"`
	// ModMs is the time of the last change, in milliseconds since 1970.
	ModMs int64 `json:"modMs"`
}
