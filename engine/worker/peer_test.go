//go:build linux

package worker

import (
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// newPeer is a worker's side without a server: its arenas are its own.
func newPeer(t testing.TB) *peer {
	t.Helper()
	down, err := newMapping("down", tableSize+1<<20)
	if err != nil {
		t.Skip(err)
	}
	up, err := newMapping("up", tableSize+1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { down.release(); up.release() })
	p := &peer{down: down, up: newArena(up, 1<<20)}
	p.enc = encoder{arena: p.up, place: inUp}
	p.in = inbox{up: down, peer: true, pool: &p.pool, sigs: signatures{}}
	return p
}

// execute is the body of an EXECUTE with these requests, as a server sends it.
func executeBody(t testing.TB, down *arena, requests ...*infer.Request) []byte {
	t.Helper()
	e := encoder{arena: down}
	e.begin()
	e.u32(uint32(len(requests)))
	e.u32(0)
	for i, r := range requests {
		if err := e.request(r, uint64(i+1), uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	packet, err := e.finish(kindExecute, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := parsePacket(packet)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(nil), body...)
}

func request(data int) *infer.Request {
	r := infer.New()
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "x", DataType: tensor.Uint8, Shape: []int64{1, int64(data)}, Data: make([]byte, data)})
	return r
}

// TestPeerFreesInputs: the slots of inputs are the server's again when the requests are gone, also those of a request
// that cannot be.
func TestPeerFreesInputs(t *testing.T) {
	p := newPeer(t)
	down := newArena(p.down, 1<<20)
	p.down.refs.Add(1)
	defer p.down.release()
	wrong := request(20_000)
	wrong.Inputs = append(wrong.Inputs, wrong.Inputs[0])
	wrong.Inputs[0].Shape = []int64{1, 7} // and 20,000 bytes
	b, err := func() (*infer.Batch, error) {
		body := executeBody(t, down, request(20_000), request(3), wrong)
		p.in.next(body)
		defer p.in.end()
		return p.decode(body)
	}()
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Requests) != 2 || len(p.requests) != 3 || p.tickets[2] != 3 || p.states[1] != 1 {
		t.Fatalf("%d of %d requests are in the batch, tickets %d, states %d; want 2 of 3", len(b.Requests), len(p.requests), p.tickets, p.states)
	}
	if resp := p.requests[2].Poll(); resp == nil || resp.Err == nil {
		t.Errorf("a request whose shape and data differ has the answer %v", resp)
	}
	for _, r := range p.requests {
		r.Release()
	}
	down.mu.Lock()
	defer down.mu.Unlock()
	down.sweep()
	for _, b := range down.blocks {
		if b.busy {
			t.Errorf("%d bytes at %d are still in use", b.size, b.at)
		}
	}
}

// FuzzPeerDecode: whatever comes as an EXECUTE, the worker's side does not panic, and takes no more than it got.
func FuzzPeerDecode(f *testing.F) {
	p := newPeer(f)
	down := newArena(p.down, 1<<20)
	f.Add(executeBody(f, down, request(3)))
	f.Add(executeBody(f, down, request(20_000), request(0)))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		p.in.next(body)
		defer p.in.end()
		b, err := p.decode(body)
		for _, r := range p.requests {
			r.Release()
		}
		if err == nil && len(b.Requests) > len(body)/64 {
			t.Errorf("%d requests from %d bytes", len(b.Requests), len(body))
		}
	})
}
