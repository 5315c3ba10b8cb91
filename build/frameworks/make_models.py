"""Writes tiny models of one framework into a repository: `make_models.py pytorch|tensorflow|openvino|fil|oneflow|onnx
FOLDER`.

The interpreter must have the framework installed. Each model's name says what it computes, so tests can check
answers."""

import os
import pathlib
import shutil
import sys
import zipfile

IO = """input [ {{ name: "{0}" data_type: TYPE_FP32 dims: [ 16 ] }}, {{ name: "{1}" data_type: TYPE_FP32 dims: [ 16 ] }} ]
output [ {{ name: "{2}" data_type: TYPE_FP32 dims: [ 16 ] }}, {{ name: "{3}" data_type: TYPE_FP32 dims: [ 16 ] }} ]
"""


def write(folder, config, *versions):
    for version in versions or (1,):
        (folder / str(version)).mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(config)
    return folder


def pytorch(root):
    import torch

    class AddSub(torch.nn.Module):
        def forward(self, a, b):
            return a + b, a - b

    indexed = IO.format("INPUT__0", "INPUT__1", "OUTPUT__0", "OUTPUT__1")
    folder = write(root / "add_sub_pt",
                   'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + indexed + "dynamic_batching {}\n")
    torch.jit.script(AddSub()).save(str(folder / "1" / "model.pt"))

    folder = write(root / "add_sub_named",
                   'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + IO.format("b", "a", "sum__0", "difference__1"))
    torch.jit.script(AddSub()).save(str(folder / "1" / "model.pt"))

    for name, outputs, kind in (
        ("add_sub_ordered", ("SUM", "DIFFERENCE"), "FP32"), ("typed_pt", ("OUTPUT__0", "OUTPUT__1"), "INT32"),
        ("beyond_pt", ("OUTPUT__0", "OUTPUT__2"), "FP32"),
    ):
        given, made = IO.format("LEFT", "RIGHT", *outputs).split("output", 1)
        folder = write(root / name, 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + given + "output"
                       + made.replace("FP32", kind))
        torch.jit.script(AddSub()).save(str(folder / "1" / "model.pt"))

    # Python classes: one without weights and one with weights.
    text = "import torch\n\n\nclass AddSub(torch.nn.Module):\n    def forward(self, a, b):\n        return a + b, a - b\n"
    names = IO.format("A", "B", "SUM", "DIFFERENCE")
    folder = write(root / "add_sub_class", 'backend: "pytorch"\nmax_batch_size: 8\n' + names + "dynamic_batching {}\n")
    (folder / "1" / "model.py").write_text(text)
    folder = write(
        root / "add_sub_weights",
        'backend: "pytorch"\nruntime: "model.py"\nmax_batch_size: 8\nparameters { key: "NUM_THREADS" value { '
        'string_value: "1" } }\n' + names,
    )
    begin = "    def __init__(self):\n        super().__init__()\n        self.scale = torch.nn.Parameter(torch.zeros(1))\n\n    def forward"
    weighted = text.replace("    def forward", begin).replace("a + b, a - b",
                                                              "self.scale * (a + b), self.scale * (a - b)")
    (folder / "1" / "model.py").write_text(weighted)
    torch.save({"scale": torch.ones(1)}, folder / "1" / "model.pt")

    class Texts(torch.nn.Module):
        def forward(self, texts: list[str]) -> list[str]:
            return [t.upper() for t in texts]

    folder = write(
        root / "upper_pt",
        'platform: "pytorch_libtorch"\ninput [ { name: "texts" data_type: TYPE_STRING dims: [ -1 ] } ]\n'
        'output [ { name: "OUTPUT__0" data_type: TYPE_STRING dims: [ -1 ] } ]\n',
    )
    torch.jit.script(Texts()).save(str(folder / "1" / "model.pt"))

    class Half(torch.nn.Module):
        def forward(self, x):
            return x * 2

    folder = write(
        root / "twice_bf16",
        'platform: "pytorch_libtorch"\nmax_batch_size: 4\ninput [ { name: "INPUT__0" data_type: TYPE_BF16 dims: [ 4 ] '
        '} ]\n'
        'output [ { name: "OUTPUT__0" data_type: TYPE_BF16 dims: [ 4 ] } ]\n',
    )
    torch.jit.script(Half()).save(str(folder / "1" / "model.pt"))

    class Resnet(torch.nn.Module):
        """A small block of a residual network. The class that it predicts is the version's number."""

        def __init__(self, version: int):
            super().__init__()
            self.first = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.second = torch.nn.Conv2d(4, 4, 3, padding=1)
            self.head = torch.nn.Linear(4, 10)
            with torch.no_grad():
                self.head.weight.zero_()
                self.head.bias.copy_(torch.nn.functional.one_hot(torch.tensor(version), 10).float())

        def forward(self, x):
            x = torch.relu(self.first(x))
            x = torch.relu(x + self.second(x)).mean(dim=(2, 3))
            return torch.softmax(self.head(x), 1)

    folder = write(
        root / "resnet50_pt",
        'platform: "pytorch_libtorch"\nmax_batch_size: 4\nversion_policy: { all {} }\n'
        'input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] } ]\n'
        'output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 10 ] } ]\n'
        'parameters: { key: "INFERENCE_MODE" value: { string_value: "true" } }\n',
        1, 2, 3,
    )  # fmt: skip
    torch.manual_seed(0)
    for version in (1, 2, 3):
        torch.jit.script(Resnet(version)).save(str(folder / str(version) / "model.pt"))

    folder = write(
        root / "accelerated_pt",
        'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + indexed
        + 'optimization { execution_accelerators { gpu_execution_accelerator: [ { name: "tensorrt" } ] } }\n',
    )
    torch.jit.script(AddSub()).save(str(folder / "1" / "model.pt"))
    # As saved by Torch-TensorRT: the code names a class of its runtime.
    whole = folder / "1" / "model.pt"
    folder = write(root / "torch_tensorrt", 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + indexed)
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(folder / "1" / "model.pt", "w") as after:
        for name in before.namelist():
            text = before.read(name)
            if name.endswith(".py"):
                text = text.replace(b"a: Tensor", b"a: __torch__.torch.classes.tensorrt.Engine")
            after.writestr(name, text)
    if hasattr(torch, "export"):  # since 2.1
        packages(root, AddSub(), indexed)

    folder = write(root / "broken_pt", 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + indexed)
    (folder / "1" / "model.pt").write_bytes(b"not a model")


def packages(root, add_sub, indexed):
    """Writes packages of AOT Inductor, which needs a C++ compiler, and exported programs, some with nested tensors."""
    import torch

    batch, a, b = torch.export.Dim("batch"), torch.zeros(2, 16), torch.zeros(2, 16)
    program = torch.export.export(add_sub, (a, b), dynamic_shapes=({0: batch}, {0: batch}))
    folder = write(
        root / "add_sub_pt2", 'backend: "pytorch"\ndefault_model_filename: "model.pt2"\nmax_batch_size: 8\n' + indexed
    )
    torch.export.save(program, str(folder / "1" / "model.pt2"))

    class Structured(torch.nn.Module):
        def forward(self, pair, *, factor):
            return {"sum": pair["a"] + pair["b"], "parts": [pair["a"] * factor, pair["b"] * factor]}

    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    def tensors(kind, names, dims):
        return "".join("%s { name: \"%s\" data_type: TYPE_FP32 dims: [ %s ] }\n" % (kind, name, dims) for name in names)

    rows = torch.export.Dim("rows")
    a, b, x = (torch.zeros(3, 4) for _ in range(3))  # a shared tensor would become a single input
    structured = torch.export.export(
        Structured(), ({"a": a, "b": b},), {"factor": x},
        dynamic_shapes={"pair": {"a": {0: rows}, "b": {0: rows}}, "factor": {0: rows}}
    )
    paths = tensors("input", ("KWARGS[factor]", "ARGS[0][a]", "ARGS[0][b]"), "-1, 4") + tensors(
        "output", ("RESULT[parts][1]", "RESULT[parts][0]", "RESULT[sum]"), "-1, 4"
    )
    folder = write(root / "structured_pt2", 'platform: "torch_aoti"\n' + paths)
    torch.export.save(structured, str(folder / "1" / "model.pt2"))
    folder = write(root / "single_pt2", 'platform: "torch_aoti"\n' + tensors("input", ["ARGS[0]"], "3, 4")
                   + tensors("output", ["RESULT"], "3, 4"))
    torch.export.save(torch.export.export(Twice(), (x,)), str(folder / "1" / "model.pt2"))

    wrong = write(root / "wrong_path", 'platform: "torch_aoti"\n' + paths.replace("[sum]", "[difference]"))
    torch.export.save(structured, str(wrong / "1" / "model.pt2"))
    hooked = write(root / "hooked_package", 'platform: "torch_aoti"\nparameters { key: "MODEL_INIT_LIBRARY" value { '
                                            'string_value: "x.so" } }\n' + paths)
    torch.export.save(structured, str(hooked / "1" / "model.pt2"))

    if shutil.which(os.environ.get("CXX", "g++")) is None:
        print("no package is compiled: there is no C++ compiler (g++, or the one named by CXX)", file=sys.stderr)
        return
    torch._inductor.config.compile_threads = 1  # compiles in this process
    folder = write(root / "structured_aoti", 'platform: "torch_aoti"\n' + paths)
    torch._inductor.aoti_compile_and_package(structured, package_path=str(folder / "1" / "model.pt2"))
    folder = write(root / "add_sub_aoti",
                   'platform: "torch_aoti"\nmax_batch_size: 8\n' + indexed + "dynamic_batching {}\n")
    torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "1" / "model.pt2"))


