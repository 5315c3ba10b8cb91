"""The part of NVIDIA's cuda.bindings that the CUDA shared memory of tritonclient needs.

It calls the libcuda.so.1 of the tests (engine/device/cuda/testdata/cuda.c). NVIDIA's own package needs driver functions
which that library does not have."""
