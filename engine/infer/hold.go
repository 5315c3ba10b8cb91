package infer

// Held is a model version that a request of an ensemble keeps open until its end. So its later steps reach the version
// even if it has left service meanwhile, as in Triton.
type Held interface {
	// Hold keeps the version open until Unhold. It returns false if the version is closing and nothing else holds it.
	Hold() bool
	Unhold()
	// HoldSteps appends holds of the models of the version's steps to all, if it is an ensemble. See Request.Holds for
	// from.
	HoldSteps(all, from []Hold) []Hold
	// AcquireHeld reserves a place for r, which Infer uses up. It returns false if r is to go to the version in
	// service.
	AcquireHeld(r *Request) bool
	Infer(r *Request) error
}

// Hold is a version that is held, and how a step names it.
type Hold struct {
	Model   string
	Version int64
	Held    Held // nil: it is not held
}

// Named reports whether a step that names a model so means this one.
func (h *Hold) Named(model string, version int64) bool {
	return h.Version == version && h.Model == model
}
