"""The Python package with PyTorch and TensorFlow: tensors of PyTorch as inputs, and PyTriton's documented examples
whose functions need a framework, asked by PyTriton's clients.

    example of PyTriton                        what is here
    linear_random_pytorch                      test_a_layer_of_pytorch
    mlp_random_tensorflow2                     test_a_network_of_keras
    huggingface_bart_pytorch                   test_texts_are_classified, with a small network in place of a large one
    huggingface_dialogpt_streaming_pytorch     test_words_are_streamed, likewise
    huggingface_resnet_pytorch                 test_pictures_are_classified, likewise

The functions are written anew. Their weights are chosen, so that the answers are known. The package transformers is not
tried: its models are on a network, and a function calls them where Nereid does not see it."""

import json
import os
import subprocess
import sys

import pytest

from harness import BINARY, ROOT, free_port
from test_frameworks import installed

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

SERVE = """
import sys
import numpy as np
from nereid.decorators import batch
from nereid.triton import DynamicBatcher, ModelConfig, Tensor, Triton, TritonConfig

def numbers(*shape, name=None):
    return Tensor(name=name, dtype=np.float32, shape=shape)

def texts(*shape, name):
    return Tensor(name=name, dtype=bytes, shape=shape)

def serve(name, function, inputs, outputs, strict=False, **config):
    http, grpc = map(int, sys.argv[1:])
    options = TritonConfig(http_port=http, grpc_port=grpc, http_address="127.0.0.1", grpc_address="127.0.0.1",
                           allow_metrics=False)
    with Triton(config=options) as triton:
        triton.bind(model_name=name, infer_func=function, inputs=inputs, outputs=outputs, config=ModelConfig(**config),
                    strict=strict)
        print("ready", flush=True)
        sys.stdin.read()
"""

ASK = """
import json, sys
import numpy as np
from pytriton.client import DecoupledModelClient, ModelClient

http, grpc = ("%s://127.0.0.1:%s" % pair for pair in zip(("http", "grpc"), sys.argv[1:]))

def plain(answer):
    return {name: np.char.decode(a.astype(bytes)).tolist() if a.dtype == object else a.tolist()
            for name, a in answer.items()}

def ask(model, **inputs):
    with ModelClient(http, model) as client:
        return plain(client.infer_batch(**inputs))
"""


PACKAGE = {"PYTHONPATH": str(ROOT / "app/library/python"), "NEREID_PROGRAM": str(BINARY),
           "NEREID_LIBRARY": str(ROOT / "build/bin/libtritonserver.so"), "TF_CPP_MIN_LOG_LEVEL": "3"}


def python_of(framework):
    """The Python that has a framework: the installed one, else that of the machine."""
    found = installed(framework)
    return str(found if found.exists() else os.environ["NEREID_FRAMEWORK_PYTHON"])


def answers(framework, script, questions):
    """Serves what a script binds in the framework's Python, and returns what another script prints in the client's."""
    ports = [str(free_port()), str(free_port())]
    server = subprocess.Popen([python_of(framework), "-c", SERVE + script, *ports], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **PACKAGE})
    try:
        said = server.stdout.readline()
        assert said == "ready\n", said + server.communicate()[1][-4000:]
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", ASK + questions, *ports], capture_output=True,
                              text=True, timeout=200, env={**os.environ, "PYTHONPATH": str(ROOT / ".cache/pytriton")})
        assert done.returncode == 0, done.stderr[-3000:]
        server.communicate(timeout=60)
        assert server.returncode == 0
    finally:
        server.kill()
        server.wait()
    return json.loads(done.stdout.splitlines()[-1])


def test_tensors_of_pytorch_are_inputs():
    """Also those that are not contiguous. numpy has no bfloat16, and says so."""
    script = """
import json, sys
import nereid, torch

with nereid.Server(sys.argv[1], model_control_mode="explicit", load_model=["builtin_identity"]) as server:
    model = server.model("builtin_identity")
    x = torch.arange(32, dtype=torch.float32).reshape(2, 16)
    out = []
    turned = x.reshape(16, 2).T
    for value, want in ((x, x), (x.flip(1), x.flip(1)), (turned, turned), (nereid.Tensor.from_dlpack(x), x)):
        answer = torch.from_dlpack(model.infer({"INPUT0": value})["OUTPUT0"])
        out.append(bool((answer == want).all()))
    for value in (x.bfloat16(), x.half(), x.requires_grad_()):
        try:
            model.infer({"INPUT0": value})
        except nereid.InvalidArgumentError as e:
            out.append(str(e))
print(json.dumps(out))
"""
    done = subprocess.run([python_of("pytorch"), "-c", script, str(ROOT / "models-sample")], capture_output=True,
                          text=True, timeout=120, env={**os.environ, **PACKAGE})
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said[:4] == [True] * 4
    assert said[4].startswith("numpy cannot read the input by DLPack: ") and "FP16" in said[5]
    assert "grad" in said[6]


def test_a_layer_of_pytorch():
    """The layer gives input i, and i more, in output i and again in output 20 + i."""
    script = """
import torch

layer = torch.nn.Linear(20, 30).eval()
layer.weight.data = torch.eye(20).repeat(2, 1)[:30]
layer.bias.data = torch.arange(30, dtype=torch.float32)

@batch
def infer(**inputs):
    (rows,) = inputs.values()
    with torch.no_grad():
        return [layer(torch.from_numpy(rows)).numpy()]

serve("Linear", infer, [numbers(-1)], [numbers(-1)], max_batch_size=128)
"""
    said = answers("pytorch", script, """
rows = np.arange(40, dtype=np.float32).reshape(2, 20)
print(json.dumps(ask("Linear", INPUT_1=rows)))
""")
    assert said == {"OUTPUT_1": [[20 * row + i % 20 + i for i in range(30)] for row in range(2)]}


