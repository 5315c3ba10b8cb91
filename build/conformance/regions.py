"""Helpers for the tests of system and CUDA shared memory: the client, and tensors in regions."""

from contextlib import contextmanager

import tritonclient.grpc as tg
import tritonclient.http as th

MODULES = {"http": th, "grpc": tg}


@contextmanager
def connected(server, protocol):
    """A client of the server. Its attribute module is the client's module."""
    module = MODULES[protocol]
    with module.InferenceServerClient(getattr(server, protocol)) as c:
        c.module = module
        yield c


def shared_input(module, region, size, shape, datatype, name="INPUT0", offset=0):
    i = module.InferInput(name, list(shape), datatype)
    i.set_shared_memory(region.name, size, offset)
    return i


def shared_output(module, region, size, name="OUTPUT0", offset=0):
    o = module.InferRequestedOutput(name) if module is tg else module.InferRequestedOutput(name, binary_data=False)
    o.set_shared_memory(region.name, size, offset)
    return o
