//go:build linux

package worker

import (
	"slices"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
)

// testServer is the process's side of the protocol without a socket.
func testServer(t testing.TB) *server {
	t.Helper()
	down, err := arena.NewMapping("down", arena.TableSize+1<<20)
	if err != nil {
		t.Skip(err)
	}
	up, err := arena.NewMapping("up", arena.TableSize+1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { down.Release(); up.Release() })
	return newServer(down, arena.New(up, 1<<20))
}

// executeBody returns the body of an EXECUTE with these requests, as the server sends it.
func executeBody(t testing.TB, down *arena.Arena, requests ...*infer.Request) []byte {
	t.Helper()
	e := frames.Encoder{Arena: down}
	e.Begin()
	e.Requests(len(requests))
	for i, r := range requests {
		if err := e.Request(r, uint64(i+1), uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	packet, err := e.Finish(frames.KindExecute, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(packet[frames.HeaderSize:])
}

func request(data int) *infer.Request {
	r := infer.New()
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "x", DataType: tensor.Uint8, Shape: []int64{1, int64(data)},
		Data: make([]byte, data)})
	return r
}

// The slots of inputs are free when the requests are released, also those of an invalid request.
func TestServeFreesInputs(t *testing.T) {
	s := testServer(t)
	down := arena.New(s.down, 1<<20)
	s.down.Retain()
	defer s.down.Release()
	wrong := request(20_000)
	wrong.Inputs = append(wrong.Inputs, wrong.Inputs[0])
	wrong.Inputs[0].Shape = []int64{1, 7} // and 20,000 bytes
	b, err := func() (*infer.Batch, error) {
		body := executeBody(t, down, request(20_000), request(3), wrong)
		s.dec.OpenBody(body)
		defer s.dec.Close()
		return s.decode(body)
	}()
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Requests) != 2 || len(s.answers) != 3 || s.answers[2].ticket != 3 || s.states[1] != 1 {
		t.Fatalf("%d of %d requests are in the batch, answers %v, states %d; want 2 of 3", len(b.Requests),
			len(s.answers), s.answers, s.states)
	}
	if r := b.Requests[0]; !r.Patient || !r.Bounded {
		t.Errorf("the process decides how long a client may pause: patient %v, bounded %v", r.Patient, r.Bounded)
	}
	if resp := s.answers[2].r.Poll(); resp == nil || resp.Err == nil {
		t.Errorf("a request whose shape and data differ has the answer %v", resp)
	}
	for _, a := range s.answers {
		a.r.Release()
	}
	if n := down.InUse(); n > 0 {
		t.Errorf("%d slots are still in use", n)
	}
}

// The process does not panic on any EXECUTE, and makes no more requests than the bytes can contain.
func FuzzServeDecode(f *testing.F) {
	s := testServer(f)
	down := arena.New(s.down, 1<<20)
	f.Add(executeBody(f, down, request(3)))
	f.Add(executeBody(f, down, request(20_000), request(0)))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s.dec.OpenBody(body)
		defer s.dec.Close()
		b, err := s.decode(body)
		for _, a := range s.answers {
			a.r.Release()
		}
		if err == nil && len(b.Requests) > len(body)/64 {
			t.Errorf("%d requests from %d bytes", len(b.Requests), len(body))
		}
	})
}
