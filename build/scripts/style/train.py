"""Trains the network of docs/examples/style, and writes it as ONNX: train.py FILE.onnx [PICTURE.png]

The network redraws a picture as draw() does: in the colours of a night, with dark outlines. It learns this from
made-up pictures. Both layers have random filters that stay, and weights that least squares find, so the training takes
seconds and needs numpy and Pillow only. PICTURE gets a picture that was not used for training, for the example.
"""

import pathlib
import sys
import time

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper, numpy_helper
from PIL import Image, ImageDraw, ImageFilter

SEED, SCENES, SIZE = 11, 80, 80
SAMPLES = 2500  # pixels of a scene that are used
FIRST, SECOND = (7, 3, 160), (5, 6, 96)  # width of the filters, their channels, and how many there are
RIDGE = 1e-4  # keeps the weights small
PALETTE = np.array([(14, 18, 46), (24, 52, 120), (52, 118, 168), (236, 176, 84), (250, 236, 196)], np.float32)


def draw(picture):
    """What the network learns: uint8 [h,w,3] to float [h,w,3]."""
    soft = np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(1.5)), np.float32)
    grey = soft @ np.array([0.3, 0.59, 0.11], np.float32)
    at = np.linspace(0, 255, len(PALETTE))
    painted = np.stack([np.interp(grey, at, PALETTE[:, c]) for c in range(3)], 2)
    painted += 0.45 * (soft - grey[:, :, None])  # some of the picture's own colours
    gy, gx = np.gradient(soft.mean(2))
    return np.clip(painted * (1 - np.clip(np.hypot(gx, gy) / 14 - 0.15, 0, 0.85))[:, :, None], 0, 255)


def scene(rng, size):
    """A made-up picture: a gradient with discs, boxes, triangles and lines, in part soft or with noise."""
    top, bottom = rng.uniform(0, 255, (2, 3))
    image = Image.fromarray(np.uint8(np.broadcast_to(np.linspace(top, bottom, size)[:, None], (size, size, 3))))
    canvas = ImageDraw.Draw(image)
    for _ in range(rng.integers(3, 12)):
        a, b = rng.uniform(-0.1, 1.1, (2, 2)) * size
        box, colour = (*np.minimum(a, b), *np.maximum(a, b)), tuple(int(v) for v in rng.uniform(0, 255, 3))
        kind = rng.integers(4)
        if kind == 0:
            canvas.ellipse(box, fill=colour)
        elif kind == 1:
            canvas.rectangle(box, fill=colour)
        elif kind == 2:
            canvas.polygon([tuple(p) for p in rng.uniform(0, size, (3, 2))], fill=colour)
        else:
            canvas.line((*a, *b), colour, int(rng.integers(1, 6)))
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 2)))
    return np.uint8(np.clip(np.asarray(image) + rng.normal(0, rng.uniform(0, 6), (size, size, 1)), 0, 255))


def filters(rng, kind):
    """Random filters [count,channels,width,width], most of them smooth, and their biases."""
    width, channels, count = kind
    made = rng.standard_normal((count, channels, width, width)).astype(np.float32)
    y = np.arange(width) - width // 2
    for i, spread in enumerate(rng.uniform(0.4, width / 3, count)):
        made[i] *= np.exp(-(y[:, None] ** 2 + y**2) / (2 * spread**2))
        made[i] /= np.abs(made[i]).sum() / 2
    return made, rng.uniform(-0.6, 0.6, count).astype(np.float32)


def seen(maps, at, kernel, bias):
    """What the filters see of maps [h,w,channels] at pixels: [pixels,count]."""
    width = kernel.shape[2]
    padded = np.pad(maps, ((width // 2,) * 2, (width // 2,) * 2, (0, 0)), "reflect")
    windows = sliding_window_view(padded, (width, width), (0, 1))[at[:, 0], at[:, 1]]
    return np.maximum(windows.reshape(len(at), -1) @ kernel.reshape(len(kernel), -1).T + bias, 0)


def fit(features, wanted):
    """Weights and biases [count,3], [3] of least squares."""
    x = np.concatenate((features, np.ones((len(features), 1), np.float32)), 1).astype(np.float64)
    found = np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1]), x.T @ wanted).astype(np.float32)
    return found[:-1], found[-1]


