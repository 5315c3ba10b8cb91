"""Metrics that the program makes: docs/embed.md."""

import enum
from ctypes import byref, c_double, c_void_p

from ._library import c, check, make


class MetricKind(enum.IntEnum):
    COUNTER = 0
    GAUGE = 1


class MetricFamily:
    """Metrics of one name. They belong to the process: all its servers show them."""

    def __init__(self, kind, name, description):
        self.kind = MetricKind(kind)
        self._pointer = make(c.MetricFamilyNew, int(kind), name.encode(), description.encode())

    def __del__(self):
        if hasattr(self, "_pointer"):
            check(c.MetricFamilyDelete(self._pointer))


class Metric:
    """A value of a family. labels is a dict of texts; metrics of a family with the same labels have one value."""

    def __init__(self, metric_family, labels=None):
        self._family = metric_family  # which must be deleted later
        parameters = [c.ParameterNew(name.encode(), 0, str(value).encode())
                      for name, value in dict(labels or {}).items()]
        try:
            array = (c_void_p * len(parameters))(*parameters)
            self._pointer = make(c.MetricNew, metric_family._pointer, array, len(parameters))
        finally:
            for parameter in parameters:
                c.ParameterDelete(parameter)

    def __del__(self):
        if hasattr(self, "_pointer"):
            check(c.MetricDelete(self._pointer))

    @property
    def kind(self):
        return self._family.kind

    @property
    def value(self):
        found = c_double()
        check(c.MetricValue(self._pointer, byref(found)))
        return found.value

    def increment(self, value):
        check(c.MetricIncrement(self._pointer, value))

    def set_value(self, value):
        check(c.MetricSet(self._pointer, value))
