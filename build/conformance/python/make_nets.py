"""Makes small models of a framework for test_convert_nets.py.

usage: make_nets.py pytorch|tensorflow|paddle|catboost|caffe2 FOLDER
"""

import pathlib
import shutil
import sys
import types

import numpy as np

folder = pathlib.Path(sys.argv[2])
CLASS = '''import torch


class Net(torch.nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.a = torch.nn.Conv2d(1, 4, 3)
        self.b, self.c = torch.nn.Linear(144, hidden), torch.nn.Linear(hidden, 3)

    def forward(self, image):
        x = torch.flatten(torch.relu(self.a(image)), 1)
        return torch.softmax(self.c(torch.relu(self.b(x))), 1)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = torch.nn.Embedding(10, 4), torch.nn.GRU(4, 4, batch_first=True)

    def forward(self, tokens, scale):
        x, state = self.gru(self.embed(tokens))
        return x * scale[:, None, :], state[0]


class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy() * 2)
'''


def pytorch():
    import safetensors.torch
    import torch

    (folder / "nets.py").write_text(CLASS)
    sys.path.insert(0, str(folder))
    import nets

    torch.manual_seed(0)
    net, words = nets.Net(5).eval(), nets.Words().eval()
    image, batch = torch.randn(2, 1, 8, 8), torch.export.Dim("batch")
    torch.jit.script(net).save(folder / "script.pt")
    shutil.copy(folder / "script.pt", folder / "copy.torchscript")
    torch.jit.trace(words, (torch.zeros(2, 6, dtype=torch.int64), torch.ones(2, 4))).save(folder / "trace.pt")
    torch.save(net.state_dict(), folder / "weights.pth")
    safetensors.torch.save_file(net.state_dict(), folder / "weights.safetensors")
    torch.save({"state_dict": net.state_dict(), "epoch": 3}, folder / "checkpoint.pt")
    torch.save(net, folder / "whole.pt")
    mlflow(net)
    torch.export.save(torch.export.export(net, (image,), dynamic_shapes=({0: batch},)), folder / "program.pt2")
    torch.export.save(torch.export.export(net, (image,)), folder / "fixed.pt2")
    (folder / "broken.pt").write_bytes(b"nothing")


def mlflow(net):
    """Folders as mlflow.pytorch.save_model writes them: with the class in the folder of code, in the file, and
    nowhere."""
    import cloudpickle
    import torch

    nets = sys.modules["nets"]
    for name, by_value in ("code", False), ("value", True), ("gone", False):
        data = folder / f"mlflow_{name}/data"
        data.mkdir(parents=True)
        (data.parent / "MLmodel").write_text("flavors:\n  pytorch:\n    model_data: data\n")
        if by_value:
            cloudpickle.register_pickle_by_value(nets)
        module = types.SimpleNamespace(Pickler=cloudpickle.CloudPickler, __name__="mlflow.pytorch.pickle_module")
        torch.save(net, data / "model.pth", pickle_module=module)
        if by_value:
            cloudpickle.unregister_pickle_by_value(nets)
    (folder / "mlflow_code/code").mkdir()
    (folder / "mlflow_code/code/nets.py").write_text(CLASS)


def tensorflow():
    import keras
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    keras.utils.set_random_seed(0)
    layers = keras.layers
    net = keras.Sequential([keras.Input((8, 8, 1), name="image"), layers.Conv2D(4, 3, activation="relu"),
                            layers.Flatten(), layers.Dense(3, activation="softmax")])
    net.save(folder / "net.keras")
    net.save(folder / "old.h5")
    net.export(folder / "saved", verbose=False)
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    keras.Model([a, b], [layers.Dense(2, name="x")(a), layers.Add(name="y")([a, b])]).save(folder / "two.keras")
    (folder / "net.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(net).convert())
    call = tf.function(net).get_concrete_function(tf.TensorSpec((None, 8, 8, 1), tf.float32, name="image"))
    graph = convert_variables_to_constants_v2(call).graph.as_graph_def()
    (folder / "frozen.pb").write_bytes(graph.SerializeToString())
    for name in ("lambda.keras", "lambda.h5"):
        keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x * 2)]).save(folder / name)
    (folder / "none.pb").write_bytes(b"nothing")


