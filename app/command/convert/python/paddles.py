"""Models of PaddlePaddle, as paddle.jit.save writes them: MODEL.json or MODEL.pdmodel, with MODEL.pdiparams."""

import pathlib

import numpy as np
import paddle
import paddle2onnx

from common import Net, Port, Stop, first_line

OPSET = 17


def load_paddle(order):
    path = pathlib.Path(order["file"])
    values = path.with_suffix(".pdiparams")
    if not values.exists():
        raise Stop(f"its weights are not here, which {values.name} would have")
    paddle.set_device("cpu")
    try:
        module = paddle.jit.load(str(path.with_suffix("")))
        module.eval()
        specs = module._input_spec()  # there is no public way to the inputs of a loaded model
        ports = [Port(s.name, str(s.dtype).removeprefix("paddle."), [None if d < 0 else d for d in s.shape]) for s in specs]
    except Exception as e:  # its errors have many types
        raise Stop(f"PaddlePaddle cannot read it: {first_line(e)}. It reads what paddle.jit.save of version 3 writes") from e

    def answer(arrays):
        out = module(*[paddle.to_tensor(np.ascontiguousarray(a)) for a in arrays])
        return [o.numpy() for o in (out if isinstance(out, (list, tuple)) else [out])]

    def export(parts):
        import onnx

        try:
            made = paddle2onnx.export(str(path), str(values), None, opset_version=order["opset"] or OPSET)
        except Exception as e:  # its errors have many types
            raise Stop(f"paddle2onnx cannot convert it: {first_line(e)}. Serve it with the Python backend") from e
        if not made:
            raise Stop("paddle2onnx cannot convert it; its messages are above. Serve it with the Python backend")
        return onnx.load_from_string(made)

    return Net(f"PaddlePaddle {paddle.__version__}", ports, answer, export, files=(path, values))
