"""Writes one framework's tiny models into a repository: `make_models.py pytorch|tensorflow|openvino|onnx FOLDER`, run by the
Python that has the framework. Each computes what its name says, so that answers can be told."""

import pathlib
import sys

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
    folder = write(root / "add_sub_pt", 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + indexed + "dynamic_batching {}\n")
    torch.jit.script(AddSub()).save(str(folder / "1" / "model.pt"))

    folder = write(root / "add_sub_named", 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + IO.format("b", "a", "sum__0", "difference__1"))
    torch.jit.script(AddSub()).save(str(folder / "1" / "model.pt"))

    folder = write(
        root / "add_sub_pt2", 'backend: "pytorch"\ndefault_model_filename: "model.pt2"\nmax_batch_size: 8\n' + indexed
    )
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        AddSub(), (torch.zeros(2, 16), torch.zeros(2, 16)), dynamic_shapes=({0: batch}, {0: batch})
    )
    torch.export.save(program, str(folder / "1" / "model.pt2"))

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
        'platform: "pytorch_libtorch"\nmax_batch_size: 4\ninput [ { name: "INPUT__0" data_type: TYPE_BF16 dims: [ 4 ] } ]\n'
        'output [ { name: "OUTPUT__0" data_type: TYPE_BF16 dims: [ 4 ] } ]\n',
    )
    torch.jit.script(Half()).save(str(folder / "1" / "model.pt"))

    class Resnet(torch.nn.Module):
        """A block of a residual network, in small: the class is the version's number."""

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

    folder = write(root / "broken_pt", 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + indexed)
    (folder / "1" / "model.pt").write_bytes(b"not a model")


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

    graph = tf.Graph()
    with graph.as_default():
        a = tf.compat.v1.placeholder(tf.float32, [None, 16], name="INPUT0")
        b = tf.compat.v1.placeholder(tf.float32, [None, 16], name="INPUT1")
        tf.identity(a + b, name="OUTPUT0")
        tf.identity(a - b, name="OUTPUT1")
    folder = write(
        root / "add_sub_graphdef",
        'platform: "tensorflow_graphdef"\nmax_batch_size: 8\n' + IO.format("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1") + "dynamic_batching {}\n",
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


def openvino(root):
    import openvino as ov
    import openvino.opset13 as ops

    a = ops.parameter([-1, 16], ov.Type.f32, name="INPUT0")
    b = ops.parameter([-1, 16], ov.Type.f32, name="INPUT1")
    for parameter, name in ((a, "INPUT0"), (b, "INPUT1")):
        parameter.output(0).get_tensor().set_names({name})
    outputs = []
    for name, node in (("OUTPUT0", ops.add(a, b)), ("OUTPUT1", ops.subtract(a, b))):
        result = ops.result(node)
        node.output(0).get_tensor().set_names({name})
        outputs.append(result)
    folder = write(root / "add_sub_openvino", 'backend: "openvino"\n')
    ov.save_model(ov.Model(outputs, [a, b], "add_sub"), str(folder / "1" / "model.xml"), compress_to_fp16=False)


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


if __name__ == "__main__":
    {"pytorch": pytorch, "tensorflow": tensorflow, "openvino": openvino, "onnx": onnx}[sys.argv[1]](pathlib.Path(sys.argv[2]))
