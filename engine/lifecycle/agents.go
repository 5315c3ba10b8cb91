package lifecycle

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/engine/agent"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// chain is one load of a model by the agents that its configuration names. nil: it names none. Its counts are guarded by
// Manager.mu, its actions follow each other.
type chain struct {
	links   []link
	log     *slog.Logger
	scratch string // "": none was asked for
	serving int    // models that were loaded by it and have not begun to leave
	open    int    // models that are not closed
}

type link struct {
	agent agent.Agent
	model *agent.Model
}

// startAgents lets the agents of a configuration look at a model's files, and returns the model as they left it. Errors:
// Unsupported for an agent that there is not, what an agent says.
func (m *Manager) startAgents(ctx context.Context, src *repo.Model, list []*inferencepb.ModelRepositoryAgents_Agent) (*chain, *repo.Model, error) {
	c := &chain{log: m.o.Log}
	scratch := func() (string, error) {
		if c.scratch != "" {
			return c.scratch, nil
		}
		var err error
		c.scratch, err = os.MkdirTemp(m.o.OverrideFolder, "agent-")
		return c.scratch, err
	}
	folder := src.Folder
	for _, want := range list {
		at := slices.IndexFunc(m.o.Agents, func(a agent.Agent) bool { return a.Name() == want.GetName() })
		if at < 0 {
			var names []string
			for _, a := range m.o.Agents {
				names = append(names, a.Name())
			}
			c.failed()
			return nil, nil, status.Errorf(status.Unsupported, "repository agent '%s' of model '%s' is not there; there are: %s", want.GetName(), src.Name, strings.Join(names, ", "))
		}
		l := link{m.o.Agents[at], &agent.Model{Name: src.Name, Parameters: maps.Clone(want.GetParameters()), Folder: folder, Scratch: scratch}}
		if err := l.agent.Act(ctx, agent.Load, l.model); err != nil {
			c.failed()
			return nil, nil, status.Errorf(status.CodeOf(err), "repository agent '%s' refuses model '%s': %w", l.agent.Name(), src.Name, err)
		}
		c.links = append(c.links, l)
		folder = l.model.Folder
	}
	if folder == src.Folder {
		return c, src, nil
	}
	moved := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), m.o.ConfigName)
	moved.Name, moved.Key, moved.Root, moved.Alias = src.Name, src.Key, src.Root, src.Alias
	return c, moved, nil
}

// tell says an action to all agents, in order or in reverse.
func (c *chain) tell(a agent.Action, reverse bool) {
	if c == nil {
		return
	}
	links := slices.Clone(c.links)
	if reverse {
		slices.Reverse(links)
	}
	for _, l := range links {
		if err := l.agent.Act(context.Background(), a, l.model); err != nil {
			c.log.Warn("a repository agent failed", "agent", l.agent.Name(), "action", a.String(), "model", l.model.Name, "err", err)
		}
	}
}

// failed ends a chain of which no model came.
func (c *chain) failed() {
	c.tell(agent.LoadFail, true)
	c.clean()
}

func (c *chain) clean() {
	if c != nil && c.scratch != "" {
		_ = os.RemoveAll(c.scratch) // what is left is in the temporary folder
	}
}

// bind ties what was loaded to the chain that prepared it, and tells that the load is over.
func (m *Manager) bind(c *chain, results []outcome) {
	if c == nil {
		return
	}
	fine := false
	m.mu.Lock()
	for _, r := range results {
		fine = fine || r.err == nil
		if r.model != nil {
			c.serving++
			c.open++
			m.chains[r.model] = c
		}
	}
	loaded := c.open
	m.mu.Unlock()
	switch {
	case !fine:
		c.failed()
	case loaded == 0: // all that was to serve did already, or will be loaded by its first request
		c.tell(agent.LoadComplete, true)
		c.tell(agent.Unload, false)
		c.tell(agent.UnloadComplete, true)
		c.clean()
	default:
		c.tell(agent.LoadComplete, true)
	}
}

// unbind is called when a model begins to leave. The caller calls closed when it is closed.
func (m *Manager) unbind(old *model.Model) (closed func()) {
	m.mu.Lock()
	c := m.chains[old]
	delete(m.chains, old)
	last := false
	if c != nil {
		c.serving--
		last = c.serving == 0
	}
	m.mu.Unlock()
	if c == nil {
		return func() {}
	}
	if last {
		c.tell(agent.Unload, false)
	}
	return func() {
		m.mu.Lock()
		c.open--
		end := c.open == 0
		m.mu.Unlock()
		if end {
			c.tell(agent.UnloadComplete, true)
			c.clean()
		}
	}
}
