package worker

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// countsQuestions makes the test program a process that answers no is_ready before it is asked how many there were.
const countsQuestions = "NEREID_TEST_COUNTS_QUESTIONS"

func countQuestions() {
	sayHello()
	reply := func(id uint64, v any) {
		text, _ := json.Marshal(v) // numbers and booleans
		sendFrame(frames.Header{Kind: frames.KindReply, ID: id}, text)
	}
	var asked []uint64
	counted := false
	buf := make([]byte, frames.MaxPacket)
	for {
		n, err := unix.Read(process.ControlFD, buf)
		if err != nil || n < frames.HeaderSize {
			os.Exit(0)
		}
		h, _, err := frames.NewProcessDecoder(nil, nil).Open(buf[:n])
		if err != nil {
			os.Exit(1)
		}
		var call struct{ Op string }
		if json.Unmarshal(buf[frames.HeaderSize:n], &call) != nil {
			os.Exit(1)
		}
		if call.Op == "is_ready" {
			asked = append(asked, h.ID)
		} else {
			counted = true
			reply(h.ID, map[string]int{"count": len(asked)})
		}
		if counted {
			for _, id := range asked {
				reply(id, map[string]bool{"ready": true})
			}
			asked = nil
		}
	}
}

// Probes of a model whose is_ready takes long would fill its process with questions.
func TestAProcessIsAskedOnceWhetherItIsReady_D021(t *testing.T) {
	if os.Getenv(countsQuestions) != "" {
		countQuestions()
	}
	l := NewLauncher(Options{})
	defer l.Close()
	w, err := l.Start(t.Context(), Spec{
		Name: "m_0", ModelName: "m", Env: []string{countsQuestions + "=1"},
		Command: []string{os.Args[0], "-test.run=^TestAProcessIsAskedOnceWhetherItIsReady_D021$"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 5 {
		if _, err := w.IsReady(left); err == nil {
			t.Error("an answer before there is one")
		}
	}
	var reply struct{ Count int }
	if err := w.Call(t.Context(), "count", nil, &reply); err != nil || reply.Count > 1 {
		t.Errorf("the process was asked %d times, %v", reply.Count, err)
	}
	if ready, err := w.IsReady(t.Context()); err != nil || !ready {
		t.Errorf("the answer is %v, %v", ready, err)
	}
	w.Kill()
	if _, err := w.IsReady(t.Context()); err == nil {
		t.Error("an answer of a process that has ended")
	}
}
