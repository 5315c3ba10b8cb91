package api

// Kiosk answers GET /api/kiosk: what a visitor of the public page sees.
type Kiosk struct {
	// StartedMs changes when the server was started again; the page then reloads itself.
	StartedMs int64 `json:"startedMs"`
	// URL of the page for other devices; empty when they cannot reach it.
	URL    string           `json:"url"`
	Models List[KioskModel] `json:"models"`
}

// KioskModel is a model that visitors may try.
type KioskModel struct {
	Name      string       `json:"name"`
	Ready     bool         `json:"ready"`
	Decoupled bool         `json:"decoupled"`
	Sequences bool         `json:"sequences"`
	Inputs    List[Tensor] `json:"inputs"`
	Outputs   List[Tensor] `json:"outputs"`
	// LastMinute is that of the version that answers.
	LastMinute Recent `json:"lastMinute"`
}

// KioskDetail answers GET /api/kiosk/{name}.
type KioskDetail struct {
	KioskModel
	// Labels by output name, from the outputs' label files.
	Labels map[string]List[string] `json:"labels"`
	// Examples are the names of the saved requests.
	Examples List[string] `json:"examples"`
}
