package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"

	"nereid/engine/client"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// decodeGRPC reads an encoded ModelInferResponse.
func decodeGRPC(b []byte) (*client.Response, error) {
	var r inferencepb.ModelInferResponse
	if err := proto.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("the response is not a ModelInferResponse: %w", err)
	}
	return client.DecodeGRPC(nil, &r)
}

// checker decides whether a response is right for the inputs. alone is the response to the same request before the
// load.
type checker func(in []client.Tensor, alone, got *client.Response) error

// newChecker returns the checker of that name; nil for none.
func newChecker(name string) (checker, error) {
	switch name {
	case "", "none":
		return nil, nil
	case "identity":
		return checkIdentity, nil
	case "same":
		return checkSame, nil
	case "version":
		return checkVersion, nil
	}
	return nil, fmt.Errorf("-check %q: want none, identity, same or version", name)
}

// checkIdentity demands the inputs as outputs.
func checkIdentity(in []client.Tensor, _, got *client.Response) error {
	if len(got.Outputs) != len(in) {
		return fmt.Errorf("%d outputs for %d inputs", len(got.Outputs), len(in))
	}
	for i := range in {
		if !bytes.Equal(in[i].Data, got.Outputs[i].Data) {
			return fmt.Errorf("output %d is not the input %s that was sent", i, in[i].Name)
		}
	}
	return nil
}

// checkVersion demands output = input + the number of the version that answered.
func checkVersion(in []client.Tensor, _, got *client.Response) error {
	v, err := strconv.Atoi(got.Version)
	if err != nil || len(got.Outputs) != 1 {
		return fmt.Errorf("the response has version %q and %d outputs", got.Version, len(got.Outputs))
	}
	return compare(&in[0], &got.Outputs[0], float64(v), 0)
}

// checkSame demands the outputs of the request when it was sent alone. Those of FP32 may differ by rounding.
func checkSame(_ []client.Tensor, alone, got *client.Response) error {
	if len(alone.Outputs) != len(got.Outputs) {
		return fmt.Errorf("%d outputs, want %d", len(got.Outputs), len(alone.Outputs))
	}
	for i := range got.Outputs {
		a, b := &alone.Outputs[i], &got.Outputs[i]
		if a.DataType != tensor.FP32 {
			if !bytes.Equal(a.Data, b.Data) {
				return fmt.Errorf("output %d is not that of the request sent alone", i)
			}
			continue
		}
		if err := compare(a, b, 0, 1e-4); err != nil {
			return fmt.Errorf("output %d, against the request sent alone: %w", i, err)
		}
	}
	return nil
}

// compare demands b = a + add of tensors of FP32, except for a relative tolerance.
func compare(a, b *client.Tensor, add, tolerance float64) error {
	from, err := client.Values[float32](a)
	if err != nil {
		return err
	}
	to, err := client.Values[float32](b)
	if err != nil {
		return err
	}
	if len(from) != len(to) {
		return fmt.Errorf("%d values, want %d", len(to), len(from))
	}
	for i := range to {
		want := float64(from[i] + float32(add))
		if got := float64(to[i]); !(math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))) {
			return fmt.Errorf("element %d is %v, want %v", i, got, want)
		}
	}
	return nil
}