def train(rng):
    scenes = [scene(rng, SIZE) for _ in range(SCENES)]
    inputs = [s.astype(np.float32) / 127.5 - 1 for s in scenes]
    wanted = [draw(s) / 127.5 - 1 for s in scenes]
    places = [rng.integers(0, SIZE, (SAMPLES, 2)) for _ in scenes]
    targets = np.concatenate([w[p[:, 0], p[:, 1]] for w, p in zip(wanted, places)])
    kernel, bias = filters(rng, FIRST)
    first = fit(np.concatenate([seen(x, p, kernel, bias) for x, p in zip(inputs, places)]), targets)
    everywhere = np.stack(np.mgrid[:SIZE, :SIZE], 2).reshape(-1, 2)
    drafts = []
    for x in inputs:
        draft = seen(x, everywhere, kernel, bias) @ first[0] + first[1]
        drafts.append(np.concatenate((x, draft.reshape(SIZE, SIZE, 3)), 2))
    kernel2, bias2 = filters(rng, SECOND)
    said = np.concatenate([d[p[:, 0], p[:, 1], 3:] for d, p in zip(drafts, places)])
    features = np.concatenate([seen(d, p, kernel2, bias2) for d, p in zip(drafts, places)])
    second = fit(features, targets - said)
    error = np.abs(said + features @ second[0] + second[1] - targets).mean() * 127.5
    print(f"mean difference {np.abs(said - targets).mean() * 127.5:.1f} of 255 after one layer, {error:.1f} after two")
    return (kernel, bias, *first), (kernel2, bias2, *second)


def network(layers):
    """The ONNX model. INPUT_0 and OUTPUT_0: pictures [n,3,256,256], 0 to 255."""
    nodes, weights = [], []

    def add(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(name, values):
        weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def layer(i, source, kernel, bias, weight, offset):
        edge = kernel.shape[2] // 2
        edges = constant(f"edges{i}", np.array([0, 0, edge, edge] * 2))
        x = add("Pad", [source, edges], f"padded{i}", mode="reflect")
        x = add("Conv", [x, constant(f"filters{i}", kernel), constant(f"bias{i}", bias)], f"filtered{i}")
        x = add("Relu", [x], f"seen{i}")
        weight = weight.T[:, :, None, None]
        return add("Conv", [x, constant(f"weights{i}", weight), constant(f"offset{i}", offset)], f"said{i}")

    half, one = constant("half", np.float32(127.5)), constant("one", np.float32(1))
    x = add("Sub", [add("Div", ["INPUT_0", half], "scaled"), one], "x")
    draft = layer(1, x, *layers[0])
    y = add("Add", [draft, layer(2, add("Concat", [x, draft], "both", axis=1), *layers[1])], "y")
    y = add("Mul", [add("Add", [y, one], "shifted"), half], "unclipped")
    add("Clip", [y, constant("lowest", np.float32(0)), constant("highest", np.float32(255))], "OUTPUT_0")
    inputs, outputs = ([helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, 256, 256])]
                       for name in ("INPUT_0", "OUTPUT_0"))
    graph = helper.make_graph(nodes, "style", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def landscape(size):
    """The example's picture: a sun over hills, a house and a tree."""
    rows = np.linspace(0, 1, size)[:, None, None]
    sky = np.array([96, 156, 230]) * (1 - rows) + np.array([250, 214, 180]) * rows
    image = Image.fromarray(np.uint8(np.broadcast_to(sky, (size, size, 3))))
    c, s = ImageDraw.Draw(image), size / 256
    x = np.arange(0, size + 1)
    c.ellipse((170 * s, 28 * s, 216 * s, 74 * s), fill=(255, 236, 150))
    for height, swing, colour in ((150, 22, (120, 150, 120)), (180, 14, (84, 130, 70)), (210, 8, (56, 96, 48))):
        ridge = height * s - swing * s * np.sin(x / size * 7 + height)
        c.polygon([(0, size), *zip(x, ridge), (size, size)], fill=colour)
    c.rectangle((62 * s, 150 * s, 118 * s, 196 * s), fill=(214, 190, 160))
    c.polygon([(54 * s, 152 * s), (90 * s, 118 * s), (126 * s, 152 * s)], fill=(150, 60, 48))
    c.rectangle((82 * s, 168 * s, 98 * s, 196 * s), fill=(90, 60, 40))
    c.rectangle((180 * s, 150 * s, 188 * s, 206 * s), fill=(92, 64, 44))
    c.ellipse((158 * s, 104 * s, 212 * s, 164 * s), fill=(60, 120, 56))
    return image.filter(ImageFilter.GaussianBlur(0.7 * s))


if __name__ == "__main__":
    start = time.monotonic()
    out = pathlib.Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(network(train(np.random.default_rng(SEED))), str(out))
    if len(sys.argv) > 2:
        landscape(320).save(sys.argv[2])
    print(f"{time.monotonic() - start:.0f} s")
