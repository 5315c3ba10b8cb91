package lifecycle

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nereid/engine/agent"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// agents runs the repository agents that model configurations name. It is safe for concurrent use.
type agents struct {
	o *Options

	mu     sync.Mutex
	chains map[*model.Model]*agentChain // guarded by mu: the agents that prepared a loaded model
}

// agentChain is one load of a model by the agents of its configuration. Its actions follow each other. A nil chain has
// no agents.
type agentChain struct {
	agents  *agents
	links   []link
	log     *slog.Logger
	scratch string // a folder for the agents; "": none asked for it
	serving int    // loaded models that have not left service; guarded by agents.mu
	open    int    // loaded models that are not closed; guarded by agents.mu
}

type link struct {
	agent agent.Agent
	model *agent.Model
}

// start calls the agents of a configuration with a model's files, and returns the model as they left it. Errors:
// Unsupported for an unknown agent, and the agents' own.
func (a *agents) start(ctx context.Context, src *repo.Model, cfg *inferencepb.ModelConfig) (
	*agentChain, *repo.Model, error,
) {
	c := &agentChain{agents: a, log: a.o.Log}
	scratch := func() (string, error) {
		if c.scratch != "" {
			return c.scratch, nil
		}
		var err error
		c.scratch, err = os.MkdirTemp(a.o.OverrideFolder, "agent-")
		return c.scratch, err
	}
	folder, config := src.Folder, modelconfig.MarshalJSON(cfg)
	for _, want := range cfg.GetModelRepositoryAgents().GetAgents() {
		l := link{model: &agent.Model{
			Name: src.Name, Parameters: maps.Clone(want.GetParameters()), Config: config, Folder: folder,
			Scratch: scratch,
		}}
		err := a.act(ctx, &l, want.GetName())
		if err != nil {
			c.failed()
			return nil, nil, err
		}
		c.links = append(c.links, l)
		folder = l.model.Folder
	}
	if folder == src.Folder {
		return c, src, nil
	}
	moved := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), a.o.ConfigName)
	moved.Name, moved.Key, moved.Root, moved.Alias = src.Name, src.Key, src.Root, src.Alias
	return c, moved, nil
}

// act finds the agent of a link by its name and has it load the model.
func (a *agents) act(ctx context.Context, l *link, name string) error {
	at := slices.IndexFunc(a.o.Agents, func(x agent.Agent) bool { return x.Name() == name })
	if at < 0 {
		var names []string
		for _, x := range a.o.Agents {
			names = append(names, x.Name())
		}
		return status.Errorf(status.Unsupported, "repository agent '%s' of model '%s' is not there; there are: %s",
			name, l.model.Name, strings.Join(names, ", "))
	}
	l.agent = a.o.Agents[at]
	if err := l.agent.Act(ctx, agent.Load, l.model); err != nil {
		return status.Errorf(status.CodeOf(err), "repository agent '%s' refuses model '%s': %w", name, l.model.Name,
			err)
	}
	return nil
}

// notify calls all agents with an action, in order or in reverse.
func (c *agentChain) notify(a agent.Action, reverse bool) {
	links := slices.Clone(c.links)
	if reverse {
		slices.Reverse(links)
	}
	for _, l := range links {
		if err := l.agent.Act(context.Background(), a, l.model); err != nil {
			c.log.Warn("a repository agent failed",
				"agent", l.agent.Name(), "action", a.String(), "model", l.model.Name, "err", err)
		}
	}
}

// failed ends a chain whose load failed.
func (c *agentChain) failed() {
	if c != nil {
		c.notify(agent.LoadFail, true)
		c.clean()
	}
}

func (c *agentChain) clean() {
	if c.scratch != "" {
		_ = os.RemoveAll(c.scratch) // what is left is in the temporary folder
	}
}

// loaded ties what was loaded to the chain that prepared it, and notifies the agents that the load is over.
func (c *agentChain) loaded(results []outcome) {
	if c == nil {
		return
	}
	ok := false
	c.agents.mu.Lock()
	for _, r := range results {
		ok = ok || r.err == nil
		if r.model != nil {
			c.serving++
			c.open++
			c.agents.chains[r.model] = c
		}
	}
	open := c.open
	c.agents.mu.Unlock()
	switch {
	case !ok:
		c.failed()
	case open == 0: // everything was loaded already, or will be loaded by its first request
		c.notify(agent.LoadComplete, true)
		c.notify(agent.Unload, false)
		c.notify(agent.UnloadComplete, true)
		c.clean()
	default:
		c.notify(agent.LoadComplete, true)
	}
}

// unload notifies the agents of a model that leaves service. The caller calls closed when the model is closed.
func (a *agents) unload(old *model.Model) (closed func()) {
	a.mu.Lock()
	c := a.chains[old]
	delete(a.chains, old)
	last := false
	if c != nil {
		c.serving--
		last = c.serving == 0
	}
	a.mu.Unlock()
	if c == nil {
		return func() {}
	}
	if last {
		c.notify(agent.Unload, false)
	}
	return func() {
		a.mu.Lock()
		c.open--
		end := c.open == 0
		a.mu.Unlock()
		if end {
			c.notify(agent.UnloadComplete, true)
			c.clean()
		}
	}
}
