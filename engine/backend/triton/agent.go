package triton

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"nereid/engine/agent"
	"nereid/engine/backend/triton/capi"
	"nereid/engine/status"
)

// AgentWorkerName is the argument of "nereid worker" for the process of a repository agent.
const AgentWorkerName = "triton-agent"

// agentTimeout is how long an action of an agent may take. An agent may decrypt a large model.
const agentTimeout = 30 * time.Minute

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

	mu   sync.Mutex
	conn *cacheConn // nil: the process does not run; guarded by mu, as is last
	last uint64
}

var _ agent.Agent = (*Agent)(nil)

// agentLoad is the state of a load: its number in a process.
type agentLoad struct {
	conn   *cacheConn
	number uint64
}

// FindAgents returns the agents in the directory. The caller closes them.
func FindAgents(o AgentOptions) (all []*Agent, err error) {
	files, err := filepath.Glob(filepath.Join(o.Directory, "*", "libtritonrepoagent_*"+suffix))
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if filepath.Base(file) != "libtritonrepoagent_"+name+suffix {
			continue
		}
		if file, err = filepath.Abs(file); err != nil {
			return nil, status.Errorf(status.Internal, "%w", err)
		}
		all = append(all, &Agent{o: o, name: name, library: file})
	}
	return all, err
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
		if a.conn == nil {
			if a.conn, err = startProcess(a.o.Worker, a.o.Env, cacheSetup{Library: a.library}); err != nil {
				return err
			}
		}
		a.last++
		call.Folder, call.Scratch, call.Parameters = []byte(m.Folder), []byte(scratch), m.Parameters
		call.Config = m.Config
		m.State = agentLoad{a.conn, a.last}
	}
	load, _ := m.State.(agentLoad)
	if a.conn == nil || load.conn != a.conn {
		return status.New(status.Unavailable, "the process of the agent has ended since the model was loaded")
	}
	call.Load = load.number
	reply, err := a.conn.call(call, nil, agentTimeout)
	if err != nil {
		a.conn.end()
		a.conn = nil // the next load starts it
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

// Close ends the process.
func (a *Agent) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return nil
	}
	conn := a.conn
	a.conn = nil
	return conn.finish()
}

// ServeAgent is the main function of an agent's process: "nereid worker triton-agent". It ends when the server closes
// the connection.
func ServeAgent(_ context.Context, log *slog.Logger) error {
	server, err := toServer()
	if err != nil {
		return err
	}
	var setup cacheSetup
	if _, err := server.receive(&setup); err != nil {
		return status.Errorf(status.Internal, "the agent's library: %w", err)
	}
	a, err := openAgent(setup.Library, log)
	if failed := server.reply(nil, err); failed != nil || err != nil {
		return errors.Join(err, failed)
	}
	return serveAgent(a, &server)
}

func openAgent(library string, log *slog.Logger) (*capi.Agent, error) {
	needs, err := hostLibrary(library, log)
	if err != nil {
		return nil, err
	}
	return capi.OpenAgent(library, needs.api)
}

func serveAgent(a *capi.Agent, server *messages) error {
	loads := map[uint64]*capi.AgentModel{}
	for {
		var call agentCall
		if _, err := server.receive(&call); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, a.Close())
		}
		m, folder := loads[call.Load], ""
		var err error
		if call.Action == agent.Load {
			m, err = a.Begin(string(call.Folder), string(call.Scratch), string(call.Config), call.Parameters)
			loads[call.Load] = m
		}
		if err == nil {
			err = m.Act(int(call.Action))
			folder = m.Folder()
		}
		last := call.Action == agent.LoadFail || call.Action == agent.UnloadComplete
		if last || call.Action == agent.Load && err != nil { // a load that this agent refused has no other action
			delete(loads, call.Load)
			err = errors.Join(err, m.End())
		}
		if err := server.reply([]byte(folder), err); err != nil {
			return err
		}
	}
}