def test_a_network_of_keras():
    """The network returns its images, each of them twice."""
    script = """
import tensorflow as tf

images = tf.keras.layers.Input((224, 224, 3))
network = tf.keras.Model(images, tf.keras.layers.Lambda(lambda x: 2 * x)(images))

@batch
def infer(image):
    return [network.predict(tf.convert_to_tensor(image), verbose=0)]

serve("MLP", infer, [numbers(224, 224, 3, name="image")], [numbers(224, 224, 3, name="output")], max_batch_size=16)
"""
    said = answers("tensorflow", script, """
images = np.random.default_rng(1).random((3, 224, 224, 3), np.float32)
with ModelClient(http, "MLP") as client:
    answer = client.infer_batch(image=images)
print(json.dumps({name: [list(array.shape), bool((array == 2 * images).all())] for name, array in answer.items()}))
""")
    assert said == {"output": [[3, 224, 224, 3], True]}


def test_texts_are_classified():
    """Each word has a vector. A label's score comes from how often the text has its word."""
    script = """
import torch

words = ["apple", "pear", "and", "plum"]
bag = torch.nn.EmbeddingBag.from_pretrained(torch.eye(len(words)), mode="sum")

def vector(text):
    return bag(torch.tensor([[words.index(word) for word in text.split()]]))[0]

@batch
def infer(sequence, labels):
    sequence, labels = (np.char.decode(a.astype(bytes), "utf-8") for a in (sequence, labels))
    found, scores = [], []
    for text, names in zip(sequence[:, 0], labels):
        score = torch.softmax(torch.stack([vector(name) @ vector(text) for name in names]), 0)
        order = score.argsort(descending=True).tolist()
        found.append([names[i] for i in order])
        scores.append(score[order].tolist())
    return {"label": np.char.encode(np.array(found), "utf-8"), "score": np.array(scores, np.float32)}

serve("Classifier", infer, [texts(1, name="sequence"), texts(-1, name="labels")],
      [texts(-1, name="label"), numbers(-1, name="score")], max_batch_size=4)
"""
    said = answers("pytorch", script, """
sequence = np.char.encode(np.array([["pear and pear and plum"], ["apple"]]), "utf-8")
labels = np.char.encode(np.array([["plum", "pear"], ["pear", "apple"]]), "utf-8")
print(json.dumps(ask("Classifier", sequence=sequence, labels=labels)))
""")
    assert said["label"] == [["pear", "plum"], ["apple", "pear"]]
    assert [round(score, 3) for row in said["score"] for score in row] == [0.731, 0.269, 0.731, 0.269]


def test_pictures_are_classified():
    """Many clients at a time send files of pictures, whose sizes differ. Requests with files of one size share a batch.
    The network is one residual block; its score of a label is the sum of a colour."""
    script = """
import torch

names = ["red", "green", "blue"]

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 1, bias=False)
        self.norm = torch.nn.BatchNorm2d(3)
        self.conv.weight.data = torch.eye(3).reshape(3, 3, 1, 1)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x).mean((2, 3))

network = Network().eval()

def pixels(file):
    header, _, data = file.tobytes().partition(b" 255 ")
    _, width, height = header.split()
    return np.frombuffer(data, np.uint8).reshape(int(height), int(width), 3).transpose(2, 0, 1).astype(np.float32)

@batch
def infer(**image):
    with torch.no_grad():
        scores = network(torch.from_numpy(np.stack([pixels(file) for file in image["image"]])))
    return {"label": np.array([[np.char.encode(names[row.argmax(-1).item()], "utf-8")] for row in scores])}

serve("ResNet", infer, [Tensor(name="image", dtype=np.uint8, shape=(-1,))], [texts(1, name="label")], max_batch_size=32,
      batcher=DynamicBatcher(max_queue_delay_microseconds=5000), strict=True)
"""
    said = answers("pytorch", script, """
from concurrent.futures import ThreadPoolExecutor

def picture(color, width, height):
    shown = np.zeros((height, width, 3), np.uint8)
    shown[:, :, color] = 9
    return np.frombuffer(b"P6 %d %d 255 " % (width, height) + shown.tobytes(), np.uint8)

def classify(n):
    with ModelClient((http, grpc)[n % 2], "ResNet") as client:
        return [client.infer_sample(picture(n % 3, 4 + n % 4, 5))["label"].tolist() for _ in range(3)]

with ThreadPoolExecutor(12) as pool:
    print(json.dumps([[label.decode() for (label,) in found] for found in pool.map(classify, range(12))]))
""")
    assert said == [[("red", "green", "blue")[n % 3]] * 3 for n in range(12)]


def test_words_are_streamed():
    """Each word has a next one. The function yields them as they come."""
    script = """
import torch

words = ["once", "upon", "a", "time"]
step = torch.nn.Linear(4, 4, bias=False)
step.weight.data = torch.eye(4).roll(1, 0)

@batch
def infer(prompt):
    at = torch.eye(4)[[words.index(text[0].decode()) for text in prompt]]
    for _ in range(3):
        with torch.no_grad():
            at = step(at)
        yield {"word": np.array([[words[i].encode()] for i in at.argmax(1)])}

serve("Speaker", infer, [texts(1, name="prompt")], [texts(1, name="word")], max_batch_size=4, decoupled=True)
"""
    said = answers("pytorch", script, """
with DecoupledModelClient(grpc, "Speaker") as client:
    answers = client.infer_batch(prompt=np.array([[b"once"], [b"time"]]))
    print(json.dumps([plain(answer)["word"] for answer in answers]))
""")
    assert said == [[["upon"], ["once"]], [["a"], ["upon"]], [["time"], ["a"]]]
