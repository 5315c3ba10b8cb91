"""Decorators for functions that nereid.triton binds, with the names and meaning of PyTriton's. They also decorate
methods. Requests are the last positional argument; after @batch and @sample, inputs are keyword arguments."""

import contextlib
import functools
import inspect
import threading
from bisect import bisect_left

import numpy as np


class PyTritonError(Exception):
    pass


class PyTritonValidationError(PyTritonError):
    pass


class PyTritonBadParameterError(PyTritonError):
    pass


class PyTritonRuntimeError(PyTritonError):
    pass


class ModelConfigs(dict):
    """The bound models by their functions, decorated or not."""

    def _key(self, function):
        return inspect.unwrap(getattr(function, "__func__", function))

    def __getitem__(self, function):
        return super().__getitem__(self._key(function))

    def __setitem__(self, function, model):
        super().__setitem__(self._key(function), model)


class TritonContext:
    """What @triton_context passes to a function. model_config is the model that it serves."""

    def __init__(self):
        self.model_configs = ModelConfigs()

    @property
    def model_config(self):
        return _model()


_thread = threading.local()


@contextlib.contextmanager
def current(model, context):
    """Says which model the functions of this thread serve."""
    _thread.model, _thread.context = model, context
    try:
        yield
    finally:
        _thread.model = _thread.context = None


def _model():
    model = getattr(_thread, "model", None)
    if model is None:
        raise PyTritonValidationError("the function must be bound with Triton.bind, and called by it")
    return model


def _outputs(result):
    """Returns a dict of outputs. A list or tuple has them in the order in which they were bound."""
    if isinstance(result, dict):
        return result
    if not isinstance(result, (list, tuple)):
        raise PyTritonValidationError("a function returns a dict, list or tuple of outputs, not a %s" % type(result))
    names = [t.name for t in _model().outputs]
    if len(names) != len(result):
        raise PyTritonValidationError("the function returned %d outputs, and %d were bound" % (len(result), len(names)))
    return dict(zip(names, result))


def _rows(inputs):
    """Returns the batch size of inputs by name."""
    return next(iter(inputs.values())).shape[0]


def sample(function):
    """Passes the inputs of one request as keyword arguments, for models that do not batch."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        *before, requests = args
        result = function(*before, **kwargs, **requests[0])
        if inspect.isgenerator(result):
            return ([_outputs(part)] for part in result)
        return [_outputs(result)]

    return wrapper


def batch(function):
    """Passes the inputs of all requests together as keyword arguments, and splits the outputs by requests."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        *before, requests = args
        names = requests[0].keys()
        if any(r.keys() != names for r in requests):
            raise PyTritonValidationError("@batch needs requests with the same inputs; put @group_by_keys before it")
        ends = np.cumsum([_rows(r) for r in requests])
        result = function(*before, **kwargs, **{n: np.concatenate([r[n] for r in requests]) for n in names})
        if inspect.isgenerator(result):
            return (_split(_outputs(part), ends) for part in result)
        return _split(_outputs(result), ends)

    return wrapper


def _split(outputs, ends):
    for name, array in outputs.items():
        if array.shape[0] != ends[-1]:
            raise ValueError("the output %s has %d rows, and the inputs have %d" % (name, array.shape[0], ends[-1]))
    parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
    return [{name: parts[name][i] for name in outputs} for i in range(len(ends))]


def group_by_keys(function):
    """Calls the function once for each set of input names."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        *before, requests = args
        groups = {}
        for i, request in enumerate(requests):
            groups.setdefault(tuple(sorted(request)), []).append(i)
        results = [None] * len(requests)
        for indices in groups.values():
            for i, result in zip(indices, function(*before, [requests[i] for i in indices], **kwargs)):
                results[i] = result
        return results

    return wrapper


def group_by_values(*keys, pad_fn=None):
    """Calls the function once for each combination of values of these inputs. It comes after @batch. pad_fn gets the
    list of results, and returns it with equal shapes."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            inputs, rest = _inputs(kwargs)
            if not inputs:
                raise PyTritonRuntimeError("@group_by_values must come after @batch")
            groups = {}
            for row in range(_rows(inputs)):
                groups.setdefault(tuple(_key(inputs[k][row]) for k in keys), []).append(row)
            order = [groups[k] for k in sorted(groups)]
            results = [_outputs(function(*args, **rest, **{n: a[rows] for n, a in inputs.items()})) for rows in order]
            if pad_fn is not None:
                results = pad_fn(results)
            merged = {n: np.zeros((_rows(inputs), *a.shape[1:]), a.dtype) for n, a in results[0].items()}
            for rows, result in zip(order, results):
                for name, array in result.items():
                    merged[name][rows] = array
            return merged

        return wrapper

    return decorate