def oneflow(root):
    import oneflow as flow

    class AddSub(flow.nn.Module):
        """OneFlow 0.9 may crash if a graph ends within microseconds (docs/backends.md), so this one multiplies for a
        while."""

        def __init__(self):
            super().__init__()
            self.scale = flow.nn.Parameter(flow.ones(1))
            self.work = flow.nn.Parameter(flow.zeros(1024, 1024))

        def forward(self, a, b):
            zero = (self.work @ self.work).sum()
            return self.scale * (a + b) + zero, a - b + zero

    class Graph(flow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = AddSub().eval()

        def build(self, a, b):
            return self.net(a, b)

    names = IO.format("INPUT_0", "INPUT_1", "OUTPUT_0", "OUTPUT_1")
    graph = Graph()
    graph(flow.zeros(2, 16), flow.zeros(2, 16))
    for name, config in {
        "add_sub_oneflow": "max_batch_size: 8\n" + names + "dynamic_batching {}\n",
        "fixed_oneflow": names.replace("[ 16 ]", "[ 2, 16 ]"),  # without a batch dimension: as it was saved
        "unknown_oneflow": "max_batch_size: 8\n" + names.replace("OUTPUT_1", "OUTPUT_2"),
        "shape_oneflow": "max_batch_size: 8\n" + names.replace("[ 16 ]", "[ 8 ]"),
        "broken_oneflow": "max_batch_size: 8\n" + names,
    }.items():
        folder = write(root / name, 'backend: "oneflow"\n' + config)
        flow.save(graph, str(folder / "1" / "model"))
    (root / "broken_oneflow" / "1" / "model" / "model.mlir").write_text("not a model")


def tensorflow(root):
    import tensorflow as tf

    class AddSub(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 16], tf.float32, name="INPUT0"),
                tf.TensorSpec([None, 16], tf.float32, name="INPUT1"),
            ]
        )
        def __call__(self, INPUT0, INPUT1):
            return {"OUTPUT0": INPUT0 + INPUT1, "OUTPUT1": INPUT0 - INPUT1}

    folder = write(root / "add_sub_savedmodel", 'platform: "tensorflow_savedmodel"\n')
    module = AddSub()
    tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"), signatures=module.__call__)
    folder = write(root / "add_sub_serving",
                   'platform: "tensorflow_savedmodel"\ndefault_model_filename: "."\n')  # as TensorFlow Serving has it
    tf.saved_model.save(module, str(folder / "1"), signatures=module.__call__)

    graph = tf.Graph()
    with graph.as_default():
        a = tf.compat.v1.placeholder(tf.float32, [None, 16], name="INPUT0")
        b = tf.compat.v1.placeholder(tf.float32, [None, 16], name="INPUT1")
        tf.identity(a + b, name="OUTPUT0")
        tf.identity(a - b, name="OUTPUT1")
    folder = write(
        root / "add_sub_graphdef",
        'platform: "tensorflow_graphdef"\nmax_batch_size: 8\n' + IO.format("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")
        + "dynamic_batching {}\n",
    )
    (folder / "1" / "model.graphdef").write_bytes(graph.as_graph_def().SerializeToString())

    class Mnist(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 28, 28], tf.float32, name="image")])
        def __call__(self, image):
            return {"brightest": tf.argmax(tf.reduce_mean(image, axis=2), axis=1)}

    folder = write(root / "mnist_savedmodel", 'platform: "tensorflow_savedmodel"\nmax_batch_size: 8\n')
    module = Mnist()
    tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"), signatures=module.__call__)

    class Shout(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def __call__(self, text):
            return {"shouted": tf.strings.upper(text)}

    folder = write(root / "upper_savedmodel", 'platform: "tensorflow_savedmodel"\n')
    module = Shout()
    tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"), signatures=module.__call__)

    types(tf, root)
    others(tf, root)


def types(tf, root):
    """Writes a SavedModel and a graph with one input and one output of each data type."""
    kinds = {
        "BOOL": tf.bool, "UINT8": tf.uint8, "UINT16": tf.uint16, "UINT32": tf.uint32, "UINT64": tf.uint64,
        "INT8": tf.int8,
        "INT16": tf.int16, "INT32": tf.int32, "INT64": tf.int64, "FP16": tf.float16, "FP32": tf.float32,
        "FP64": tf.float64,
        "BF16": tf.bfloat16, "STRING": tf.string,
    }  # fmt: skip

    class Types(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, None], kind, name="in_" + name) for name,
                                      kind in kinds.items()])
        def __call__(self, *values):
            return {"out_" + name: tf.reverse(value, [1]) for name, value in zip(kinds, values)}

    folder = write(root / "types_savedmodel", 'platform: "tensorflow_savedmodel"\nmax_batch_size: 8\n')
    module = Types()
    tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"), signatures=module.__call__)

    graph = tf.Graph()
    with graph.as_default():
        for name, kind in kinds.items():
            tf.identity(tf.compat.v1.placeholder(kind, [None], name="in_" + name), name="out_" + name)
    listed = [
        "%s [ %s ]\n" % (kind, ", ".join('{ name: "%s%s" data_type: TYPE_%s dims: [ -1 ] }' % (prefix, name, name)
                                         for name in kinds))
        for kind, prefix in (("input", "in_"), ("output", "out_"))
    ]
    folder = write(root / "types_graphdef", 'platform: "tensorflow_graphdef"\n' + "".join(listed))
    (folder / "1" / "model.graphdef").write_bytes(graph.as_graph_def().SerializeToString())


