package agent

import "context"

// Action is what happens to a model, with Triton's names.
type Action int

// The actions. Load is passed to the agents in the order of the configuration, and its outcome in the reverse order; of
// Unload in order, and of UnloadComplete in reverse.
const (
	// Load: the model is about to be loaded. An error keeps it from that.
	Load Action = iota
	// LoadComplete: a version of the model serves, or all that was to serve did already.
	LoadComplete
	// LoadFail: no version could be loaded, or an agent after this one refused. Nothing else comes.
	LoadFail
	// Unload: the last version that was loaded after this Load is about to be closed.
	Unload
	// UnloadComplete: it is closed. Nothing else comes.
	UnloadComplete
)

// String returns Triton's name.
func (a Action) String() string {
	switch a {
	case Load:
		return "LOAD"
	case LoadComplete:
		return "LOAD_COMPLETE"
	case LoadFail:
		return "LOAD_FAIL"
	case Unload:
		return "UNLOAD"
	case UnloadComplete:
		return "UNLOAD_COMPLETE"
	}
	return "UNKNOWN"
}

// Agent is a repository agent, made once per process. Its methods are called from several goroutines at once, but for
// one Model from one at a time.
type Agent interface {
	// Name is the name in model_repository_agents.
	Name() string
	// Act does what a is to mean for m. An error counts at Load only, where its text becomes the reason why the model
	// is not loaded; others are logged. ctx ends when the load is given up.
	Act(ctx context.Context, a Action, m *Model) error
}

// Model is one load of a model, from Load to LoadFail or UnloadComplete, as one agent sees it.
type Model struct {
	Name string
	// Parameters are the agent's in the configuration.
	Parameters map[string]string
	// Folder holds the model's files as the agents before left them. At Load an agent may set it to a folder of its
	// own, laid out as a model's folder, from which the model is loaded then. The folder in the repository is never to
	// be changed.
	Folder string
	// Scratch returns an empty folder for such files, the same one each time. It is removed after the last action.
	Scratch func() (string, error)
	// State is the agent's own, from action to action.
	State any
}

// All returns the agents that there are.
func All() []Agent { return []Agent{Checksum()} }
