package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/app/perf"
	"nereid/engine/client"
	"nereid/engine/tensor"
)

// inputs generates the tensors of worker i out of "NAME:DTYPE:d,d,..[;...]". Floats are multiples of 1/256, so that
// their JSON form is short and exact. A part "NAME:UINT8:@PATTERN" is the i-th of the files that match, as [1,bytes].
func (o *options) inputs(i int) ([]client.Tensor, error) {
	var m perf.Model
	var files []client.Tensor
	for part := range strings.SplitSeq(o.tensors, ";") {
		if name, pattern, ok := strings.Cut(part, ":UINT8:@"); ok {
			t, err := fileInput(name, pattern, i)
			if err != nil {
				return nil, err
			}
			files = append(files, t)
			continue
		}
		head, shape, err := perf.ParseShape(part)
		name, dtype, ok := strings.Cut(head, ":")
		if err != nil || !ok {
			return nil, fmt.Errorf("tensor %q: want NAME:DTYPE:d,d,.. such as INPUT0:FP32:1,16", part)
		}
		m.Inputs = append(m.Inputs, perf.IO{Name: name, DataType: tensor.ParseDataType(dtype), Shape: shape})
	}
	if len(m.Inputs) == 0 {
		return files, nil
	}
	data, err := perf.Generate(&m, perf.InputOptions{})
	if err != nil {
		return nil, err
	}
	return append(files, data.Streams[0][0].Inputs...), nil
}

// fileInput reads the i-th file that matches the pattern. After the last file comes the first one again.
func fileInput(name, pattern string, i int) (t client.Tensor, err error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return t, fmt.Errorf("tensor %s: %w", name, err)
	}
	if len(paths) == 0 {
		return t, fmt.Errorf("tensor %s: no file matches %s", name, pattern)
	}
	data, err := os.ReadFile(paths[i%len(paths)])
	if err != nil {
		return t, fmt.Errorf("tensor %s: %w", name, err)
	}
	return client.Of(name, data, 1, int64(len(data))), nil
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
