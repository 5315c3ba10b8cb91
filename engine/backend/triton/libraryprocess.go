package triton

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"nereid/engine/status"
	"nereid/engine/worker/process"
)

const (
	// libraryStartTimeout is how long opening a library may take.
	libraryStartTimeout = time.Minute
	// libraryCloseTimeout is how long finalizing a library may take.
	libraryCloseTimeout = 5 * time.Second
)

// libraryProcess is the process of a cache, an agent or a strategy, as the server sees it. See libraryhost.go for the
// other side.
type libraryProcess struct {
	cmd  *exec.Cmd
	conn net.Conn
	messages
}

// libraryReply is the value of a reply: the library's error; Code is -1 for none.
type libraryReply struct {
	Code int
	Text string
	Data []byte `json:"-"` // of the message
}

func (r *libraryReply) err() error {
	if r.Code < 0 {
		return nil
	}
	return status.New(status.Code(r.Code), r.Text)
}

// startProcess starts a process and sends it the first message, a setup. env has names of variables that the process
// gets. Errors: those of opening the library, and Unavailable for a process that does not start.
func startProcess(worker, env []string, setup any) (*libraryProcess, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "no connection to a process: %w", err)
	}
	here, there := os.NewFile(uintptr(pair[0]), "library"), os.NewFile(uintptr(pair[1]), "server")
	defer here.Close()
	defer there.Close()
	conn, err := net.FileConn(here)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	cmd := exec.Command(worker[0], worker[1:]...)
	cmd.Env = process.Environ(os.Environ(), env)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{there} // file descriptor serverSocket
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, status.Errorf(status.Unavailable, "its process cannot be started: %w", err)
	}
	p := &libraryProcess{cmd, conn, newMessages(conn)}
	reply, err := p.call(setup, nil, libraryStartTimeout)
	if err == nil {
		err = reply.err()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// call sends a message with data and returns the reply. An error is one of the connection: the caller then calls end.
func (p *libraryProcess) call(message any, data []byte, timeout time.Duration) (r libraryReply, err error) {
	if err = p.conn.SetDeadline(time.Now().Add(timeout)); err == nil {
		if err = p.send(message, data); err == nil {
			r.Data, err = p.receive(&r)
		}
	}
	if err != nil {
		return r, status.Errorf(status.Unavailable, "its process has ended or does not answer: %w", err)
	}
	return r, nil
}

// end kills the process.
func (p *libraryProcess) end() {
	_ = p.conn.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed, or had exited
}

// finish makes the process finalize its library, and waits until it has exited.
func (p *libraryProcess) finish() error {
	_ = p.conn.Close()
	kill := time.AfterFunc(libraryCloseTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return status.Errorf(status.Internal, "the process of the library %s: %w", p.cmd.Path, err)
	}
	return nil
}
