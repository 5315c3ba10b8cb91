package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// invalidResponse is the environment variable with which the test program sends an invalid last response to a stream.
const invalidResponse = "NEREID_TEST_INVALID_RESPONSE"

func sendInvalidResponse() {
	sayHello()
	exec, ticket := awaitExecute()
	// the execution is over, the stream is not
	sendFrame(frames.Header{Kind: frames.KindResponses, Flags: frames.FlagDone, ID: exec}, make([]byte, 16))
	// and not an object
	const parameters = "[]"
	body := binary.LittleEndian.AppendUint32(nil, 1)
	body = append(body, make([]byte, 12)...)
	body = binary.LittleEndian.AppendUint32(body, 40)
	body = binary.LittleEndian.AppendUint32(body, 1 /* FINAL */)
	body = binary.LittleEndian.AppendUint64(body, ticket)
	body = append(body, make([]byte, 8)...)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(parameters)))
	body = append(body, 0, 0, 0, 0)
	body = append(body, parameters...)
	body = append(body, make([]byte, 6)...)
	sendFrame(frames.Header{Kind: frames.KindResponses}, body)
	_, _ = unix.Read(process.ControlFD, make([]byte, 1)) // until the server ends it
	os.Exit(0)
}

// A final response that does not decode answers the request with an error.
func TestInvalidFinalResponseFailsTheRequest(t *testing.T) {
	if os.Getenv(invalidResponse) != "" {
		sendInvalidResponse()
	}
	l := NewLauncher(Options{})
	defer l.Close()
	w, err := l.Start(t.Context(), Spec{
		Name: "m_0", ModelName: "m", Command: []string{os.Args[0],
			"-test.run=^TestInvalidFinalResponseFailsTheRequest$"},
		Env: []string{invalidResponse + "=1"}, Decoupled: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(100)
	b := infer.NewBatch()
	b.Requests = append(b.Requests, r.Retain())
	if err := w.Execute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	<-w.Done()
	t.Log(w.Err())
	resp := r.Poll()
	if resp == nil || !resp.Final || resp.Err == nil {
		t.Fatalf("the request has the response %+v, want a final one with an error", resp)
	}
	resp.Release()
	r.Release()
	w.Kill()
}

// takesNothing is the environment variable with which the test program takes no requests, and does not exit.
const takesNothing = "NEREID_TEST_TAKES_NOTHING"

func takeNothing() {
	if err := unix.Shutdown(process.ControlFD, unix.SHUT_RD); err != nil {
		os.Exit(1)
	}
	sayHello()
	for {
		_ = unix.Pause() // until the server ends it
	}
}

// A worker whose process takes no requests is ended before Execute returns, as when the process was killed a moment
// ago. Otherwise more requests would fail on it, and lost sequences would continue.
func TestWorkerThatTakesNoRequestsIsEnded(t *testing.T) {
	if os.Getenv(takesNothing) != "" {
		takeNothing()
	}
	l := NewLauncher(Options{})
	defer l.Close()
	for _, decoupled := range []bool{false, true} {
		w, err := l.Start(t.Context(), Spec{
			Name: "m_0", ModelName: "m",
			Command: []string{os.Args[0], "-test.run=^TestWorkerThatTakesNoRequestsIsEnded$"},
			Env:     []string{takesNothing + "=1"}, Decoupled: decoupled,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := request(100)
		b := infer.NewBatch()
		b.Requests = append(b.Requests, r.Retain())
		if err := w.Execute(t.Context(), b); status.CodeOf(err) != status.Unavailable {
			t.Errorf("decoupled %t: Execute = %v, want Unavailable", decoupled, err)
		}
		if w.Err() == nil {
			t.Errorf("decoupled %t: the worker counts as one that runs", decoupled)
		}
		w.Kill()
		r.Release()
	}
}

// randomFrames is the environment variable with which the test program sends random frames; its value is the seed.
const randomFrames = "NEREID_TEST_RANDOM_FRAMES"

// sendRandomFrames says hello, waits for an execution and sends half-valid frames until the server ends the process.
func sendRandomFrames(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	sayHello()
	exec, ticket := awaitExecute()
	if err := unix.Ftruncate(process.UpFD, 1<<21); err != nil {
		os.Exit(0)
	}
	for range 2000 {
		sendFrame(frames.Header{Kind: frames.Kind(rng.IntN(12)), Flags: uint16(rng.IntN(4)),
			ID: []uint64{exec, 0, rng.Uint64N(4)}[rng.IntN(3)]}, randomBody(rng, ticket))
	}
	os.Exit(0)
}

// randomBody is a half-valid body.
func randomBody(rng *rand.Rand, ticket uint64) []byte {
	b := make([]byte, rng.IntN(400))
	for i := range b {
		if rng.IntN(3) == 0 {
			b[i] = byte(rng.Uint32())
		}
	}
	switch rng.IntN(4) {
	case 0: // a place in an arena
		b = binary.LittleEndian.AppendUint64(nil, uint64(arena.TableSize+arena.HeaderSize*rng.IntN(100)))
		return binary.LittleEndian.AppendUint64(b, rng.Uint64N(1<<rng.IntN(40)))
	case 1: // a response
		resp := &infer.Response{Final: rng.IntN(2) == 0}
		resp.AddOutput("OUT", tensor.FP32, []int64{1}, []byte{1, 2, 3, 4}, nil)
		var err error
		if b, err = responsesBody(resp, ticket+rng.Uint64N(3)); err != nil {
			return nil
		}
		if rng.IntN(2) == 0 && len(b) > 0 {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
	case 2:
		b = []byte(`{"op": "metric_new", "name": 5}`)[:rng.IntN(31)]
	}
	return b
}

// refusing is a server that refuses all BLS requests.
type refusing struct{}

func (refusing) Infer(_ context.Context, r *infer.Request) error {
	r.Fail(status.New(status.Internal, "no"))
	return nil
}
func (refusing) Call(context.Context, string, json.RawMessage) (any, error) { return struct{}{}, nil }
func (refusing) Metric(uint64, uint32, float64)                             {}

func TestHalfValidFramesEndTheProcess(t *testing.T) {
	if s := os.Getenv(randomFrames); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sendRandomFrames(n)
	}
	l := NewLauncher(Options{})
	defer l.Close()
	seeds := 20
	if os.Getenv("NEREID_SOAK") == "full" {
		seeds = 1000
	}
	for _, decoupled := range []bool{false, true} {
		t.Run("D6 half-valid frames, decoupled "+strconv.FormatBool(decoupled), func(t *testing.T) {
			for seed := range seeds {
				w, err := l.Start(t.Context(), Spec{
					Name: "m_0", ModelName: "m",
					Command: []string{os.Args[0], "-test.run=^TestHalfValidFramesEndTheProcess$"},
					Env:     []string{randomFrames + "=" + strconv.Itoa(seed+1)}, Caller: refusing{},
					Decoupled: decoupled,
				})
				if err != nil {
					t.Fatal(err)
				}
				r := request(100)
				b := infer.NewBatch()
				b.Requests = append(b.Requests, r.Retain())
				err = w.Execute(t.Context(), b)
				w.Kill()
				if w.Err() == nil {
					t.Errorf("seed %d: the worker lives", seed)
				}
				t.Logf("seed %d: %v", seed, err)
				w.backlogs.Wait()
				// what else is not answered, the instance answers
				for final := err != nil || !decoupled || r.Rescheduled(); !final; {
					resp := r.Poll()
					if resp == nil {
						t.Fatalf("seed %d: the request has no final response", seed)
					}
					final = resp.Final
					resp.Release()
				}
				r.Release()
			}
		})
	}
}
