package worker

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/tensor"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// answerAndExit is the environment variable with which the test program answers once and is killed: "1", or "2" if it
// leaves a frame of the server unread.
const answerAndExit = "NEREID_TEST_ANSWER_AND_EXIT"

// answerOnce answers the first execution while the server handles the frame before, and ends.
func answerOnce(leave bool) {
	sayHello()
	exec, ticket := awaitExecute()
	sendFrame(frames.Header{Kind: frames.KindMetric}, make([]byte, 24))
	if leave {
		for err := error(unix.EINTR); err == unix.EINTR; { //nolint:errorlint // an error number of the kernel
			_, err = unix.Poll([]unix.PollFd{{Fd: process.ControlFD, Events: unix.POLLIN}}, -1)
		}
	}
	resp := &infer.Response{Final: true}
	resp.AddOutput("OUT", tensor.FP32, []int64{1}, []byte{1, 2, 3, 4}, nil)
	body, err := responsesBody(resp, ticket)
	if err != nil {
		os.Exit(0)
	}
	sendFrame(frames.Header{Kind: frames.KindResponses, Flags: frames.FlagDone, ID: exec}, body)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// slowReader blocks the goroutine that reads frames until the process has ended and its socket is closed.
type slowReader struct {
	began chan struct{}
	gone  chan struct{}
}

func (slowReader) Infer(context.Context, *infer.Request) error                { return nil }
func (slowReader) Call(context.Context, string, json.RawMessage) (any, error) { return struct{}{}, nil }
func (l slowReader) Metric(uint64, uint32, float64) {
	close(l.began)
	<-l.gone
}

// Frames that a process sent before it ended are handled, whether or not it had read all frames of the server.
func TestFramesOfAnEndedProcessAreRead(t *testing.T) {
	if how := os.Getenv(answerAndExit); how != "" {
		answerOnce(how == "2")
	}
	l := NewLauncher(Options{})
	defer l.Close()
	for how, name := range map[string]string{"1": "D2 it had read all", "2": "D2 it had not read all"} {
		for _, decoupled := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				hold := slowReader{make(chan struct{}), make(chan struct{})}
				w, err := l.Start(t.Context(), Spec{
					Name: "m_0", ModelName: "m",
					Command: []string{os.Args[0], "-test.run=^TestFramesOfAnEndedProcessAreRead$"},
					Env:     []string{answerAndExit + "=" + how}, Decoupled: decoupled, Caller: hold,
				})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					defer close(hold.gone)
					<-hold.began
					if how == "2" {
						if err := w.calls.send(frames.KindReply, 1, struct{}{}); err != nil {
							t.Error(err)
						}
					}
					c, err := w.p.Socket.SyscallConn()
					if err == nil {
						err = c.Control(func(fd uintptr) {
							for hangup := []unix.PollFd{{Fd: int32(fd)}}; hangup[0].Revents&unix.POLLHUP == 0; {
								_, _ = unix.Poll(hangup, -1) // a signal may interrupt it
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
