package triton

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"nereid/engine/agent"
	"nereid/engine/backend/triton/capi"
	"nereid/engine/status"
	"nereid/engine/system/glob"
)

// AgentWorkerName is the argument of "nereid worker" for the process of a repository agent.
const AgentWorkerName = "triton-agent"

// agentTimeout is how long an action of an agent may take. An agent may decrypt a large model.
const agentTimeout = 30 * time.Minute

// agentSetup is the first message to the process.
type agentSetup struct{ Library string }

// agentCall is an action of a load, by the number that the server gives it. The reply to Load has the model's folder.
type agentCall struct {
	Load            uint64
	Action          agent.Action
	Folder, Scratch []byte // paths, which may have any bytes
	Parameters      map[string]string
	Config          []byte // JSON
}

// AgentOptions say where agents are, and how their processes are started.
type AgentOptions struct {
	// Directory has a folder for each agent, as in Triton's --repoagent-directory.
	Directory string
	Worker    []string // the command, which must call ServeAgent
	Env       []string // names of variables that processes get, in addition to those of models' processes
}

// Agent is a repository agent in a library libtritonrepoagent_<name>.so, which runs in a process. The process begins
// with the first model and runs one action at a time. Its methods are safe for concurrent use.
type Agent struct {
	o             AgentOptions
	name, library string

	mu      sync.Mutex
	process *libraryProcess // nil: the process does not run; guarded by mu, as is last
	last    uint64
}

var _ agent.Agent = (*Agent)(nil)

// agentLoad is the state of a load: its number in a process.
type agentLoad struct {
	process *libraryProcess
	number  uint64
}

// FindAgents returns the agents in the directory. The caller closes them.
func FindAgents(o AgentOptions) (all []*Agent, err error) {
	for _, file := range glob.In(o.Directory, "*/libtritonrepoagent_*"+suffix) {
		name := filepath.Base(filepath.Dir(file))
		if filepath.Base(file) != "libtritonrepoagent_"+name+suffix {
			continue
		}
		if file, err = filepath.Abs(file); err != nil {
			return nil, status.Errorf(status.Internal, "%w", err)
		}
		all = append(all, &Agent{o: o, name: name, library: file})
	}
	return all, nil
}

// Name implements agent.Agent.
func (a *Agent) Name() string { return a.name }

// Library returns the library's path.
func (a *Agent) Library() string { return a.library }

// Act implements agent.Agent.
func (a *Agent) Act(_ context.Context, action agent.Action, m *agent.Model) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	call := agentCall{Action: action}
	if action == agent.Load {
		scratch, err := m.Scratch()
		if err != nil {
			return status.Errorf(status.Internal, "no folder for the files of an agent: %w", err)
		}
		if a.process == nil {
			if a.process, err = startProcess(a.o.Worker, a.o.Env, agentSetup{a.library}); err != nil {
				return err
			}
		}
		a.last++
		call.Folder, call.Scratch, call.Parameters = []byte(m.Folder), []byte(scratch), m.Parameters
		call.Config = m.Config
		m.State = agentLoad{a.process, a.last}
	}
	load, _ := m.State.(agentLoad)
	if a.process == nil || load.process != a.process {
		return status.New(status.Unavailable, "the process of the agent has ended since the model was loaded")
	}
	call.Load = load.number
	reply, err := a.process.call(call, nil, agentTimeout)
	if err != nil {
		a.process.end()
		a.process = nil // the next load starts it
		return err
	}
	if err := reply.err(); err != nil {
		return err
	}
	if action == agent.Load {
		m.Folder = string(reply.Data)
	}
	return nil
}

// Close finalizes the agent, and waits until its process has exited.
func (a *Agent) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process == nil {
		return nil
	}
	p := a.process
	a.process = nil
	return p.finish()
}

// ServeAgent is the main function of an agent's process: "nereid worker triton-agent".
func ServeAgent(_ context.Context, log *slog.Logger) error { return serveLibrary(log, openAgent) }

func openAgent(s agentSetup, log *slog.Logger) (hostedLibrary[agentCall], error) {
	needs, err := hostLibrary(s.Library, log)
	if err != nil {
		return nil, err
	}
	a, err := capi.OpenAgent(s.Library, needs.api)
	return &hostedAgent{a, map[uint64]*capi.AgentModel{}}, err
}

type hostedAgent struct {
	*capi.Agent
	loads map[uint64]*capi.AgentModel // by the server's number of the load
}

func (a *hostedAgent) handle(server *messages, call agentCall, _ []byte) error {
	m, folder := a.loads[call.Load], ""
	var err error
	if call.Action == agent.Load {
		m, err = a.Begin(string(call.Folder), string(call.Scratch), string(call.Config), call.Parameters)
		a.loads[call.Load] = m
	}
	if err == nil {
		err = m.Act(int(call.Action))
		folder = m.Folder()
	}
	last := call.Action == agent.LoadFail || call.Action == agent.UnloadComplete
	if last || call.Action == agent.Load && err != nil { // a load that this agent refused has no other action
		delete(a.loads, call.Load)
		err = errors.Join(err, m.End())
	}
	return server.reply([]byte(folder), err)
}
