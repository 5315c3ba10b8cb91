"""Graphs of OneFlow, run by the installed oneflow on the CPU. The folder is what flow.save(graph, folder) writes, and what
OneFlow Serving serves: model.mlir, and a folder with the values of each variable.

Inputs are named INPUT_<i> and outputs OUTPUT_<i>, by their places in the graph's build(). A graph has fixed shapes. With
max_batch_size, its first dimension is replaced by the number of rows: a graph is compiled once for each number of rows."""

import os

import numpy as np
import oneflow as flow
from oneflow._oneflow_internal import eager
from oneflow._oneflow_internal.nn import graph as internal
from oneflow.core.job import job_pb2
from oneflow.framework import dtype, graph_build_util, scope_util, session_context
from oneflow.framework.tensor_tuple_util import convert_to_tensor_tuple

import triton_python_backend_utils as pb
from _nereid_framework import Framework


class TritonPythonModel(Framework):
    """A saved graph."""

    FILES = ("model",)

    def initialize(self, args):
        if args.get("model_instance_kind") == "GPU":
            raise pb.TritonModelException("OneFlow's graphs are computed on the CPU here; use KIND_CPU")
        super().initialize(args)

    def load(self, path):
        self._saved = _Saved(path)
        self._check("INPUT", self.inputs, self._saved.inputs)
        self._check("OUTPUT", self.outputs, self._saved.outputs)
        if len(self.inputs) != len(self._saved.inputs):
            raise pb.TritonModelException(
                "the configuration has %d inputs, the graph has %d" % (len(self.inputs), len(self._saved.inputs))
            )
        self._compiled = {}  # by the number of rows
        self._graph(1 if self.batches else None)

    def _check(self, kind, listed, tensors):
        """Compares the tensors of the configuration with those of the graph."""
        known = {"%s_%d" % (kind, i): t for i, t in enumerate(tensors)}
        for entry in listed:
            name, dims = entry["name"], [int(d) for d in entry["dims"]]
            if name not in known:
                raise pb.TritonModelException("'%s' is not in the graph, which has %s" % (name, ", ".join(known)))
            t = known[name]
            shape = t.shape[1:] if self.batches else t.shape
            if dims != shape or pb.triton_string_to_numpy(entry["data_type"]) != t.type:
                raise pb.TritonModelException(
                    "'%s' of the configuration is %s %s, and in the graph it is %s %s%s"
                    % (name, entry["data_type"], dims, t.type.__name__, shape, " a row" if self.batches else "")
                )

    def _graph(self, rows):
        if rows not in self._compiled:
            self._compiled[rows] = _Compiled(self._saved, rows)
        return self._compiled[rows]

    def run(self, inputs, wanted):
        arrays = [inputs["INPUT_%d" % i] for i in range(len(self._saved.inputs))]
        outputs = self._graph(len(arrays[0]) if self.batches else None)(arrays)
        return {name: outputs[int(name[len("OUTPUT_"):])] for name in wanted}


class _Tensor:
    """An input, an output or a variable of a graph."""

    def __init__(self, operator, shape, proto_type):
        self.operator = operator  # its name
        self.shape = [int(d) for d in shape]
        self.flow_type = dtype.convert_proto_dtype_to_oneflow_dtype(proto_type)
        self.type = dtype.convert_oneflow_dtype_to_numpy_dtype(self.flow_type)

    def place(self):
        """Sorts the inputs, and the outputs: their operators' names end in numbers in the order of build()."""
        number = self.operator.rsplit("_", 1)[-1]
        return int(number) if number.isdigit() else 0

    def empty(self, rows):
        return flow.zeros(*(self.shape if rows is None else [rows] + self.shape[1:]), dtype=self.flow_type)


class _Saved:
    """What is in a folder that flow.save has written: a job and the values of its variables."""

    def __init__(self, folder):
        self.job = job_pb2.Job()
        file = os.path.join(folder, "model.mlir")
        if not os.path.isfile(file):  # OneFlow's library exits then, as for a damaged file
            raise pb.TritonModelException("no model file: %s, which flow.save writes for a graph" % file)
        self.job.ParseFromString(internal.LoadSerializedJobFromIR(file))
        self.inputs, self.outputs, variables = [], [], []
        for op in self.job.net.op:
            op.device_tag = "cpu"
            if op.HasField("variable_conf"):
                variables.append(_Tensor(op.name, op.variable_conf.shape.dim, op.variable_conf.data_type))
            for kind, tensors in (("input_conf", self.inputs), ("output_conf", self.outputs)):
                if op.HasField(kind):
                    blob = getattr(op, kind).blob_conf
                    tensors.append(_Tensor(op.name, blob.shape.dim, blob.data_type))
        for group in self.job.placement.placement_group:
            group.parallel_conf.device_tag = "cpu"
        self.inputs.sort(key=_Tensor.place)
        self.outputs.sort(key=_Tensor.place)
        self.names = [v.operator for v in variables]
        values = [np.fromfile(os.path.join(folder, v.operator, "out"), v.type).reshape(v.shape) for v in variables]
        self.variables = convert_to_tensor_tuple([flow.tensor(v) for v in values])


class _Compiled:
    """A graph for inputs of a number of rows; None: as it was saved."""

    def __init__(self, saved, rows):
        session = session_context.GetDefaultSession()
        session.TryInit()
        job = job_pb2.Job()
        job.CopyFrom(saved.job)
        job.job_conf.job_name = "%s_rows_%s" % (job.job_conf.job_name, rows)
        job.job_conf.predict_conf.SetInParent()
        scope = graph_build_util._make_new_graph_scope(scope_util.current_scope(), job.job_conf.job_name)
        for op in job.net.op:
            op.scope_symbol_id = scope.symbol_id  # that in the file is of the process that saved it
            for kind in ("input_conf", "output_conf"):
                if rows is not None and op.HasField(kind):
                    getattr(op, kind).blob_conf.shape.dim[0] = rows
        self.types = [t.type for t in saved.inputs]
        self.outputs = convert_to_tensor_tuple([t.empty(rows) for t in saved.outputs])
        self.variables = saved.variables
        with graph_build_util.JobBuildAndInferCtx(job.job_conf):
            number = flow._oneflow_internal.JobBuildAndInferCtx_GetCurrentJobId()
            self.graph = internal.CNNGraph(
                job.job_conf.job_name, job.SerializeToString(), number, session._session_ctx
            )
            self.graph.register_input_op_names_and_tensors(
                [t.operator for t in saved.inputs], convert_to_tensor_tuple([t.empty(rows) for t in saved.inputs])
            )
            self.graph.register_output_op_names_and_tensors([t.operator for t in saved.outputs], self.outputs)
            self.graph.register_variable_op_names_and_tensors(saved.names, saved.variables)
            eager.Sync()  # the variables are there
            self.graph.complie_and_init_runtime()

    def __call__(self, arrays):
        tensors = [flow.tensor(np.ascontiguousarray(a, t)) for a, t in zip(arrays, self.types)]
        internal.RunLazyNNGraph(convert_to_tensor_tuple(tensors), self.outputs, self.variables, self.graph)
        internal.SoftSyncNNGraphBuffers(self.outputs, self.graph)
        return [o.numpy() for o in self.outputs]
