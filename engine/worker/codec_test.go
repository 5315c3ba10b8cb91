//go:build linux

package worker

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func testInbox(t testing.TB) (*inbox, *arena) {
	t.Helper()
	up, err := newMapping("test", tableSize+1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.release)
	a := testArena(t, 1<<20)
	return &inbox{up: up, down: a, pool: &tensor.Pool{}, sigs: signatures{}}, a
}

// sample is a request with all that one can have.
func sample() *infer.Request {
	r := infer.New()
	r.ID, r.Flags, r.Priority = "id", infer.SequenceStart|infer.SequenceEnd, 3
	r.Correlation = infer.CorrelationID{Text: "seq"}
	r.Timeout = 5e6
	r.Outputs = []infer.RequestedOutput{{Name: "OUT"}, {Name: "ÖUT2"}}
	r.Parameters = []infer.Parameter{
		{Name: "b", Kind: infer.BoolParameter, Bool: true}, {Name: "i", Kind: infer.IntParameter, Int: -5},
		{Name: "u", Kind: infer.UintParameter, Uint: math.MaxUint64}, {Name: "f", Kind: infer.FloatParameter, Float: 2},
		{Name: "s", Kind: infer.StringParameter, Text: "a \"quoted\"\ntext"},
	}
	r.Inputs = []tensor.Tensor{
		{Name: "A", DataType: tensor.FP32, Shape: []int64{1, 2}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{Name: "S", DataType: tensor.Bytes, Shape: []int64{2}, Data: tensor.AppendBytesElement(tensor.AppendBytesElement(nil, "x"), "")},
		{Name: "EMPTY", DataType: tensor.Int64, Shape: []int64{0}},
		{Name: "LARGE", DataType: tensor.Uint8, Shape: []int64{10000}, Data: make([]byte, 10000)},
	}
	return r
}

// The bytes of an EXECUTE are those that PROTOCOL.md says.
func TestExecuteGolden(t *testing.T) {
	r := sample()
	defer r.Release()
	e := &encoder{arena: testArena(t, 1<<20)}
	e.begin()
	e.u32(1)
	e.u32(0)
	if err := e.request(r, 77, 5); err != nil {
		t.Fatal(err)
	}
	packet, err := e.finish(kindExecute, 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	got := hex.Dump(packet)
	path := filepath.Join("testdata", "execute.golden")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("the frame is\n%swant (UPDATE=1 writes it)\n%s%v", got, want, err)
	}
}

// bls makes the body of a BLS out of a request, as a worker would: what does not fit into the frame is left out.
func blsBody(t testing.TB, r *infer.Request, a *arena) []byte {
	t.Helper()
	e := &encoder{arena: a}
	e.begin()
	e.u64(^uint64(0))
	e.u64(77)
	e.u32(blsStream)
	e.u16(1)
	e.u16(0)
	e.u64(0)
	e.buf = append(e.buf, 'm')
	e.pad()
	if err := e.request(r, 0, 0); err != nil {
		t.Fatal(err)
	}
	packet, err := e.finish(kindBLS, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(packet[headerSize:])
}

// A request is the same after it was written and read.
func TestRequestRoundTrip(t *testing.T) {
	x, a := testInbox(t)
	r := sample()
	defer r.Release()
	body := blsBody(t, r, a)
	x.next(body)
	call, err := x.bls(body)
	x.end()
	if err != nil {
		t.Fatal(err)
	}
	defer call.r.Release()
	got := call.r
	if got.ModelName != "m" || got.Version != infer.LatestVersion || !call.stream || call.parent != 77 {
		t.Errorf("model %s, version %d, stream %v, parent %d", got.ModelName, got.Version, call.stream, call.parent)
	}
	if got.ID != r.ID || got.Flags != r.Flags || got.Priority != r.Priority || got.Correlation != r.Correlation || got.Timeout != r.Timeout {
		t.Errorf("%+v, want %+v", got, r)
	}
	if !reflect.DeepEqual(got.Parameters, r.Parameters) || !reflect.DeepEqual(got.Outputs, r.Outputs) {
		t.Errorf("parameters %v, outputs %v; want %v, %v", got.Parameters, got.Outputs, r.Parameters, r.Outputs)
	}
	for i, want := range r.Inputs {
		in := got.Inputs[i]
		if in.Name != want.Name || in.DataType != want.DataType || !slices.Equal(in.Shape, want.Shape) || string(in.Data) != string(want.Data) {
			t.Errorf("input %d: %+v, want %+v", i, in, want)
		}
	}
}

// A response, an error and the mere end of a stream are the same after they were written and read; a frame that is too
// long for a packet goes through the arena.
func TestResponseRoundTrip(t *testing.T) {
	x, a := testInbox(t)
	many := &infer.Response{}
	for i := range 4000 {
		many.AddOutput(fmt.Sprintf("OUTPUT%d", i), tensor.Uint8, []int64{1}, []byte{byte(i)}, nil)
	}
	one := &infer.Response{Final: true, Parameters: []infer.Parameter{{Name: "n", Kind: infer.IntParameter, Int: 1}}}
	one.AddOutput("OUT", tensor.BF16, []int64{2}, []byte{1, 2, 3, 4}, nil)
	for _, want := range []*infer.Response{one, many, {Final: true}, {Final: true, Err: status.New(status.NotFound, "not there")}} {
		e := &encoder{arena: a}
		e.begin()
		if err := e.response(want); err != nil {
			t.Fatal(err)
		}
		packet, err := e.finish(kindBLSResponse, 0, 4)
		if err != nil {
			t.Fatal(err)
		}
		h, body, err := parsePacket(packet)
		if err != nil || h.kind != kindBLSResponse || h.id != 4 {
			t.Fatal(h, err)
		}
		if h.flags&flagFar != 0 {
			at, n := binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])
			body = a.mem[at : at+n]
		} else if want == many {
			t.Error("a frame of 4000 outputs is a packet")
		}
		x.next(body)
		c := cursor{b: body}
		n, _, failure, bad := responsesHead(&c)
		rec, ok := readResponse(&c)
		if n != 1 || failure != nil || bad || !ok {
			t.Fatal(n, failure, bad, ok)
		}
		r := infer.New()
		got := r.NewResponse()
		if rec.flags&responseError != 0 {
			got.Err = status.New(rec.code, string(rec.text))
		} else if err := x.outputs(&rec, got, r); err != nil {
			t.Fatal(err)
		}
		x.end()
		if (rec.flags&responseFinal != 0) != want.Final || len(got.Outputs) != len(want.Outputs) ||
			(rec.flags&responseEmpty != 0) != (want.Err == nil && len(want.Outputs) == 0) {
			t.Errorf("flags %d, %d outputs; want %+v", rec.flags, len(got.Outputs), want)
		}
		if want.Err != nil && (got.Err.Error() != want.Err.Error() || status.CodeOf(got.Err) != status.CodeOf(want.Err)) {
			t.Errorf("%v, want %v", got.Err, want.Err)
		}
		for i := range got.Outputs {
			if g, w := got.Outputs[i], want.Outputs[i]; g.Name != w.Name || string(g.Data) != string(w.Data) || g.DataType != w.DataType {
				t.Fatalf("output %d: %+v, want %+v", i, g, w)
			}
		}
		got.Release()
		r.Release()
	}
}