def others(tf, root):
    class Two(tf.Module):
        """Two signatures, a scalar, a tensor of any rank, and a product whose inner dimensions must match."""

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def twice(self, x):
            return {"y": x * 2}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def thrice(self, x):
            return {"y": x * 3}

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="n"), tf.TensorSpec(None, tf.float32, name="x")])
        def scaled(self, n, x):
            return {"y": x * tf.cast(n, tf.float32), "n": n + 1}

        @tf.function(input_signature=[tf.TensorSpec([None, None, None], tf.float32, name=name) for name in "ab"])
        def product(self, a, b):
            return {"y": tf.linalg.matmul(a, b)}

    module = Two()
    for name, text in (
        ("signature_default", ""),
        ("signature_named", 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "thrice" } }\n'),
        ("signature_wrong", 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "fourfold" } }\n'),
        ("tag_wrong", 'parameters { key: "TF_GRAPH_TAG" value { string_value: "gpu" } }\n'),
        ("accelerated",
         'optimization { execution_accelerators { gpu_execution_accelerator: [ { name: "tensorrt" } ] } }\n'),
        (
            "threads",
            'parameters { key: "TF_NUM_INTRA_THREADS" value { string_value: "1" } }\nparameters { key: '
            '"TF_NUM_INTER_THREADS" value { string_value: "1" } }\n'
            'parameters { key: "TF_USE_PER_SESSION_THREADS" value { string_value: "on" } }\ninstance_group [ { count: '
            '2 } ]\n',
        ),
    ):
        folder = write(root / name, 'platform: "tensorflow_savedmodel"\nmax_batch_size: 4\n' + text)
        tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"),
                            signatures={"serving_default": module.twice, "thrice": module.thrice})
    folder = write(
        root / "any_rank",
        'platform: "tensorflow_savedmodel"\ninput [ { name: "n" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "x" '
        'data_type: TYPE_FP32 dims: [ -1, -1, 2 ] } ]\n'
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ -1, -1, 2 ] }, { name: "n" data_type: TYPE_INT32 dims: [ 1 '
        '] } ]\n',
    )
    tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"), signatures=module.scaled)
    folder = write(root / "product", 'platform: "tensorflow_savedmodel"\nmax_batch_size: 4\n')
    tf.saved_model.save(module, str(folder / "1" / "model.savedmodel"), signatures=module.product)

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
        ten = tf.compat.v1.get_variable("ten", initializer=tf.constant(10.0), use_resource=False)
        tf.add(x, ten, name="y")
        tf.group(ten.initializer, name="start")
    io = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]\noutput [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
    folder = write(root / "initialized", 'platform: "tensorflow_graphdef"\n' + io
                   + 'parameters { key: "TF_INIT_OPS_FILE" value { string_value: "init_ops.json" } }\n')
    (folder / "1" / "model.graphdef").write_bytes(graph.as_graph_def().SerializeToString())
    (folder / "init_ops.json").write_text('{ "init_ops": ["start"] }')

    broken = write(root / "broken_graphdef", 'platform: "tensorflow_graphdef"\n' + io)
    (broken / "1" / "model.graphdef").write_bytes(b"not a model")
    broken = write(root / "wrong_node", 'platform: "tensorflow_graphdef"\n' + io.replace('"y"', '"z"'))
    (broken / "1" / "model.graphdef").write_bytes(graph.as_graph_def().SerializeToString())
    broken = write(root / "broken_savedmodel", 'platform: "tensorflow_savedmodel"\n')
    whole = (root / "product" / "1" / "model.savedmodel" / "saved_model.pb").read_bytes()
    (broken / "1" / "model.savedmodel").mkdir()
    (broken / "1" / "model.savedmodel" / "saved_model.pb").write_bytes(whole[: len(whole) // 2])


def openvino(root):
    import openvino as ov
    import openvino.opset13 as ops

    def save(folder, inputs, results):
        """Saves a model. inputs and results are given by name."""
        for name, node in list(inputs.items()) + list(results.items()):
            node.output(0).get_tensor().set_names({name})
        model = ov.Model([ops.result(node) for node in results.values()], list(inputs.values()), folder.name)
        ov.save_model(model, str(folder / "1" / "model.xml"), compress_to_fp16=False)

    a, b = ops.parameter([-1, 16], ov.Type.f32), ops.parameter([-1, 16], ov.Type.f32)
    folder = write(root / "add_sub_openvino", 'backend: "openvino"\n')
    save(folder, {"INPUT0": a, "INPUT1": b}, {"OUTPUT0": ops.add(a, b), "OUTPUT1": ops.subtract(a, b)})

    kinds = {
        "BOOL": ov.Type.boolean, "UINT8": ov.Type.u8, "UINT16": ov.Type.u16, "UINT32": ov.Type.u32,
        "UINT64": ov.Type.u64,
        "INT8": ov.Type.i8, "INT16": ov.Type.i16, "INT32": ov.Type.i32, "INT64": ov.Type.i64, "FP16": ov.Type.f16,
        "FP32": ov.Type.f32, "FP64": ov.Type.f64, "BF16": ov.Type.bf16,
    }  # fmt: skip
    inputs = {"in_" + name: ops.parameter([-1, -1], kind) for name, kind in kinds.items()}
    outputs = {"out_" + name: ops.transpose(ops.transpose(inputs["in_" + name], ops.constant([1, 0])),
                                            ops.constant([1, 0])) for name in kinds}
    folder = write(root / "types_openvino", 'backend: "openvino"\nmax_batch_size: 8\n')
    save(folder, inputs, outputs)

    x = ops.parameter([-1], ov.Type.string)
    folder = write(
        root / "texts_openvino",
        'backend: "openvino"\ninput [ { name: "text" data_type: TYPE_STRING dims: [ -1 ] } ]\noutput [ { name: "same" '
        'data_type: TYPE_STRING dims: [ -1 ] } ]\n',
    )
    save(folder, {"text": x}, {"same": ops.concat([x, x], 0)})

    def fixed(name, text):
        x = ops.parameter([4, 3], ov.Type.f32)
        save(write(root / name, 'backend: "openvino"\nmax_batch_size: 4\n' + text), {"x": x},
             {"y": ops.multiply(x, ops.constant([[2.0]], ov.Type.f32))})

    yes = 'parameters { key: "%s" value { string_value: "YES" } }\n'
    fixed("batch_reshaped", "")
    fixed("batch_padded", yes % "ENABLE_BATCH_PADDING")
    fixed("batch_exact", yes % "SKIP_OV_DYNAMIC_BATCHSIZE")

    x = ops.parameter([1, 3, 8, 8], ov.Type.f32)
    folder = write(
        root / "reshaped_layers",
        'backend: "openvino"\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ 1, 3, 4, 4 ] } ]\noutput [ { name: "y" '
        'data_type: TYPE_FP32 dims: [ 1, 3, 1, 1 ] } ]\n'
        + yes % "RESHAPE_IO_LAYERS",
    )
    save(folder, {"x": x}, {"y": ops.reduce_max(x, ops.constant([2, 3]), True)})

    x = ops.parameter([-1, 4], ov.Type.f32)
    folder = write(
        root / "tuned_openvino",
        'backend: "openvino"\nmax_batch_size: 8\ninstance_group [ { count: 2 } ]\n'
        + "".join(
            'parameters { key: "%s" value { string_value: "%s" } }\n' % pair
            for pair in {
                "PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": "1", "COMPILATION_NUM_THREADS": "1",
                "NUM_STREAMS": "1",
                "HINT_BF16": "NO", "TARGET_DEVICE": "CPU",
            }.items()
        ),  # fmt: skip
    )
    save(folder, {"x": x}, {"y": ops.multiply(x, x)})
    folder = write(root / "no_device", 'backend: "openvino"\nmax_batch_size: 8\nparameters { key: "TARGET_DEVICE" '
                                       'value { string_value: "TOASTER" } }\n')
    save(folder, {"x": x}, {"y": ops.multiply(x, x)})
    broken = write(root / "broken_openvino", 'backend: "openvino"\n')
    (broken / "1" / "model.xml").write_text("<net>")


def fil(root):
    import treelite
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    def forest(postprocessor, task):
        """One tree: 2 if the second of three features is at least 2, else -1."""
        b = ModelBuilder(
            threshold_type="float32", leaf_output_type="float32",
            metadata=Metadata(num_feature=3, task_type=task, average_tree_output=False, num_target=1, num_class=[1],
                              leaf_vector_shape=(1, 1)),
            tree_annotation=TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
            postprocessor=PostProcessorFunc(name=postprocessor), base_scores=[0.0],
        )  # fmt: skip
        b.start_tree()
        b.start_node(0)
        b.numerical_test(feature_id=1, threshold=2.0, default_left=True, opname="<", left_child_key=1,
                         right_child_key=2)
        b.end_node()
        for key, value in ((1, -1.0), (2, 2.0)):
            b.start_node(key)
            b.leaf(value)
            b.end_node()
        b.end_tree()
        return b.commit()

    given = "".join('parameters { key: "%s" value { string_value: "%s" } }\n' % pair
                    for pair in (("model_type", "treelite_checkpoint"), ("algo", "NAIVE")))
    listed = (
        'backend: "fil"\nmax_batch_size: 1024\ninput [ { name: "input__0" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
        'output [ { name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] } ]\ndynamic_batching {}\n'
    )
    for name, postprocessor, task, more in (
        ("forest_regression", "identity", "kRegressor", {}),
        ("forest_classes", "sigmoid", "kBinaryClf", {"output_class": "true", "threshold": "0.9"}),
        ("forest_scores", "sigmoid", "kBinaryClf", {"is_classifier": "true", "predict_proba": "true"}),
        ("forest_both", "sigmoid", "kBinaryClf", {"is_classifier": "true", "predict_proba": "true"}),
    ):
        text = given + "".join('parameters { key: "%s" value { string_value: "%s" } }\n' % pair
                               for pair in more.items())
        config = listed + text
        if name == "forest_both":
            config = config.replace("dims: [ 1 ]", "dims: [ 2 ]")
        forest(postprocessor, task).serialize(str(write(root / name, config) / "1" / "checkpoint.tl"))

    folder = write(root / "forest_lightgbm",
                   'backend: "fil"\nparameters { key: "model_type" value { string_value: "lightgbm" } }\n')
    tree = (
        "Tree={0}\nnum_leaves=2\nnum_cat=0\nsplit_feature=0\nsplit_gain=1\nthreshold={1}\ndecision_type=2\nleft_child=-1\nright_child=-2\n"
        "leaf_value={0} {2}\nleaf_weight=1 1\nleaf_count=1 "
        "1\ninternal_value=0\ninternal_weight=0\ninternal_count=2\nis_linear=0\nshrinkage=1\n\n\n"
    )
    (folder / "1" / "model.txt").write_text(
        "tree\nversion=v4\nnum_class=3\nnum_tree_per_iteration=3\nlabel_index=0\nmax_feature_idx=1\nobjective=multiclass num_class:3\n"
        "feature_names=a b\nfeature_infos=[0:10] [0:10]\ntree_sizes=300 300 300\n\n"
        + "".join(tree.format(i, 3 * (i + 1), 3 - i) for i in range(3))
        + "end of trees\n\nfeature_importances:\na=3\n\nparameters:\nend of parameters\n"
    )

    folder = write(root / "forest_xgboost", 'backend: "fil"\nmax_batch_size: 64\nparameters { key: "model_type" value '
                                            '{ string_value: "xgboost_json" } }\n')
    (folder / "1" / "xgboost.json").write_text(XGBOOST)
    broken = write(root / "broken_forest",
                   'backend: "fil"\nparameters { key: "model_type" value { string_value: "lightgbm" } }\n')
    (broken / "1" / "model.txt").write_text("no trees")
    broken = write(root / "pair_forest", listed.replace("dims: [ 1 ]", "dims: [ 2 ]") + given)
    forest("sigmoid", "kBinaryClf").serialize(str(broken / "1" / "checkpoint.tl"))
    broken = write(root / "wrong_forest", listed.replace("dims: [ 3 ]", "dims: [ 4 ]") + given)
    forest("identity", "kRegressor").serialize(str(broken / "1" / "checkpoint.tl"))


# A regression in the format of XGBoost: 10 if the first of two features is at least 1, else 5, plus the base score 1.
XGBOOST = """{"learner": {"attributes": {}, "feature_names": [], "feature_types": [], "gradient_booster": {"model": {"gbtree_model_param":
{"num_parallel_tree": "1", "num_trees": "1"}, "tree_info": [0], "trees": [{"base_weights": [0.0, 5.0, 10.0], "categories": [],
"categories_nodes": [], "categories_segments": [], "categories_sizes": [], "default_left": [0, 0, 0], "id": 0, "left_children": [1, -1, -1],
"loss_changes": [1.0, 0.0, 0.0], "parents": [2147483647, 0, 0], "right_children": [2, -1, -1], "split_conditions": [1.0, 5.0, 10.0],
"split_indices": [0, 0, 0], "split_type": [0, 0, 0], "sum_hessian": [2.0, 1.0, 1.0], "tree_param": {"num_deleted": "0", "num_feature": "2",
"num_nodes": "3", "size_leaf_vector": "1"}}]}, "name": "gbtree"}, "learner_model_param": {"base_score": "1E0", "boost_from_average": "1",
"num_class": "0", "num_feature": "2", "num_target": "1"}, "objective": {"name": "reg:squarederror", "reg_loss_param":
{"scale_pos_weight": "1"}}}, "version": [2, 1, 0]}"""


def onnx(root):
    from onnx import TensorProto, helper, save

    image = helper.make_tensor_value_info("data_0", TensorProto.FLOAT, ["batch", 3, 8, 8])
    result = helper.make_tensor_value_info("fc6_1", TensorProto.FLOAT, ["batch", 3, 1, 1])
    graph = helper.make_graph([helper.make_node("GlobalMaxPool", ["data_0"], ["fc6_1"])], "densenet", [image], [result])
    folder = write(
        root / "densenet_onnx",
        'platform: "onnxruntime_onnx"\nmax_batch_size: 4\n'
        'input [ { name: "data_0" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 8, 8 ] } ]\n'
        'output [ { name: "fc6_1" data_type: TYPE_FP32 dims: [ 3, 1, 1 ] } ]\n',
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    save(model, str(folder / "1" / "model.onnx"))
    folder = write(root / "densenet_openvino", 'backend: "openvino"\ndefault_model_filename: "model.onnx"\n')
    save(model, str(folder / "1" / "model.onnx"))


if __name__ == "__main__":
    {"pytorch": pytorch, "tensorflow": tensorflow, "openvino": openvino, "fil": fil, "oneflow": oneflow,
     "onnx": onnx}[sys.argv[1]](pathlib.Path(sys.argv[2]))