def _key(value):
    value = np.asarray(value)
    return repr(value.tolist()).encode() if value.dtype == object else value.tobytes()


def _inputs(kwargs):
    """Separates inputs from the context."""
    rest = {n: v for n, v in kwargs.items() if n == "triton_context"}
    return {n: v for n, v in kwargs.items() if n not in rest}, rest


class ConstantPadder:
    """Fills results of @group_by_values with a value, so that all have the largest shape."""

    def __init__(self, pad_value=0):
        self.pad_value = pad_value

    def __call__(self, results):
        padded = [{} for _ in results]
        for name in results[0]:
            arrays = [r[name] for r in results]
            shape = np.max([a.shape[1:] for a in arrays], axis=0) if arrays[0].ndim > 1 else ()
            for made, array in zip(padded, arrays):
                widths = [(0, 0), *((0, int(to) - n) for to, n in zip(shape, array.shape[1:]))]
                made[name] = np.pad(array, widths, constant_values=self.pad_value)
        return padded


def fill_optionals(**defaults):
    """Adds inputs that a request does not have. A default is an array without the batch dimension."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            model, requests = _model(), args[-1]
            _check_defaults(model, defaults)
            for request in requests:
                rows = _rows(request) if model.batching else 0
                for name, value in defaults.items():
                    if name not in request:
                        request[name] = np.repeat(value[np.newaxis], rows, 0) if model.batching else value
            return function(*args, **kwargs)

        return wrapper

    return decorate


def _check_defaults(model, defaults):
    inputs = {t.name: t for t in model.inputs}
    for name, value in defaults.items():
        if name not in inputs:
            raise PyTritonBadParameterError("@fill_optionals has a default for %s, which is no input" % name)
        if not isinstance(value, np.ndarray):
            raise PyTritonBadParameterError("the default of %s must be an array of numpy" % name)
        dtype, shape = np.dtype(inputs[name].dtype), inputs[name].shape
        fits = len(shape) == value.ndim and all(e in (-1, h) for h, e in zip(value.shape, shape))
        if value.dtype != dtype or not fits:
            raise PyTritonBadParameterError("the default of %s must have the type %s and the shape %s, not %s and %s" %
                                            (name, dtype, shape, value.dtype, value.shape))


def pad_batch(function):
    """Repeats the last row until the batch has a preferred size, or the largest one, and drops the outputs of these.
    It comes after @batch."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        inputs, rest = _inputs(kwargs)
        model, rows = _model(), _rows(inputs)
        sizes = sorted((model.batcher and model.batcher.preferred_batch_size) or []) + [model.max_batch_size]
        more = sizes[bisect_left(sizes, rows)] - rows
        padded = {n: np.concatenate([a, np.repeat(a[-1:], more, 0)]) for n, a in inputs.items()}
        result = function(*args, **rest, **padded)
        if inspect.isgenerator(result):
            return ({n: a[:rows] for n, a in _outputs(part).items()} for part in result)
        return {n: a[:rows] for n, a in _outputs(result).items()}

    return wrapper


def first_value(*keys, squeeze_single_values=True, strict=True):
    """Replaces inputs by their first row, as a scalar if that has one value. strict: all rows must be equal."""

    def first(inputs):
        for name in keys:
            if name not in inputs:
                continue
            values = inputs[name]
            if strict and any(not np.array_equal(values[0], row) for row in values[1:]):
                raise PyTritonRuntimeError(
                    "the values of %s differ: %r. @first_value(..., strict=False) takes the first one" % (name, values))
            value = values[0]
            if squeeze_single_values and np.size(value) == 1:
                value = np.asarray(value).reshape(())[()]
            inputs[name] = value
        return inputs

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if not _model().batching:
                raise PyTritonRuntimeError("@first_value is for models that batch")
            if _inputs(kwargs)[0]:
                return function(*args, **first(kwargs))
            return function(*args[:-1], [first(r) for r in args[-1]], **kwargs)

        return wrapper

    return decorate


def triton_context(function):
    """Passes the context as the keyword argument triton_context."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        _model()
        return function(*args, triton_context=_thread.context, **kwargs)

    return wrapper
