package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"nereid/engine/tensor"
)

// The JSON part of an inference request and its response.
type (
	jsonRequest struct {
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
		Inputs     []jsonTensor   `json:"inputs"`
		Outputs    []jsonTensor   `json:"outputs,omitempty"`
	}
	jsonTensor struct {
		Name       string          `json:"name"`
		DataType   string          `json:"datatype,omitempty"`
		Shape      []int64         `json:"shape,omitzero"`
		Parameters map[string]any  `json:"parameters,omitempty"`
		Data       json.RawMessage `json:"data,omitempty"`
	}
	jsonResponse struct {
		Model      string         `json:"model_name"`
		Version    string         `json:"model_version"`
		ID         string         `json:"id"`
		Parameters map[string]any `json:"parameters"`
		Outputs    []jsonTensor   `json:"outputs"`
	}
)

// parameters returns the parameters of a request by their names in the protocol.
func (r *Request) parameters() (map[string]any, error) {
	p := map[string]any{}
	for k, v := range r.Parameters {
		switch v := v.(type) {
		case bool, int64, string, float64:
			p[k] = v
		case int:
			p[k] = int64(v)
		default:
			return nil, fmt.Errorf("parameter %q is a %T; want bool, int64, string or float64", k, v)
		}
	}
	if r.Priority != 0 {
		p["priority"] = r.Priority
	}
	if r.Timeout > 0 {
		p["timeout"] = r.Timeout.Microseconds()
	}
	if s := r.Sequence; s.ID != 0 || s.Text != "" {
		p["sequence_id"] = any(s.ID)
		if s.Text != "" {
			p["sequence_id"] = s.Text
		}
		p["sequence_start"], p["sequence_end"] = s.Start, s.End
	}
	return p, nil
}

const (
	regionParameter   = "shared_memory_region"
	offsetParameter   = "shared_memory_offset"
	byteSizeParameter = "shared_memory_byte_size"
)

func (m *Memory) parameters() map[string]any {
	return map[string]any{regionParameter: m.Region, offsetParameter: m.Offset, byteSizeParameter: m.ByteSize}
}

// memoryOf returns where an output is in shared memory, nil if it is not. The request says it, or else the parameters
// of the response, which not all servers send. r may be nil.
func memoryOf(r *Request, output string, p map[string]any) *Memory {
	if r != nil {
		for _, o := range r.Outputs {
			if o.Name == output && o.Memory != nil {
				return o.Memory
			}
		}
	}
	region, ok := p[regionParameter].(string)
	if !ok {
		return nil
	}
	offset, _ := p[offsetParameter].(int64) // 0 if it is missing
	size, _ := p[byteSizeParameter].(int64)
	return &Memory{Region: region, Offset: offset, ByteSize: size}
}

// HeaderLength is the HTTP header that has the length of a body's JSON part if the bytes of tensors follow it.
const HeaderLength = "Inference-Header-Content-Length"

// EncodeHTTP returns the body of a request and the length of its JSON part, for callers that send it themselves.
func EncodeHTTP(r *Request, o *HTTPOptions) (body []byte, jsonLength int, err error) {
	p, err := r.parameters()
	if err != nil {
		return nil, 0, err
	}
	doc := jsonRequest{ID: r.ID, Parameters: p, Inputs: make([]jsonTensor, 0, len(r.Inputs))}
	if len(r.Outputs) == 0 && !o.JSONOutputs {
		p["binary_data_output"] = true
	}
	var binary [][]byte
	for i := range r.Inputs {
		in := &r.Inputs[i]
		t := jsonTensor{Name: in.Name, DataType: in.DataType.String(), Shape: in.Shape}
		switch {
		case in.Memory != nil:
			t.Parameters = in.Memory.parameters()
		case o.JSONInputs:
			if t.Data, err = ToJSON(in); err != nil {
				return nil, 0, err
			}
		default:
			t.Parameters = map[string]any{"binary_data_size": len(in.Data)}
			binary = append(binary, in.Data)
		}
		doc.Inputs = append(doc.Inputs, t)
	}
	for _, out := range r.Outputs {
		t := jsonTensor{Name: out.Name, Parameters: map[string]any{"binary_data": !o.JSONOutputs}}
		if out.Memory != nil {
			t.Parameters = out.Memory.parameters()
		}
		if out.Classes > 0 {
			t.Parameters["classification"] = out.Classes
		}
		doc.Outputs = append(doc.Outputs, t)
	}
	head, err := json.Marshal(doc)
	return slices.Concat(append([][]byte{head}, binary...)...), len(head), err
}

// DecodeHTTP reads the body of the response to a request. The response keeps the body. jsonLength is the value of
// HeaderLength; "" if the response has none.
func DecodeHTTP(r *Request, body []byte, jsonLength string) (*Response, error) {
	n := len(body)
	if jsonLength != "" {
		var err error
		if n, err = strconv.Atoi(jsonLength); err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("the response has %d bytes and the header length %q", len(body), jsonLength)
		}
	}
	tail := body[n:]
	var doc jsonResponse
	dec := json.NewDecoder(bytes.NewReader(quoteSpecials(body[:n])))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("the response's JSON: %w", err)
	}
	out := &Response{Model: doc.Model, Version: doc.Version, ID: doc.ID, Parameters: numbers(doc.Parameters),
		Final: true}
	for _, o := range doc.Outputs {
		t := Tensor{Name: o.Name, DataType: tensor.ParseDataType(o.DataType), Shape: o.Shape}
		p := numbers(o.Parameters)
		n, binary := p["binary_data_size"].(int64)
		switch t.Memory = memoryOf(r, t.Name, p); {
		case t.Memory != nil:
		case p["binary_data_size"] == nil && o.Data != nil:
			var err error
			if t, err = fromJSON(t.Name, t.DataType, t.Shape, o.Data, appendQuoted); err != nil {
				return nil, fmt.Errorf("the response: %w", err)
			}
		case !binary || n < 0 || n > int64(len(tail)):
			return nil, fmt.Errorf("output %q of the response is not in binary form, or has more than the %d bytes "+
				"that are left", o.Name, len(tail))
		default:
			t.Data, tail = tail[:n:n], tail[n:]
		}
		out.Outputs = append(out.Outputs, t)
	}
	if len(tail) > 0 {
		return nil, fmt.Errorf("%d bytes are left over behind the outputs of the response", len(tail))
	}
	return out, nil
}

// numbers turns JSON numbers into int64, or into float64 if they are no integers.
func numbers(p map[string]any) map[string]any {
	for k, v := range p {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		if i, err := n.Int64(); err == nil {
			p[k] = i
		} else if f, err := n.Float64(); err == nil {
			p[k] = f
		} else {
			p[k] = n.String()
		}
	}
	return p
}
