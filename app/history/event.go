package history

import (
	"encoding/json"
	"time"

	"nereid/store"
)

// The kinds of events. The console's interface has the same words.
const (
	ServerStart  = "server_start"
	ServerStop   = "server_stop"
	Load         = "load"
	LoadFailed   = "load_failed"
	Reload       = "reload"
	ReloadFailed = "reload_failed" // the version before still serves
	Unload       = "unload"
	Evict        = "evict" // unloaded from memory; the next request loads it
	// ProcessEnded: a process of a model ended without being asked to.
	ProcessEnded     = "process_ended"
	ProcessRestarted = "process_restarted"
	LoadTest         = "load_test" // it has ended
	Tuning           = "tuning"    // it has ended
	Import           = "import"
	ImportFailed     = "import_failed"
	ConfigSaved      = "config_saved"
	ConfigRestored   = "config_restored"
	ModelDeleted     = "model_deleted"
	ModelRestored    = "model_restored"
	RepositoryError  = "repository_error"
	ClientError      = "client_error"
	HistoryDropped   = "history_dropped"
	Alert            = "alert"
	AlertEnded       = "alert_ended"
	Capture          = "capture" // of contents of requests: on, off or removed
)

// Event is a single occurrence.
type Event struct {
	Kind    string
	Model   string // "" if it concerns no model
	Version int64  // 0 if it concerns no version
	Text    string // what happened, or why it failed
	Detail  Detail
}

// Detail has further fields of some kinds of events. It is stored as JSON.
type Detail struct {
	DurationMs float64 `json:"durationMs,omitempty"` // of a load, reload or unload
	Revision   int64   `json:"revision,omitempty"`   // of a configuration
	// Config is the digest of the configuration that a version was loaded with. The requests of a version belong to
	// the last load or reload before them.
	Config string `json:"config,omitempty"`
	// Files is the digest of the names, sizes and times of the files that it was loaded from; "" if they are remote.
	Files string `json:"files,omitempty"`
}

// Took returns the detail of an event that took d.
func Took(d time.Duration) Detail { return Detail{DurationMs: float64(d) / float64(time.Millisecond)} }

// DetailOf reads the detail of a stored event. A detail that cannot be read is zero.
func DetailOf(e store.Event) Detail {
	var d Detail
	_ = json.Unmarshal(e.Detail, &d) // fails if absent, or of another version
	return d
}

func (e Event) row() store.Event {
	out := store.Event{Kind: e.Kind, Model: e.Model, Version: e.Version, Reason: e.Text}
	if e.Detail != (Detail{}) {
		out.Detail, _ = json.Marshal(e.Detail) // cannot fail: numbers and a text
	}
	return out
}
