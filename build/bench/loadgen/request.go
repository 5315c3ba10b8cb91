package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/app/perf"
	"nereid/engine/inferencepb"
)

// tensor is one input with its values in both wire forms.
type tensor struct {
	name, dtype string
	shape       []int64
	raw         []byte // little-endian elements
	json        []any  // the same values
}

// parseTensors reads "NAME:DTYPE:d,d,..[;...]" and fills each tensor with values that depend on the seed.
func parseTensors(spec string, seed uint64) ([]tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0x6e6572656964))
	var list []tensor
	for part := range strings.SplitSeq(spec, ";") {
		head, shape, err := perf.ParseShape(part)
		name, dtype, ok := strings.Cut(head, ":")
		if err != nil || !ok {
			return nil, fmt.Errorf("tensor %q: want NAME:DTYPE:d,d,.. such as INPUT0:FP32:1,16", part)
		}
		t := tensor{name: name, dtype: dtype, shape: shape}
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		for range n {
			v := randomElement(dtype, rng)
			if v == nil {
				return nil, fmt.Errorf("tensor %q: data type %q; want FP32, FP64, BOOL or an integer type", part, dtype)
			}
			t.json = append(t.json, v)
			if t.raw, err = binary.Append(t.raw, binary.LittleEndian, v); err != nil {
				return nil, err
			}
		}
		list = append(list, t)
	}
	return list, nil
}

// randomElement returns one element, or nil for a type without a JSON form. Floats are multiples of 1/256, so that
// their JSON form is short and exact.
func randomElement(dtype string, rng *rand.Rand) any {
	switch dtype {
	case "FP32":
		return float32(rng.IntN(1024)-512) / 256
	case "FP64":
		return float64(rng.IntN(1024)-512) / 256
	case "BOOL":
		return rng.IntN(2) == 1
	case "INT8", "UINT8": // below 128, both have the same bytes
		return int8(rng.IntN(100))
	case "INT32", "UINT32":
		return int32(rng.IntN(100))
	case "INT64", "UINT64":
		return int64(rng.IntN(100))
	}
	return nil
}

// sizeOf returns the bytes of all tensors.
func sizeOf(tensors []tensor) int {
	n := 0
	for _, t := range tensors {
		n += len(t.raw)
	}
	return n
}

// The JSON of an inference request, as far as the loads need it.
type (
	inferRequest struct {
		Inputs     []inferTensor  `json:"inputs"`
		Outputs    []inferTensor  `json:"outputs,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
	}
	inferTensor struct {
		Name       string         `json:"name"`
		Shape      []int64        `json:"shape,omitempty"`
		Datatype   string         `json:"datatype,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
		Data       []any          `json:"data,omitempty"`
	}
)

// post returns a whole HTTP/1.1 request, head and body. A tail of bytes may follow the JSON.
func post(host, model string, body inferRequest, tail []byte) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	b := fmt.Appendf(nil, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n",
		model, host, len(text)+len(tail))
	if tail != nil {
		b = fmt.Appendf(b, "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %d\r\n\r\n",
			len(text))
	} else {
		b = append(b, "Content-Type: application/json\r\n\r\n"...)
	}
	return append(append(b, text...), tail...), nil
}

// httpRequest encodes an HTTP request. With asBinary the tensors follow the JSON text as bytes and the outputs are
// asked for as bytes; otherwise both are JSON.
func httpRequest(host, model string, tensors []tensor, asBinary bool) ([]byte, error) {
	var body inferRequest
	var tail []byte
	if asBinary {
		body.Parameters = map[string]any{"binary_data_output": true}
	}
	for _, t := range tensors {
		in := inferTensor{Name: t.name, Shape: t.shape, Datatype: t.dtype}
		if asBinary {
			in.Parameters = map[string]any{"binary_data_size": len(t.raw)}
			tail = append(tail, t.raw...)
		} else {
			in.Data = t.json
		}
		body.Inputs = append(body.Inputs, in)
	}
	return post(host, model, body, tail)
}

// grpcRequest returns an encoded ModelInferRequest with raw contents.
func grpcRequest(model string, tensors []tensor) ([]byte, error) {
	r := &inferencepb.ModelInferRequest{ModelName: model}
	for _, t := range tensors {
		in := &inferencepb.ModelInferRequest_InferInputTensor{Name: t.name, Datatype: t.dtype, Shape: t.shape}
		r.Inputs = append(r.Inputs, in)
		r.RawInputContents = append(r.RawInputContents, t.raw)
	}
	return proto.Marshal(r)
}
