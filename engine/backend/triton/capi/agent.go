package capi

/*
#include <stdlib.h>
#include "agent.h"
#include "shim.h"
*/
import "C"

import (
	"maps"
	"slices"

	"nereid/engine/status"
)

// Agent is an initialized repository agent.
type Agent struct{ c *C.TRITONREPOAGENT_Agent }

// AgentModel is one load of a model by an agent.
type AgentModel struct {
	a *Agent
	c *C.TRITONREPOAGENT_AgentModel
}

// OpenAgent opens the library of a repository agent and initializes it. Errors: InvalidArg for a file that is not such
// a library, and those of the library.
func OpenAgent(path string, sonames []string) (*Agent, error) {
	handle, err := openLibrary(path, sonames)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the repository agent %s cannot be opened: %w", path, err)
	}
	a := (*C.TRITONREPOAGENT_Agent)(C.must_have(C.calloc(1, C.sizeof_TRITONREPOAGENT_Agent))) // until the process ends
	C.nt_find_agent(handle, a)
	if a.action == nil {
		return nil, status.Errorf(status.InvalidArg,
			"%s is not a repository agent: it has no function TRITONREPOAGENT_ModelAction", path)
	}
	return &Agent{a}, goError(C.nt_agent_initialize(a))
}

// Begin initializes a model with its folder, a folder for the agent's files, its configuration as JSON, and the agent's
// parameters.
func (a *Agent) Begin(folder, scratch, config string, parameters map[string]string) (*AgentModel, error) {
	var t texts
	defer t.free()
	m := &AgentModel{a, C.nt_agent_model(t.of(folder), t.of(scratch), t.of(config))}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		C.nt_agent_parameter(m.c, t.of(name), t.of(parameters[name]))
	}
	return m, goError(C.nt_agent_begin(a.c, m.c))
}

// Act performs an action, by its number in the API. Errors: those of the library.
func (m *AgentModel) Act(action int) error { return goError(C.nt_agent_act(m.a.c, m.c, C.int(action))) }

// Folder returns the folder from which the model is to be loaded.
func (m *AgentModel) Folder() string { return C.GoString(m.c.folder) }

// End finalizes the model.
func (m *AgentModel) End() error { return goError(C.nt_agent_end(m.a.c, m.c)) }

// Close finalizes the agent.
func (a *Agent) Close() error { return goError(C.nt_agent_finalize(a.c)) }
