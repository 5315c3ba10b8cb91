package agent

import "context"

// Action is a step in the life of a loaded model, with Triton's names.
type Action int

// The actions. Agents are called in the order of the configuration for Load and Unload, and in reverse order for the
// other actions.
const (
	// Load: the model is about to be loaded. An error prevents that.
	Load Action = iota
	// LoadComplete: a version of the model is in service.
	LoadComplete
	// LoadFail: no version could be loaded, or a later agent returned an error. It is the last action.
	LoadFail
	// Unload: the last version that was loaded after this Load is about to be closed.
	Unload
	// UnloadComplete: that version is closed. It is the last action.
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

// Agent is a repository agent. There is one in a process. Its methods are called concurrently, but not for the same
// Model.
type Agent interface {
	// Name returns the agent's name in model_repository_agents.
	Name() string
	// Act handles an action. An error at Load prevents the load and becomes its reason; other errors are only logged.
	// ctx is cancelled when the load is.
	Act(ctx context.Context, a Action, m *Model) error
}

// Model is one load of a model, from Load to LoadFail or UnloadComplete. Each agent has a separate Model.
type Model struct {
	Name string
	// Parameters are those that the configuration gives the agent.
	Parameters map[string]string
	// Config is the model's configuration as JSON, as its file has it.
	Config []byte
	// Folder is the model's folder, or that which a previous agent has set. At Load an agent may set it to another
	// folder with the layout of a model's folder; the model is then loaded from there. An agent must not change the
	// files in the repository.
	Folder string
	// Scratch returns a folder for such files, at first empty. All agents of the model share it. It is removed after
	// the last action.
	Scratch func() (string, error)
	// State belongs to the agent, which may keep data here between actions.
	State any
}

// All returns the agents of this package.
func All() []Agent { return []Agent{Checksum()} }
