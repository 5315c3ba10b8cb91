package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// httpRequest returns a whole HTTP/1.1 request, head and body. With asBinary the tensors follow the JSON text as bytes
// and the outputs are asked for as bytes; otherwise both ways are JSON.
func httpRequest(host, model string, tensors []tensor, asBinary bool) ([]byte, error) {
	type input struct {
		Name       string         `json:"name"`
		Shape      []int64        `json:"shape"`
		Datatype   string         `json:"datatype"`
		Parameters map[string]int `json:"parameters,omitempty"`
		Data       []any          `json:"data,omitempty"`
	}
	var body struct {
		Inputs     []input         `json:"inputs"`
		Parameters map[string]bool `json:"parameters,omitempty"`
	}
	var tail []byte
	for _, t := range tensors {
		in := input{Name: t.name, Shape: t.shape, Datatype: t.dtype}
		if asBinary {
			in.Parameters = map[string]int{"binary_data_size": len(t.raw)}
			tail = append(tail, t.raw...)
		} else {
			in.Data = t.json
		}
		body.Inputs = append(body.Inputs, in)
	}
	if asBinary {
		body.Parameters = map[string]bool{"binary_data_output": true}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", model, host, len(text)+len(tail))
	if asBinary {
		head += fmt.Sprintf("Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %d\r\n\r\n", len(text))
	} else {
		head += "Content-Type: application/json\r\n\r\n"
	}
	return append(append([]byte(head), text...), tail...), nil
}

// Field numbers of ModelInferRequest and ModelInferResponse in the KServe v2 protocol.
const (
	requestModelName   = 1
	requestInputs      = 5
	requestRawContents = 7
	inputName          = 1
	inputDatatype      = 2
	inputShape         = 3

	responseModelVersion = 2
	responseRawContents  = 6
)

// grpcRequest returns an encoded ModelInferRequest with raw contents.
func grpcRequest(model string, tensors []tensor) []byte {
	b := appendField(nil, requestModelName, []byte(model))
	for _, t := range tensors {
		var shape []byte
		for _, d := range t.shape {
			shape = binary.AppendUvarint(shape, uint64(d))
		}
		in := appendField(nil, inputName, []byte(t.name))
		in = appendField(in, inputDatatype, []byte(t.dtype))
		in = appendField(in, inputShape, shape)
		b = appendField(b, requestInputs, in)
	}
	for _, t := range tensors {
		b = appendField(b, requestRawContents, t.raw)
	}
	return b
}

// appendField appends a length-delimited protobuf field.
func appendField(b []byte, number int, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(number)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}
