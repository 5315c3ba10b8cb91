package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
)

// reply is a response as far as the checks need it: the version that answered, and each output's elements as bytes.
type reply struct {
	version string
	outputs [][]byte
}

func (r reply) clone() reply {
	out := reply{version: r.version}
	for _, b := range r.outputs {
		out.outputs = append(out.outputs, bytes.Clone(b))
	}
	return out
}

// parseHTTPReply reads a body whose first headerLen bytes are JSON; 0: all of it.
func parseHTTPReply(body []byte, headerLen int) (reply, error) {
	var head struct {
		Version string `json:"model_version"`
		Outputs []struct {
			Name       string
			Datatype   string
			Data       []float64
			Parameters struct {
				Size *int `json:"binary_data_size"`
			}
		}
	}
	text, rest := body, []byte(nil)
	if headerLen > 0 {
		if headerLen > len(body) {
			return reply{}, fmt.Errorf("the JSON header has %d bytes, but the body has %d", headerLen, len(body))
		}
		text, rest = body[:headerLen], body[headerLen:]
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return reply{}, fmt.Errorf("the response is not JSON: %w", err)
	}
	r := reply{version: head.Version}
	for _, o := range head.Outputs {
		if o.Parameters.Size == nil {
			raw, err := packFloats(o.Datatype, o.Data)
			if err != nil {
				return reply{}, fmt.Errorf("output %s: %w", o.Name, err)
			}
			r.outputs = append(r.outputs, raw)
			continue
		}
		n := *o.Parameters.Size
		if n < 0 || n > len(rest) {
			return reply{}, fmt.Errorf("output %s: wants %d bytes, %d are left", o.Name, n, len(rest))
		}
		r.outputs = append(r.outputs, rest[:n])
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return reply{}, fmt.Errorf("%d bytes are left over after the outputs", len(rest))
	}
	return r, nil
}

func packFloats(dtype string, values []float64) ([]byte, error) {
	if dtype != "FP32" {
		return nil, fmt.Errorf("JSON responses of type %s cannot be checked; use the binary form", dtype)
	}
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b, nil
}

// parseGRPCReply reads an encoded ModelInferResponse.
func parseGRPCReply(b []byte) (reply, error) {
	var r inferencepb.ModelInferResponse
	if err := proto.Unmarshal(b, &r); err != nil {
		return reply{}, fmt.Errorf("the response is not a ModelInferResponse: %w", err)
	}
	return reply{r.GetModelVersion(), r.GetRawOutputContents()}, nil
}

// checker decides whether a response is right for the inputs. alone is the response to the same request before the
// load.
type checker func(in []tensor, alone, got reply) error

// newChecker returns the checker of that name; nil for none.
func newChecker(name string) (checker, error) {
	switch name {
	case "", "none":
		return nil, nil
	case "identity":
		return checkIdentity, nil
	case "same":
		return func(_ []tensor, alone, got reply) error { return closeTo(alone.outputs, got.outputs, 1e-4) }, nil
	case "version":
		return checkVersion, nil
	}
	return nil, fmt.Errorf("-check %q: want none, identity, same or version", name)
}

// checkIdentity demands the inputs as outputs.
func checkIdentity(in []tensor, _, got reply) error {
	if len(got.outputs) != len(in) {
		return fmt.Errorf("%d outputs for %d inputs", len(got.outputs), len(in))
	}
	for i := range in {
		if !bytes.Equal(in[i].raw, got.outputs[i]) {
			return fmt.Errorf("output %d is not the input %s that was sent", i, in[i].name)
		}
	}
	return nil
}

// checkVersion demands output = input + the number of the version that answered.
func checkVersion(in []tensor, _, got reply) error {
	v, err := strconv.Atoi(got.version)
	if err != nil || len(got.outputs) != 1 {
		return fmt.Errorf("the response has version %q and %d outputs", got.version, len(got.outputs))
	}
	a, b := in[0].raw, got.outputs[0]
	if len(a) != len(b) {
		return fmt.Errorf("output has %d bytes, want %d", len(b), len(a))
	}
	for i := 0; i < len(a); i += 4 {
		if x, y := float32At(a, i), float32At(b, i); y != x+float32(v) {
			return fmt.Errorf("element %d is %v, want %v + %d (version %d)", i/4, y, x, v, v)
		}
	}
	return nil
}

func closeTo(want, got [][]byte, tolerance float64) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d outputs, want %d", len(got), len(want))
	}
	for i := range want {
		if len(want[i]) != len(got[i]) {
			return fmt.Errorf("output %d has %d bytes, want %d", i, len(got[i]), len(want[i]))
		}
		for j := 0; j+4 <= len(want[i]); j += 4 {
			w, g := float64(float32At(want[i], j)), float64(float32At(got[i], j))
			if !(math.Abs(w-g) <= tolerance*math.Max(1, math.Abs(w))) {
				return fmt.Errorf("output %d element %d is %v, want %v as when sent alone", i, j/4, g, w)
			}
		}
	}
	return nil
}

func float32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
}
