//go:build linux

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
)

// wild is the environment variable by which the test program is a worker that writes what it likes.
const wild = "NEREID_TEST_WILD"

// beWild says hello, waits for an execution and then sends frames that are half right, until the server ends it.
func beWild(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	greet()
	exec, ticket := listen()
	if err := unix.Ftruncate(upFD, 1<<21); err != nil {
		os.Exit(0)
	}
	for range 2000 {
		speak(header{kind: kind(rng.IntN(12)), flags: uint16(rng.IntN(4)), id: []uint64{exec, 0, rng.Uint64N(4)}[rng.IntN(3)]}, wildBody(rng, ticket))
	}
	os.Exit(0)
}

// wildBody is a body that looks like something.
func wildBody(rng *rand.Rand, ticket uint64) []byte {
	b := make([]byte, rng.IntN(400))
	for i := range b {
		if rng.IntN(3) == 0 {
			b[i] = byte(rng.Uint32())
		}
	}
	switch rng.IntN(4) {
	case 0: // a place in an arena
		b = binary.LittleEndian.AppendUint64(nil, uint64(tableSize+slotHeader*rng.IntN(100)))
		return binary.LittleEndian.AppendUint64(b, rng.Uint64N(1<<rng.IntN(40)))
	case 1: // a response
		e := &encoder{}
		e.begin()
		resp := &infer.Response{Final: rng.IntN(2) == 0}
		resp.AddOutput("OUT", tensor.FP32, []int64{1}, []byte{1, 2, 3, 4}, nil)
		e.responsesHead(1)
		if err := e.responseTo(resp, ticket+rng.Uint64N(3)); err != nil {
			return nil
		}
		packet, err := e.finish(kindResponses, 0, 1)
		if err != nil {
			return nil
		}
		b = packet[headerSize:]
		if rng.IntN(2) == 0 && len(b) > 0 {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
	case 2:
		b = []byte(`{"op": "metric_new", "name": 5}`)[:rng.IntN(31)]
	}
	return b
}

// obedient answers what a worker asks.
type obedient struct{}

func (obedient) Infer(_ context.Context, r *infer.Request) error {
	r.Fail(status.New(status.Internal, "no"))
	return nil
}
func (obedient) Call(context.Context, string, json.RawMessage) (any, error) { return struct{}{}, nil }
func (obedient) Metric(uint64, uint32, float64)                             {}

func TestWildWorker(t *testing.T) {
	if s := os.Getenv(wild); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		beWild(n)
	}
	l := NewLauncher(nil)
	defer l.Close()
	seeds := 20
	if os.Getenv("NEREID_SOAK") == "full" {
		seeds = 1000
	}
	for _, decoupled := range []bool{false, true} {
		t.Run("D6 frames that are half right, decoupled "+strconv.FormatBool(decoupled), func(t *testing.T) {
			for seed := range seeds {
				w, err := l.Start(t.Context(), Spec{
					Name: "m_0", ModelName: "m", Command: []string{os.Args[0], "-test.run=^TestWildWorker$"},
					Env: []string{wild + "=" + strconv.Itoa(seed+1)}, Caller: obedient{}, Decoupled: decoupled,
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
				w.spills.Wait()
				for final := err != nil || !decoupled || r.Rescheduled(); !final; { // what else is not answered, the instance answers
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
