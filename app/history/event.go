package history

import (
	"encoding/json"
	"time"

	"nereid/store"
)

// The kinds of events. The console's wire types have the same words.
const (
	ServerStart     = "server_start"
	ServerStop      = "server_stop"
	Load            = "load"
	LoadFailed      = "load_failed"
	Reload          = "reload"
	ReloadFailed    = "reload_failed" // what served before still does
	Unload          = "unload"
	Evict           = "evict" // left memory; its next request loads it
	Import          = "import"
	ImportFailed    = "import_failed"
	ConfigSaved     = "config_saved"
	ConfigRestored  = "config_restored"
	ModelDeleted    = "model_deleted"
	ModelRestored   = "model_restored"
	RepositoryError = "repository_error"
	ClientError     = "client_error"
	HistoryDropped  = "history_dropped"
)

// Event is something that happened once.
type Event struct {
	Kind    string
	Model   string // "" when it is about no model
	Version int64  // 0 when it is about no version
	Text    string // for people: what happened; of a failure, why
	// Detail is kept with it, see Detail.
	Detail Detail
}

// Detail is what some kinds of events have besides, kept as JSON.
type Detail struct {
	DurationMs float64 `json:"durationMs,omitempty"` // of a load, reload or unload
	Revision   int64   `json:"revision,omitempty"`   // the configuration revision it is about
}

// Took is the detail of something that took d.
func Took(d time.Duration) Detail { return Detail{DurationMs: float64(d) / float64(time.Millisecond)} }

// DetailOf reads the detail of a stored event; what cannot be read is zero.
func DetailOf(e store.Event) Detail {
	var d Detail
	_ = json.Unmarshal(e.Detail, &d) // absent, or of another version
	return d
}

func (e Event) row() store.Event {
	out := store.Event{Kind: e.Kind, Model: e.Model, Version: e.Version, Reason: e.Text}
	if e.Detail != (Detail{}) {
		out.Detail, _ = json.Marshal(e.Detail) // two numbers, cannot fail
	}
	return out
}