def paddle():
    import paddle

    paddle.seed(0)
    nn = paddle.nn
    net = nn.Sequential(nn.Conv2D(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3), nn.Softmax())
    table = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    for name, model, shape in ("paddle_net", net, [None, 1, 8, 8]), ("paddle_table", table, [None, 4]):
        model.eval()
        paddle.jit.save(model, str(folder / name), input_spec=[paddle.static.InputSpec(shape, "float32", "x")])
    (folder / "alone.pdmodel").write_bytes(b"nothing")


def catboost():
    import catboost

    x = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    y = (x[:, 0] * 3).astype(int).clip(0, 2)
    options = {"iterations": 5, "verbose": 0, "allow_writing_files": False}
    catboost.CatBoostClassifier(**options).fit(x, y).save_model(folder / "classes.cbm")
    catboost.CatBoostClassifier(**options).fit(x, (y > 0).astype(int)).save_model(folder / "two.cbm")
    catboost.CatBoostClassifier(**options).fit(x, y > 0).save_model(folder / "truth.cbm")
    catboost.CatBoostRegressor(**options).fit(x, x[:, 1]).save_model(folder / "values.cbm")
    words = [[str(v)] for v in y]
    catboost.CatBoostRegressor(**options, cat_features=[0]).fit(words, x[:, 1]).save_model(folder / "words.cbm")
    (folder / "none.cbm").write_bytes(b"nothing")


def caffe2():
    from caffe2.python import brew, model_helper, workspace

    def saved(model, outputs, predict, init, **filled):
        workspace.ResetWorkspace()
        workspace.RunNetOnce(model.param_init_net)
        for name, value in filled.items():
            workspace.FeedBlob(name, value)
        network, weights = model.net.Proto(), model.param_init_net.Proto()
        network.external_output.extend(outputs)
        del weights.op[:]
        for name in sorted(workspace.Blobs()):  # random numbers are made once, and saved as numbers
            value = workspace.FetchBlob(name)
            op = weights.op.add(type="GivenTensorFill")
            op.output.append(name)
            op.arg.add(name="shape").ints.extend(value.shape)
            op.arg.add(name="values").floats.extend(value.ravel().tolist())
        (folder / predict).write_bytes(network.SerializeToString())
        (folder / init).write_bytes(weights.SerializeToString())

    net = model_helper.ModelHelper("net", init_params=True)
    brew.conv(net, "data", "a", 1, 4, 3)
    brew.spatial_bn(net, "a", "b", 4, is_test=True)
    brew.max_pool(net, brew.relu(net, "b", "b"), "c", kernel=2, stride=2)
    brew.softmax(net, brew.fc(net, "c", "d", 36, 3), "scores")
    saved(net, ["scores"], "predict_net.pb", "init_net.pb")
    two = model_helper.ModelHelper("two", init_params=True)
    brew.fc(two, "left", "a", 4, 3)
    brew.fc(two, "right", "b", 6, 3)
    brew.sum(two, ["a", "b"], "total")
    two.net.Sigmoid("total", "share")
    saved(two, ["total", "share"], "two.netdef", "init_two.netdef")
    only = model_helper.ModelHelper("only", init_params=True)
    brew.fc(only, "data", "scores", 4, 3)
    saved(only, ["scores"], "filled_predict_net.pb", "filled_init_net.pb", data=np.zeros((1, 4), np.float32))
    code = model_helper.ModelHelper("code", init_params=True)
    brew.fc(code, "left", "a", 4, 3)
    code.net.Python(lambda inputs, outputs: None)("a", "b")
    saved(code, ["b"], "code.netdef", "init_code.netdef")
    (folder / "alone.netdef").write_bytes((folder / "two.netdef").read_bytes())
    (folder / "none_predict_net.pb").write_bytes(b"nothing")


globals()[sys.argv[1]]()
