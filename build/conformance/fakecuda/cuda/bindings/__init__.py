"""As much of NVIDIA's cuda.bindings as tritonclient's CUDA shared memory needs, over the calls of libcuda.so.1 that the
tests' driver has (engine/device/cuda/testdata/cuda.c). NVIDIA's own package needs more of a driver than that."""
