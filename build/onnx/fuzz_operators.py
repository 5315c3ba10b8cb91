"""Looks for operators of ONNX Runtime that end their process because of what a client sends.

    make fuzz-onnx                     60 variants of each of ONNX's node tests
    make fuzz-onnx ONLY=lstm COUNT=500

The models are those of the node tests, with variable dimensions of the same rank. Their inputs get extreme values,
other types and other sizes. Each model runs in a process, whose memory and time are limited. The exit status is 1 if an
operator ends the process, or needs too much memory or time because of a value, and is not known to
engine/backend/onnxruntime/onnxfile/hazards.go.
"""

import collections
import os
import pathlib
import random
import re
import resource
import signal
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

HAZARDS = pathlib.Path(__file__).resolve().parents[2] / "engine/backend/onnxruntime/onnxfile/hazards.go"
INTEGERS = [0, 1, -1, 2, -2, 7, 255, 2**15, 2**31 - 1, -2**31, 2**31, 2**33, 2**40, 2**62, 2**63 - 1, -2**63, 10**9]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf, 1e38, -1e38, 1e300, 1e-45, 2.0**31, 9.3e18, 1e9]
SIZES = [0, 0, 1, 2, 5, 9, 33]
MEMORY = 3 << 30
SECONDS = 2
# These take time in proportion to what is sent, not to a value.
SLOW_ALLOWED = {"AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool", "DeformConv"}


def extreme(dtype, rng):
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(rng.choice(INTEGERS), limits.min), limits.max)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.array(rng.choice(FLOATS)).astype(dtype)
    return rng.choice([True, False]) if dtype.kind == "b" else rng.choice(["", "a", "x" * 1000, "1", "nan"])


def changed(a, rng):
    """A tensor of the same rank with other values or sizes."""
    shape = list(a.shape)
    if rng.random() < 0.4:
        for i in rng.sample(range(len(shape)), rng.randint(0, len(shape))):
            shape[i] = rng.choice(SIZES)
    if np.prod(shape, dtype=object) > 200_000:
        shape = list(a.shape)
    b = np.resize(a, shape).reshape(-1) if a.size else np.zeros(shape, a.dtype).reshape(-1)
    b, few = b.copy(), rng.random() < 0.5
    pair = [np.iinfo(a.dtype).min, -1] if a.dtype.kind == "i" and rng.random() < 0.3 else None
    for i in rng.sample(range(b.size), min(b.size, rng.randint(1, 3))) if few else range(b.size):
        b[i] = rng.choice(pair) if pair else extreme(a.dtype, rng)
    return b.reshape(shape)


def operators(graph, of=None):
    """The types of the operators of a graph and of its inner graphs; of: only of the nodes of this type."""
    found = set()
    for node in graph.node:
        inner = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        here = of in (None, node.op_type)
        found |= {node.op_type} if here else set()
        found |= set().union(*(operators(g, None if here else of) for g in inner))
    return found


class Case:
    """A node test with variable dimensions."""

    def __init__(self, folder):
        self.name = folder.name
        self.model = onnx.load(str(folder / "model.onnx"))
        self.inputs = {}
        for i, value in enumerate(self.model.graph.input):
            a = numpy_helper.to_array(onnx.load_tensor(str(folder / f"test_data_set_0/input_{i}.pb")))
            self.inputs[value.name] = a.astype(object) if a.dtype.kind in "OUS" else a
        for value in [*self.model.graph.input, *self.model.graph.output]:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
        del self.model.graph.value_info[:]

    def variant(self, rng):
        """A model and its inputs."""
        model, feed = self.model, dict(self.inputs)
        names = rng.sample(sorted(feed), min(len(feed), 1 if rng.random() < 0.7 else 2))
        old = feed[names[0]].dtype if names else None
        if names and rng.random() < 0.3 and old != object:  # all inputs of this type get another one
            code = helper.np_dtype_to_tensor_dtype(old)
            new = rng.choice([1, 2, 3, 5, 6, 7, 10, 11, 12, 13])
            model = onnx.ModelProto.FromString(model.SerializeToString())
            for value in [*model.graph.input, *model.graph.output]:
                if value.type.tensor_type.elem_type == code:
                    value.type.tensor_type.elem_type = new
            with np.errstate(all="ignore"):
                feed = {k: a.astype(helper.tensor_dtype_to_np_dtype(new)) if a.dtype == old else a
                        for k, a in feed.items()}
        return model, {k: changed(a, rng) if k in names else a for k, a in feed.items()}


def attempt(case, first, count, pipe):
    """Runs variants in this process. It reports each before it runs it, and those that find no memory."""
    import onnxruntime

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.enable_cpu_mem_arena = 4, 1, False
    for i in range(first, count):
        os.write(pipe, f"{i}\n".encode())
        try:
            model, feed = case.variant(random.Random(f"{case.name} {i}"))
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            session.run(None, feed)
        except Exception as e:  # its exceptions have no common class
            found = re.search(r"while running (\w+) node", str(e))
            if found and "bad_alloc" in str(e):
                os.write(pipe, f"{i} {found[1]}\n".encode())
        signal.setitimer(signal.ITIMER_REAL, 0)


def search(case, count, report):
    """Calls report(operator or None, reason, variant) for each variant that ends the process or finds no memory."""
    at = ends = 0
    while at < count and ends < 5:
        r, w = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(r)
            try:
                attempt(case, at, count, w)
            finally:
                os._exit(0)
        os.close(w)
        with os.fdopen(r) as lines:
            for line in lines:
                number, _, operator = line.strip().partition(" ")
                at = int(number)
                if operator:
                    report(operator, "memory", at)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code >= 0:
            return
        report(None, "time" if -code == signal.SIGALRM else signal.Signals(-code).name, at)
        at, ends = at + 1, ends + 1


def known_operators():
    return set(re.findall(r'"(?:com\.microsoft\.)?(\w+)":', HAZARDS.read_text())) | {"Div", "Mod"}


def main(data, only, count):
    known, found = known_operators(), collections.defaultdict(list)
    folders = [f for f in sorted(pathlib.Path(data).iterdir()) if only in f.name]
    for folder in folders:
        try:
            case = Case(folder)
        except Exception:  # an input is not a tensor, or has a type that numpy lacks
            continue

        def report(operator, reason, variant):
            # An error of an inner operator names the outer one, and an operator may be made of others.
            names = operators(case.model.graph, operator) or operators(case.model.graph)
            slow = reason == "time" and names & SLOW_ALLOWED
            word = "known" if names & known or slow else "NEW"
            text = " ".join(sorted(names))
            found[word, reason, text].append((case.name, variant))
            if word == "NEW":
                print(f"{case.name} variant {variant}: {reason} in {text}", flush=True)

        search(case, count, report)
    for (word, reason, text), cases in sorted(found.items()):
        print(f"{word:6} {reason:8} {text}: {len(cases)}, such as {cases[0][0]} variant {cases[0][1]}")
    print(f"{len(folders)} node tests, {count} variants each")
    return 1 if any(word == "NEW" for word, _, _ in found) or not folders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
