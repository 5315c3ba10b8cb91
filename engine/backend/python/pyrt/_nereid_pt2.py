"""PyTorch's `.pt2` packages: exported programs, and programs that AOT Inductor has compiled.

Both take a flat list of tensors and return one. The names of inputs and outputs follow Triton's PyTorch backend for
packages. A name is the path of a tensor in the arguments or the result of forward(): `ARGS[0]`, `KWARGS[mask]`,
`RESULT` for a single tensor, and `RESULT[0]`, `RESULT[scores]`, `ARGS[0][image]` for a tensor in a structure. Or it is
`<name>__<index>`, with the index in the flat list."""

import itertools
import json
import os
import re
import shutil
import zipfile

import torch
from torch.utils import _pytree

import triton_python_backend_utils as pb

_TOO_SMALL = re.compile(
    r"input_handles\[(\d+)\]: dim value is too small at (\d+), expected it to be >= 2, but got: 1\b"
)
_MOST_SHAPES = 4096
_CHECKS = "AOTI_RUNTIME_CHECK_INPUTS"


def load(path, device):
    """Returns a function of tensors, the names of its inputs and those of its outputs, in order."""
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
    """A compiled package that checks the sizes and types of its inputs. Without the check, it would read beyond the
    end of a tensor that is too small.

    The compiler assumes that a variable size is at least 2. So the check refuses a size of 1, although the code is
    correct for it, as PyTorch documents for exported programs. For such inputs, the check runs once for each set of
    shapes with another size in place of 1. A second copy of the package, without the check, executes them."""

    def __init__(self, path, device):
        self._path, self._device = path, device
        os.environ[_CHECKS] = "1"  # a package reads it only in its first run
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
            if self._unchecked is None:  # the other copy has run, so the variable can change
                os.environ[_CHECKS] = "0"
                self._unchecked = _open(self._path, self._device)
        return self._unchecked.loader.run(list(tensors))

    def _compare(self, tensors, problem):
        """Raises problem if the inputs are wrong. It returns if only variable sizes of 1 were refused. In their place
        it checks a size that no tensor has, so that the check still finds sizes that must be equal and are not."""
        shapes = [list(t.shape) for t in tensors]
        instead = next(n for n in itertools.count(2) if not any(n in shape for shape in shapes))
        for _ in range(sum(map(len, shapes))):
            found = _TOO_SMALL.search(str(problem))
            if found is None:
                break
            shapes[int(found.group(1))][int(found.group(2))] = instead
            try:
                inputs = [torch.zeros(s, dtype=t.dtype, device=t.device) for s, t in zip(shapes, tensors)]
                self.package.loader.run(inputs)
                return
            except RuntimeError as next_one:
                problem = next_one
        raise problem


def _open(path, device):
    before = _unpacked()
    package = torch._inductor.aoti_load_package(path, device_index=device.index if device.type == "cuda" else -1)
    if device.type == "cpu":  # packages for GPUs read their kernels later
        for folder in _unpacked() - before:
            shutil.rmtree(folder, ignore_errors=True)
    return package


def _unpacked():
    """Returns the folders into which this process has unpacked packages. Their libraries are mapped, so the files
    can be removed at once. Nothing would remove them if the process were killed."""
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
    """Returns the index in the flat list of each name in the configuration. A key of structure may be written
    without it and its brackets: `mask` for `KWARGS[mask]`."""
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
        raise pb.TritonModelException(
            "two %ss of the configuration are the same tensor of the package: %s" % (what, ", ".join(names))
        )
    return found
