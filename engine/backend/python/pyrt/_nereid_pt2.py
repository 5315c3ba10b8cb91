"""PyTorch's `.pt2` packages: exported programs, and what AOT Inductor has compiled of them.

Both are called with a flat list of tensors and return one. The names of inputs and outputs follow Triton's PyTorch
backend for packages: the path of a tensor in what forward() takes and returns, as `ARGS[0]`, `KWARGS[mask]`,
`RESULT` for a single tensor and `RESULT[0]`, `RESULT[scores]`, `ARGS[0][image]` for what lies in structures; or
`<name>__<index>` by its place in the flat list."""

import itertools
import json
import os
import re
import shutil
import zipfile

import torch
from torch.utils import _pytree

import triton_python_backend_utils as pb

_TOO_SMALL = re.compile(r"input_handles\[(\d+)\]: dim value is too small at (\d+), expected it to be >= 2, but got: 1\b")
_MOST_SHAPES = 4096
_CHECKS = "AOTI_RUNTIME_CHECK_INPUTS"


def load(path, device):
    """Returns a function of tensors, and the names of its inputs and outputs in order."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as package:
            if any("/data/aotinductor/" in "/" + name for name in package.namelist()):
                return _compiled(path, device)
    return _exported(path, device)


def _exported(path, device):
    program = torch.export.load(path)
    spec = program.call_spec
    module = program.module().to(device)

    def run(*tensors):
        args, kwargs = _pytree.tree_unflatten(list(tensors), spec.in_spec)
        return _pytree.tree_leaves(module(*args, **kwargs))

    return (run, *_names(_pytree.treespec_dumps(spec.in_spec), _pytree.treespec_dumps(spec.out_spec)))


def _compiled(path, device):
    checked = _Checked(path, device)
    return (checked, *_names(*checked.package.loader.get_call_spec()))


class _Checked:
    """A compiled package that compares sizes and types with those it was compiled for: without, it reads whatever
    lies behind a tensor that is too small.

    Where a size is variable, the compiler takes it to be 2 at least, and the comparison insists on it although the
    code is right for 1, as PyTorch says of exported programs. Such sizes are compared as others, once for each set
    of shapes, and run by a second copy, which does not compare."""

    def __init__(self, path, device):
        self._path, self._device = path, device
        os.environ[_CHECKS] = "1"  # a package looks at it when it runs for the first time, and never again
        self.package = _open(path, device)
        self._unchecked = None
        self._known = set()

    def __call__(self, *tensors):
        key = tuple((t.shape, t.dtype) for t in tensors)
        if key not in self._known:
            try:
                return self.package.loader.run(list(tensors))
            except RuntimeError as problem:
                self._compare(tensors, problem)
            if len(self._known) < _MOST_SHAPES:
                self._known.add(key)
            if self._unchecked is None:  # the other has run
                os.environ[_CHECKS] = "0"
                self._unchecked = _open(self._path, self._device)
        return self._unchecked.loader.run(list(tensors))

    def _compare(self, tensors, problem):
        """Returns if sizes of 1 in place of variable ones are all that is wrong. They are compared as a size that
        no tensor has, so that sizes which must be equal are seen to be."""
        shapes = [list(t.shape) for t in tensors]
        instead = next(n for n in itertools.count(2) if not any(n in shape for shape in shapes))
        for _ in range(sum(map(len, shapes))):
            found = _TOO_SMALL.search(str(problem))
            if found is None:
                break
            shapes[int(found.group(1))][int(found.group(2))] = instead
            try:
                self.package.loader.run([torch.zeros(s, dtype=t.dtype, device=t.device) for s, t in zip(shapes, tensors)])
                return
            except RuntimeError as next_one:
                problem = next_one
        raise problem


def _open(path, device):
    before = _unpacked()
    package = torch._inductor.aoti_load_package(path, device_index=device.index if device.type == "cuda" else -1)
    if device.type == "cpu":  # others read their kernels when they need them
        for folder in _unpacked() - before:
            shutil.rmtree(folder, ignore_errors=True)
    return package


def _unpacked():
    """The folders that packages of this process were unpacked into: it has their libraries open, and nobody else
    removes them when it is killed."""
    with open("/proc/self/maps") as maps:
        return {found.group(1) for found in re.finditer(r"(/tmp/[^/\s]+)/\S*/aotinductor/\S+\.so", maps.read())}


def _names(inputs, outputs):
    args, kwargs = json.loads(inputs)[1]["children_spec"]
    return _leaves(args, "ARGS") + _leaves(kwargs, "KWARGS"), _leaves(json.loads(outputs)[1], "RESULT")


def _leaves(spec, path):
    if spec["type"] is None:
        return [path]
    children = spec["children_spec"]
    keys = range(len(children))
    if spec["type"] in ("builtins.dict", "collections.OrderedDict"):
        keys = json.loads(spec["context"])
    return [name for key, child in zip(keys, children) for name in _leaves(child, "%s[%s]" % (path, key))]


def places(what, names, all_names, structure):
    """By name, the place of each tensor of the configuration in the flat list. What is a key of structure needs no
    brackets."""
    found = {}
    for name in names:
        index = re.fullmatch(r".*__(\d+)", name, re.DOTALL)
        path = next((n for n in (name, "%s[%s]" % (structure, name)) if n in all_names), None)
        if path is not None:
            found[name] = all_names.index(path)
        elif index and int(index.group(1)) < len(all_names):
            found[name] = int(index.group(1))
        else:
            raise pb.TritonModelException(
                "%s '%s' is not in the package, which has %s; or write <name>__<index>, with an index below %d"
                % (what, name, ", ".join(all_names) or "none", len(all_names))
            )
    if len(set(found.values())) < len(found):
        raise pb.TritonModelException("two %ss of the configuration are the same tensor of the package: %s" % (what, ", ".join(names)))
    return found