// A worker that says wrong things of its memory gets an error, not the server's memory.
func TestHostileTensors(t *testing.T) {
	x, _ := testInbox(t)
	sig := func(dt tensor.DataType, dims ...int64) *signature {
		n, err := tensor.ByteSize(dt, dims)
		if err != nil {
			t.Fatal(err)
		}
		return &signature{name: "T", dt: dt, shape: dims, bytes: n}
	}
	for _, tt := range []struct {
		name string
		sig  *signature
		p    place
	}{
		{"behind the frame", sig(tensor.Uint8, 8), place{where: inFrame, at: 90, length: 20}},
		{"far behind the frame", sig(tensor.Uint8, 8), place{where: inFrame, at: math.MaxUint64, length: 8}},
		{"a length that wraps", sig(tensor.Uint8, 8), place{where: inFrame, at: 8, length: math.MaxUint64 - 4}},
		{"behind the arena", sig(tensor.Uint8, 8), place{where: inUp, at: 1 << 33, length: 8}},
		{"in the arena's table", sig(tensor.Uint8, 8), place{where: inUp, at: 64, length: 8}},
		{"between slots", sig(tensor.Uint8, 8), place{where: inUp, at: tableSize + slotHeader + 1, length: 8}},
		{"longer than the arena", sig(tensor.Uint8, 8), place{where: inUp, at: tableSize + slotHeader, length: 1 << 40}},
		{"a length that wraps in the arena", sig(tensor.Uint8, 8), place{where: inUp, at: tableSize + slotHeader, length: math.MaxUint64}},
		{"no slot of the down arena", sig(tensor.Uint8, 8), place{where: inDown, at: tableSize + slotHeader, length: 8}},
		{"no place", sig(tensor.Uint8, 8), place{where: 9, length: 8}},
		{"strings that end early", sig(tensor.Bytes, 2), place{where: inFrame, at: 0, length: 8}},
	} {
		t.Run("D6 "+tt.name, func(t *testing.T) {
			x.next(make([]byte, 100))
			defer x.end()
			x.body[0] = 200
			b, buf, err := x.data(tt.sig, tt.p)
			if err == nil {
				t.Errorf("%d bytes, want an error", len(b))
			}
			if buf != nil {
				t.Error("a buffer beside an error")
			}
		})
	}
}

func FuzzFrames(f *testing.F) {
	r := sample()
	defer r.Release()
	r.Inputs = r.Inputs[:3]
	a := testArena(f, 1<<20)
	f.Add(blsBody(f, r, a))
	e := &encoder{arena: a}
	e.begin()
	resp := &infer.Response{Final: true}
	resp.AddOutput("OUT", tensor.FP32, []int64{1}, []byte{1, 2, 3, 4}, nil)
	if err := e.response(resp); err != nil {
		f.Fatal(err)
	}
	packet, err := e.finish(kindResponses, 0, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Clone(packet[headerSize:]))
	f.Add([]byte(strings.Repeat("\xff", 200)))
	x, _ := testInbox(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		x.sigs = signatures{}
		x.next(body)
		if call, err := x.bls(body); err == nil {
			for _, in := range call.r.Inputs {
				if n, err := tensor.ByteSize(in.DataType, in.Shape); err != nil || n >= 0 && n != int64(len(in.Data)) {
					t.Fatalf("input %+v with %d bytes: %v", in, len(in.Data), err)
				}
			}
			call.r.Release()
		}
		x.end()
		x.next(body)
		c := cursor{b: body}
		n, _, _, bad := responsesHead(&c)
		for i := uint32(0); i < n && !bad; i++ {
			rec, ok := readResponse(&c)
			if !ok {
				break
			}
			r := infer.New()
			out := r.NewResponse()
			_ = x.outputs(&rec, out, r) // refusing is fine
			out.Release()
			r.Release()
		}
		x.end()
		_, _ = parseLog(body)
		for b := body; len(b) > 0; {
			var err error
			if _, b, err = parseMetric(b); err != nil {
				break
			}
		}
		_, _, _ = parsePacket(body)
		_, _ = parseParameters(body, nil)
	})
}
