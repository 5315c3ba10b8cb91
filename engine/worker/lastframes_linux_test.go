//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// parting is the environment variable by which the test program is a worker that answers and is gone: "1", or "2" if it leaves
// a frame of the server's unread.
const parting = "NEREID_TEST_PARTING"

// bePartingly answers the first execution while the server is busy with the frame before, and ends.
func bePartingly(leave bool) {
	greet()
	exec, ticket := listen()
	speak(header{kind: kindMetric}, make([]byte, 24))
	if leave {
		for err := error(unix.EINTR); err == unix.EINTR; { //nolint:errorlint // a number of the kernel's
			_, err = unix.Poll([]unix.PollFd{{Fd: controlFD, Events: unix.POLLIN}}, -1)
		}
	}
	e := &encoder{}
	e.begin()
	e.responsesHead(1)
	resp := &infer.Response{Final: true}
	resp.AddOutput("OUT", tensor.FP32, []int64{1}, []byte{1, 2, 3, 4}, nil)
	if err := e.responseTo(resp, ticket); err != nil {
		os.Exit(0)
	}
	packet, err := e.finish(kindResponses, flagDone, exec)
	if err != nil {
		os.Exit(0)
	}
	_, _ = unix.Write(controlFD, packet)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// late holds the reader up until its worker's process has gone and the socket is hung up.
type late struct {
	began chan struct{}
	gone  chan struct{}
}

func (late) Infer(context.Context, *infer.Request) error                { return nil }
func (late) Call(context.Context, string, json.RawMessage) (any, error) { return struct{}{}, nil }
func (l late) Metric(uint64, uint32, float64) {
	close(l.began)
	<-l.gone
}

// What a worker had said before it ended counts, whether or not it had heard all that it was told.
func TestFramesOfAWorkerThatHasEnded(t *testing.T) {
	if how := os.Getenv(parting); how != "" {
		bePartingly(how == "2")
	}
	l := NewLauncher(nil)
	defer l.Close()
	for how, name := range map[string]string{"1": "D2 it had read all", "2": "D2 it had not read all"} {
		for _, decoupled := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				hold := late{make(chan struct{}), make(chan struct{})}
				w, err := l.Start(t.Context(), Spec{
					Name: "m_0", ModelName: "m", Command: []string{os.Args[0], "-test.run=^TestFramesOfAWorkerThatHasEnded$"}, Env: []string{parting + "=" + how},
					Decoupled: decoupled, Caller: hold,
				})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					defer close(hold.gone)
					<-hold.began
					if how == "2" {
						if err := w.sendJSON(kindReply, 1, struct{}{}); err != nil {
							t.Error(err)
						}
					}
					c, err := w.p.socket.SyscallConn()
					if err == nil {
						err = c.Control(func(fd uintptr) {
							for hangup := []unix.PollFd{{Fd: int32(fd)}}; hangup[0].Revents&unix.POLLHUP == 0; {
								_, _ = unix.Poll(hangup, -1) // a signal may have broken it off
							}
						})
					}
					if err != nil {
						t.Error(err)
					}
				}()
				r := request(100)
				b := infer.NewBatch()
				b.Requests = append(b.Requests, r.Retain())
				if err := w.Execute(t.Context(), b); err != nil {
					t.Errorf("Execute = %v", err)
				}
				resp := r.Poll()
				if resp == nil || !resp.Final || resp.Err != nil || len(resp.Outputs) != 1 {
					t.Errorf("the response is %+v, want the worker's", resp)
				}
				if resp != nil {
					resp.Release()
				}
				r.Release()
				w.Kill()
			})
		}
	}
}
