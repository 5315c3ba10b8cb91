package onnxruntime_test

import (
	"os"
	"os/exec"
	"testing"

	"nereid/engine/backend/backendtest"
	"nereid/engine/tensor"
)

// TestStringOutputsUseNoFreedMemory runs models of strings in a process in which the C library overwrites freed memory.
func TestStringOutputsUseNoFreedMemory(t *testing.T) {
	b := open(t)
	if os.Getenv("MALLOC_PERTURB_") != "" {
		backendtest.Test(t, b, identityModel(t, "identity_bytes", tensor.Bytes, 4),
			identityModel(t, "identity_bytes", tensor.Bytes, 500))
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.short")
	again.Env = append(os.Environ(), "MALLOC_PERTURB_=165", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
