package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// The outputs of a response lie where the request asked for them, also over HTTP, whose answer does not repeat it.
func TestOutputsInSharedMemory(t *testing.T) {
	for protocol, c := range both(t) {
		t.Run(protocol, func(t *testing.T) {
			name := fmt.Sprintf("nereid-client-test-%d-%s", os.Getpid(), protocol)
			path := filepath.Join("/dev/shm", name)
			if err := os.WriteFile(path, []byte{1, 2, 3, 4, 0, 0, 0, 0}, 0o600); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(path)
			if err := c.RegisterMemory(t.Context(), name, "/"+name, 0, 8); err != nil {
				t.Fatal(err)
			}
			r, err := c.Infer(t.Context(), &client.Request{Model: "identity_INT8",
				Inputs: []client.Tensor{{Name: "INPUT0", DataType: tensor.Int8, Shape: []int64{4},
					Memory: &client.Memory{Region: name, ByteSize: 4}}},
				Outputs: []client.Output{{Name: "OUTPUT0",
					Memory: &client.Memory{Region: name, Offset: 4, ByteSize: 4}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			out := r.Output("OUTPUT0")
			if out == nil || out.Memory == nil || out.Memory.Offset != 4 || out.Data != nil {
				t.Errorf("the output is %+v; want one in shared memory at 4", out)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "\x01\x02\x03\x04\x01\x02\x03\x04" {
				t.Errorf("the memory is %v, %v", b, err)
			}
			if err := c.UnregisterMemory(t.Context(), name); err != nil {
				t.Error(err)
			}
		})
	}
}
