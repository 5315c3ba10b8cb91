"""A server with a bound function, for the bench: add1 adds 1 to its input.

Usage: bound.py PACKAGE WORKSPACE --http-port=N --grpc-port=N --metrics-port=N [--model-repository=IGNORED]
PACKAGE is nereid or pytriton. All else is the same for both.
"""

import argparse
import importlib
import signal

import numpy as np

options = argparse.ArgumentParser()
options.add_argument("package")
options.add_argument("workspace")
options.add_argument("--model-repository")
for name in ("http", "grpc", "metrics"):
    options.add_argument("--%s-port" % name, type=int)
options = options.parse_args()

decorators, triton = (importlib.import_module("%s.%s" % (options.package, part)) for part in ("decorators", "triton"))
models = triton if options.package == "nereid" else importlib.import_module("pytriton.model_config")


@decorators.batch
def add1(INPUT0):
    return {"OUTPUT0": INPUT0 + 1}


signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the server's other processes too
ports = {"%s_port" % name: getattr(options, "%s_port" % name) for name in ("http", "grpc", "metrics")}
addresses = {"%s_address" % name: "127.0.0.1" for name in ("http", "grpc", "metrics")}
with triton.Triton(config=triton.TritonConfig(**ports, **addresses), workspace=options.workspace) as server:
    server.bind(
        model_name="add1", infer_func=add1,
        inputs=[models.Tensor(name="INPUT0", dtype=np.float32, shape=(16,))],
        outputs=[models.Tensor(name="OUTPUT0", dtype=np.float32, shape=(16,))],
        config=models.ModelConfig(max_batch_size=64))
    server.serve()
