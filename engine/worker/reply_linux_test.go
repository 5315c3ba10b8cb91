package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/tensor"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// asksOnce is the environment variable with which the test program asks the server once and prints the answer. Its
// value is what it sends: "call", or "bls", a request to another model.
const asksOnce = "NEREID_TEST_ASKS_ONCE"

func askOnce(what string) {
	sayHello()
	buf := make([]byte, frames.MaxPacket)
	_, _ = unix.Read(process.ControlFD, buf) // the call that begins the test
	if what == "call" {
		sendFrame(frames.Header{Kind: frames.KindCall, ID: 7}, []byte(`{"op": "numbers"}`))
	} else {
		r := request(3)
		r.ModelName = "other"
		e := &frames.Encoder{ToServer: true}
		e.Begin()
		if err := e.BLS(r, 0); err != nil {
			os.Exit(1)
		}
		packet, err := e.Finish(frames.KindBLS, 0, 7)
		if err != nil {
			os.Exit(1)
		}
		sendFrame(frames.Header{Kind: frames.KindBLS, ID: 7}, packet[frames.HeaderSize:])
	}
	poll := []unix.PollFd{{Fd: process.ControlFD, Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 10_000); n != 1 || err != nil {
		fmt.Fprintln(os.Stderr, "there is no answer")
		os.Exit(1)
	}
	n, err := unix.Read(process.ControlFD, buf)
	if err != nil || n < frames.HeaderSize {
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "the answer is %q\n", buf[frames.HeaderSize:n])
	os.Exit(1)
}

// unsendable answers with what cannot be sent: a number that JSON does not have, and more than there is memory for.
type unsendable struct{ refusing }

func (unsendable) Call(context.Context, string, json.RawMessage) (any, error) {
	return map[string]float64{"value": math.Inf(1)}, nil
}

func (unsendable) Infer(_ context.Context, r *infer.Request) error {
	resp := r.NewResponse()
	resp.Final = true
	resp.AddOutput("OUT", tensor.Uint8, []int64{1 << 20}, make([]byte, 1<<20), nil)
	return r.Respond(resp)
}

// A process that asks the server waits until there is an answer.
func TestAnswerThatCannotBeSentIsAnError(t *testing.T) {
	if what := os.Getenv(asksOnce); what != "" {
		askOnce(what)
	}
	l := NewLauncher(Options{})
	defer l.Close()
	for what, want := range map[string]string{"call": "unsupported value: +Inf", "bls": "process is full"} {
		t.Run("D048 D043 "+what, func(t *testing.T) {
			w, err := l.Start(t.Context(), Spec{
				Name: "m_0", ModelName: "m",
				Command: []string{os.Args[0], "-test.run=^TestAnswerThatCannotBeSentIsAnError$"},
				Env:     []string{asksOnce + "=" + what}, Caller: unsendable{},
			})
			if err != nil {
				t.Fatal(err)
			}
			for n := 1 << 50; n > 1<<10; n /= 2 { // what is written nowhere takes no memory
				if _, err := w.down.Alloc(n); err == nil {
					n *= 2
				}
			}
			err = w.Call(t.Context(), "begin", nil, nil)
			if text := err.Error(); !strings.Contains(text, "the answer is") || !strings.Contains(text, want) {
				t.Errorf("the process says: %v", err)
			}
			w.Kill()
		})
	}
}
