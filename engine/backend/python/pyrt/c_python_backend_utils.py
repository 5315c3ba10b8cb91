"""The original's C module behind triton_python_backend_utils. Some models and tests import its names from here."""

import triton_python_backend_utils as _pb
from triton_python_backend_utils import (  # noqa: F401
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    InferenceTrace,
    Logger,
    Metric,
    MetricFamily,
    PreferredMemory,
    ResponseIterator,
    Tensor,
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    TritonError,
    TritonModelException,
    is_model_ready,
    load_model,
    unload_model,
)


class SharedMemory:
    """The memory that this process shares with the server."""

    def free_memory(self):
        """Returns the number of bytes that are not in use."""
        return _pb._need_runtime("free_memory").free_memory()


shared_memory = SharedMemory()
