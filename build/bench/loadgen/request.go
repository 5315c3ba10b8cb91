package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/app/perf"
	"nereid/engine/client"
	"nereid/engine/tensor"
)

// inputs generates the tensors of "NAME:DTYPE:d,d,..[;...]". Floats are multiples of 1/256, so that their JSON form is
// short and exact.
func (o *options) inputs() ([]client.Tensor, error) {
	var m perf.Model
	for part := range strings.SplitSeq(o.tensors, ";") {
		head, shape, err := perf.ParseShape(part)
		name, dtype, ok := strings.Cut(head, ":")
		if err != nil || !ok {
			return nil, fmt.Errorf("tensor %q: want NAME:DTYPE:d,d,.. such as INPUT0:FP32:1,16", part)
		}
		m.Inputs = append(m.Inputs, perf.IO{Name: name, DataType: tensor.ParseDataType(dtype), Shape: shape})
	}
	data, err := perf.Generate(&m, perf.InputOptions{})
	if err != nil {
		return nil, err
	}
	return data.Streams[0][0].Inputs, nil
}

// sizeOf returns the bytes of all tensors.
func sizeOf(tensors []client.Tensor) int {
	n := 0
	for _, t := range tensors {
		n += len(t.Data)
	}
	return n
}

// httpRequest encodes a whole HTTP/1.1 request, head and body.
func httpRequest(host string, r *client.Request, o *client.HTTPOptions) ([]byte, error) {
	body, n, err := client.EncodeHTTP(r, o)
	if err != nil {
		return nil, err
	}
	b := fmt.Appendf(nil, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.Model, host,
		len(body))
	if o.JSONInputs {
		b = append(b, "Content-Type: application/json\r\n\r\n"...)
	} else {
		b = fmt.Appendf(b, "Content-Type: application/octet-stream\r\n%s: %d\r\n\r\n", client.HeaderLength, n)
	}
	return append(b, body...), nil
}

// grpcRequest returns an encoded ModelInferRequest with raw contents.
func grpcRequest(model string, in []client.Tensor) ([]byte, error) {
	m, err := client.EncodeGRPC(&client.Request{Model: model, Inputs: in})
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}
