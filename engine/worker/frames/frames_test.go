//go:build linux

package frames

import (
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
	"nereid/engine/worker/arena"
)

func testArena(t testing.TB) *arena.Arena {
	t.Helper()
	m, err := arena.NewMapping("test", arena.TableSize+1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return arena.New(m, 64<<10)
}

// testDecoder returns a server's decoder and the down arena, in which a test's frame may have data.
func testDecoder(t testing.TB) (*Decoder, *arena.Arena) {
	t.Helper()
	down := testArena(t)
	return NewServerDecoder(testArena(t).Mapping, down, &tensor.Pool{}), down
}

// sample returns a request that has all fields.
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
		{Name: "S", DataType: tensor.Bytes, Shape: []int64{2},
			Data: tensor.AppendBytesElement(tensor.AppendBytesElement(nil, "x"), "")},
		{Name: "EMPTY", DataType: tensor.Int64, Shape: []int64{0}},
		{Name: "LARGE", DataType: tensor.Uint8, Shape: []int64{10000}, Data: make([]byte, 10000)},
	}
	return r
}

// The bytes of an EXECUTE are as in PROTOCOL.md.
func TestExecuteGolden(t *testing.T) {
	r := sample()
	defer r.Release()
	e := &Encoder{Arena: testArena(t)}
	e.Begin()
	e.Requests(1)
	if err := e.Request(r, 77, 5); err != nil {
		t.Fatal(err)
	}
	packet, err := e.Finish(KindExecute, 0, 9)
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

// bls returns the body of a BLS with a request, as a worker writes it. Data that does not fit into the frame is left
// out.
func blsBody(t testing.TB, r *infer.Request, a *arena.Arena) []byte {
	t.Helper()
	e := &Encoder{Arena: a}
	e.Begin()
	e.u64(^uint64(0))
	e.u64(77)
	e.u32(blsStream)
	e.u16(1)
	e.u16(0)
	e.u64(0)
	e.buf = append(e.buf, 'm')
	e.pad()
	if err := e.Request(r, 0, 0); err != nil {
		t.Fatal(err)
	}
	packet, err := e.Finish(KindBLS, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(packet[HeaderSize:])
}

// A request does not change by encoding and decoding.
func TestRequestRoundTrip(t *testing.T) {
	x, a := testDecoder(t)
	r := sample()
	defer r.Release()
	body := blsBody(t, r, a)
	x.OpenBody(body)
	call, err := x.BLSRequest(body)
	x.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer call.Request.Release()
	got := call.Request
	if got.ModelName != "m" || got.Version != infer.LatestVersion || !call.Stream || call.Parent != 77 {
		t.Errorf("model %s, version %d, stream %v, parent %d", got.ModelName, got.Version, call.Stream, call.Parent)
	}
	if got.ID != r.ID || got.Flags != r.Flags || got.Priority != r.Priority || got.Correlation != r.Correlation ||
		got.Timeout != r.Timeout {
		t.Errorf("%+v, want %+v", got, r)
	}
	if !reflect.DeepEqual(got.Parameters, r.Parameters) || !reflect.DeepEqual(got.Outputs, r.Outputs) {
		t.Errorf("parameters %v, outputs %v; want %v, %v", got.Parameters, got.Outputs, r.Parameters, r.Outputs)
	}
	if !got.Patient {
		t.Error("the model has to read the responses in time")
	}
	for i, want := range r.Inputs {
		in := got.Inputs[i]
		if in.Name != want.Name || in.DataType != want.DataType || !slices.Equal(in.Shape,
			want.Shape) || string(in.Data) != string(want.Data) {
			t.Errorf("input %d: %+v, want %+v", i, in, want)
		}
	}
}

// Responses, errors and ends of streams do not change by encoding and decoding. A frame that is too long for a packet
// goes through the arena.
func TestResponseRoundTrip(t *testing.T) {
	x, a := testDecoder(t)
	many := &infer.Response{}
	for i := range 4000 {
		many.AddOutput(fmt.Sprintf("OUTPUT%d", i), tensor.Uint8, []int64{1}, []byte{byte(i)}, nil)
	}
	one := &infer.Response{Final: true, Parameters: []infer.Parameter{{Name: "n", Kind: infer.IntParameter, Int: 1}}}
	one.AddOutput("OUT", tensor.BF16, []int64{2}, []byte{1, 2, 3, 4}, nil)
	for _, want := range []*infer.Response{one, many, {Final: true}, {Final: true, Empty: true},
		{Final: true, Report: &infer.Report{Kind: infer.RequestFailed, N: 1, Began: 2, Input: 3, Output: 4, Ended: 5}},
		{Final: true, Err: status.New(status.NotFound, "not there")}} {
		e := &Encoder{Arena: a}
		e.Begin()
		e.Responses(1)
		if err := e.Response(want, 0); err != nil {
			t.Fatal(err)
		}
		packet, err := e.Finish(KindBLSResponse, 0, 4)
		if err != nil {
			t.Fatal(err)
		}
		if h, _, err := parsePacket(packet); err != nil || want == many && h.Flags&flagArena == 0 {
			t.Errorf("flags %d, %v; want that a frame of 4000 outputs is in the arena", h.Flags, err)
		}
		h, body, err := (&Decoder{theirs: a.Mapping, pool: x.pool}).Open(packet)
		if err != nil || h.Kind != KindBLSResponse || h.ID != 4 {
			t.Fatal(h, err)
		}
		x.OpenBody(body)
		all, err := ReadResponses(body)
		if err != nil || all.Count != 1 || all.Failure != nil {
			t.Fatal(all, err)
		}
		rec, err := all.Next()
		if err != nil {
			t.Fatal(err)
		}
		r := infer.New()
		got := r.NewResponse()
		if err := x.Response(&rec, r, got); err != nil {
			t.Fatal(err)
		}
		x.Close()
		if rec.Final() != want.Final || len(got.Outputs) != len(want.Outputs) ||
			rec.Empty() != want.Empty {
			t.Errorf("flags %d, %d outputs; want %+v", rec.flags, len(got.Outputs), want)
		}
		if (rec.Report == nil) != (want.Report == nil) || want.Report != nil && *rec.Report != *want.Report {
			t.Errorf("report %+v, want %+v", rec.Report, want.Report)
		}
		if want.Err != nil && (got.Err.Error() != want.Err.Error() ||
			status.CodeOf(got.Err) != status.CodeOf(want.Err)) {
			t.Errorf("%v, want %v", got.Err, want.Err)
		}
		for i := range got.Outputs {
			if g, w := got.Outputs[i], want.Outputs[i]; g.Name != w.Name || string(g.Data) != string(w.Data) ||
				g.DataType != w.DataType {
				t.Fatalf("output %d: %+v, want %+v", i, g, w)
			}
		}
		got.Release()
		r.Release()
	}
}

// A process that sends an invalid place of a tensor gets an error, not the server's memory.
func TestHostileTensors(t *testing.T) {
	x, _ := testDecoder(t)
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
		{"between slots", sig(tensor.Uint8, 8), place{where: inUp, at: arena.TableSize + arena.HeaderSize + 1,
			length: 8}},
		{"longer than the arena", sig(tensor.Uint8, 8), place{where: inUp, at: arena.TableSize + arena.HeaderSize,
			length: 1 << 40}},
		{"a length that wraps in the arena", sig(tensor.Uint8, 8),
			place{where: inUp, at: arena.TableSize + arena.HeaderSize, length: math.MaxUint64}},
		{"no slot of the down arena", sig(tensor.Uint8, 8), place{where: inDown,
			at: arena.TableSize + arena.HeaderSize, length: 8}},
		{"no place", sig(tensor.Uint8, 8), place{where: 9, length: 8}},
		{"strings that end early", sig(tensor.Bytes, 2), place{where: inFrame, at: 0, length: 8}},
	} {
		t.Run("D6 "+tt.name, func(t *testing.T) {
			x.OpenBody(make([]byte, 100))
			defer x.Close()
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
	a := testArena(f)
	f.Add(blsBody(f, r, a))
	e := &Encoder{Arena: a}
	e.Begin()
	resp := &infer.Response{Final: true}
	resp.AddOutput("OUT", tensor.FP32, []int64{1}, []byte{1, 2, 3, 4}, nil)
	e.Responses(1)
	if err := e.Response(resp, 0); err != nil {
		f.Fatal(err)
	}
	packet, err := e.Finish(KindResponses, 0, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Clone(packet[HeaderSize:]))
	f.Add([]byte(strings.Repeat("\xff", 200)))
	x, _ := testDecoder(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		x.sigs = signatures{}
		x.OpenBody(body)
		if call, err := x.BLSRequest(body); err == nil {
			for _, in := range call.Request.Inputs {
				if n, err := tensor.ByteSize(in.DataType, in.Shape); err != nil || n >= 0 && n != int64(len(in.Data)) {
					t.Fatalf("input %+v with %d bytes: %v", in, len(in.Data), err)
				}
			}
			call.Request.Release()
		}
		x.Close()
		x.OpenBody(body)
		all, err := ReadResponses(body)
		for i := uint32(0); i < all.Count && err == nil; i++ {
			var rec Response
			if rec, err = all.Next(); err == nil {
				r := infer.New()
				out := r.NewResponse()
				_ = x.Response(&rec, r, out) // an error is fine
				out.Release()
				r.Release()
			}
		}
		x.Close()
		_, _ = ParseLog(body)
		_, _ = ParseActivity(body)
		for b := body; len(b) > 0; {
			var err error
			if _, b, err = ParseMetric(b); err != nil {
				break
			}
		}
		for b := body; len(b) > 0; {
			var err error
			if _, b, err = ParseReport(b); err != nil {
				break
			}
		}
		_, _, _ = x.Open(body)
		x.Close()
		_, _ = parseParameters(body, nil)
	})
}

// The server sets the states in a response, unless they come late or the model has none. A state of another type is an
// error of the request.
func TestStatesOfAResponse(t *testing.T) {
	spec := infer.StateSpec{Input: "IN", Output: "S", DataType: tensor.Uint8, Shape: []int64{1}, Initial: []byte{7}}
	for _, tt := range []struct {
		name string
		dt   tensor.DataType
		late bool
		none bool
		want byte
		err  string
	}{
		{name: "set", dt: tensor.Uint8, want: 9},
		{name: "late", dt: tensor.Uint8, late: true, want: 7},
		{name: "a model without states", dt: tensor.Uint8, none: true},
		{name: "another type", dt: tensor.Int8, want: 7, err: "state 'S' has data-type 'INT8'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := &infer.Response{Final: true, States: []tensor.Tensor{
				{Name: "S", DataType: tt.dt, Shape: []int64{1}, Data: []byte{9}}}}
			r := infer.New()
			defer r.Release()
			states := infer.NewStates([]infer.StateSpec{spec})
			if !tt.none {
				r.States = states
			}
			got := r.NewResponse()
			d, _ := testDecoder(t)
			decodeResponse(t, d, sent, r, got, tt.late)
			if len(got.Outputs) != 0 {
				t.Errorf("the state is an output: %v", got.Outputs)
			}
			if (got.Err == nil) != (tt.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", got.Err, tt.err)
			}
			if tt.none {
				return
			}
			next := infer.New()
			defer next.Release()
			states.Feed(next)
			if data := next.Inputs[0].Data; data[0] != tt.want {
				t.Errorf("the next request has the state %d, want %d", data[0], tt.want)
			}
		})
	}
}

// decodeResponse encodes sent as a process does, and decodes it into got.
func decodeResponse(t *testing.T, d *Decoder, sent *infer.Response, r *infer.Request, got *infer.Response, late bool) {
	t.Helper()
	e := Encoder{Arena: testArena(t), ToServer: true}
	e.Begin()
	e.Responses(1)
	if err := e.Response(sent, 1); err != nil {
		t.Fatal(err)
	}
	packet, err := e.Finish(KindResponses, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := d.Open(packet)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all, err := ReadResponses(body)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := all.Next()
	if err != nil || rec.Empty() {
		t.Fatalf("the record is empty: %v, %v", rec.Empty(), err)
	}
	rec.Late = late
	if err := d.Response(&rec, r, got); err != nil {
		t.Fatal(err)
	}
}
