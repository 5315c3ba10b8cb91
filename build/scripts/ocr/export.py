"""Writes a network as an ONNX file with the names of the guide."""

import warnings

import onnx
import torch


def save(net, example, path, source, outputs, axes):
    """Writes the network for inference. axes: names of the dimensions that vary, by tensor and number.

    PyTorch accepts no names of digits alone, as 308, so the tensors are renamed afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"source": source, **{f"output{i}": name for i, name in enumerate(outputs)}}
    training = net.training
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the newer exporter needs three more packages
        torch.onnx.export(net.eval(), example, str(path), input_names=["source"], output_names=list(names)[1:],
                          dynamic_axes={old: axes[new] for old, new in names.items()}, opset_version=17, dynamo=False)
    net.train(training)
    model = onnx.load(str(path))
    for node in model.graph.node:
        for held in (node.input, node.output):
            held[:] = [names.get(name, name) for name in held]
    for value in (*model.graph.input, *model.graph.output):
        value.name = names[value.name]
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))
