"""Converts a trained model to ONNX, and compares the two. `nereid convert` runs it with the packages that it needs.

usage: convert.py FILE KIND OUT INPUTS TOLERANCE

KIND is pickle, xgboost or lightgbm. INPUTS is a .npy, .npz or .csv file with rows of numbers, or "": then rows are
made. Writes to the folder OUT: 1/model.onnx, labels.txt (if the classes are known), golden/converted.json and
report.json. An error for the user is the last line of the standard error, and the exit status is 3.
"""

import json
import pathlib
import pickle
import statistics
import sys
import time
import warnings

import numpy as np

OPSET = {"": 15, "ai.onnx.ml": 3}  # onnxmltools knows no newer one
ROWS = 256  # that are made
GOLDEN = 4  # of them are kept as a golden request
RUNS = 30  # of one row, to measure the latency


class Stop(Exception):
    """What the user must know."""


class Model:
    """A model of a framework.

    features: the numbers in a row; None if the file does not say. answer(x) returns arrays in the order of the ONNX
    model's outputs, for float32 x [rows, features]. classes: their names, or None. export() returns the ONNX model.
    """

    def __init__(self, framework, features, answer, classes, export):
        self.framework, self.features, self.answer, self.classes = framework, features, answer, classes
        self.export = export


def load_pickle(path):
    import joblib
    import sklearn

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = joblib.load(path)
    except (ModuleNotFoundError, AttributeError) as e:
        raise Stop(f"it needs code that is not here: {e}. Convert it where it was trained, with skl2onnx, and import "
                   "the ONNX file") from e
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError, ImportError) as e:
        raise Stop(f"it cannot be read as a pickle: {e}") from e
    for w in caught:
        print(f"note: {str(w.message).splitlines()[0]}")
    if isinstance(made, dict) and made and all(hasattr(v, "shape") for v in made.values()):
        raise Stop("it has weights by name, not a model. A file of weights needs the program that makes the model")
    if not hasattr(made, "predict") and not hasattr(made, "transform"):
        raise Stop(f"it is a {type(made).__module__}.{type(made).__name__}, not a trained model of scikit-learn, "
                   "XGBoost or LightGBM")
    module = type(made).__module__.split(".")[0]
    name = {"sklearn": "scikit-learn", "xgboost": "XGBoost", "lightgbm": "LightGBM"}.get(module)
    if name is None:
        raise Stop(f"{type(made).__module__}.{type(made).__name__} is of no framework that can be converted: "
                   "scikit-learn, XGBoost, LightGBM")
    version = sys.modules[module].__version__ if module != "sklearn" else sklearn.__version__
    return Model(f"{name} {version}", getattr(made, "n_features_in_", None), lambda x: sklearn_answer(made, x),
                 getattr(made, "classes_", None), lambda: export_sklearn(made))


def sklearn_answer(made, x):
    if hasattr(made, "predict"):
        more = "predict_proba" if hasattr(made, "predict_proba") else None
        return [made.predict(x)] + ([made.predict_proba(x)] if more else [])
    return [made.transform(x)]


def export_sklearn(made):
    import skl2onnx
    import sklearn.base
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx.common.shape_calculator import (calculate_linear_classifier_output_shapes,
                                                  calculate_linear_regressor_output_shapes)

    def register(cls, alias, converter):
        shapes, options = calculate_linear_regressor_output_shapes, None
        if hasattr(cls, "predict_proba"):
            shapes = calculate_linear_classifier_output_shapes
            options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
        skl2onnx.update_registered_converter(cls, alias, shapes, converter, options=options)

    import lightgbm
    import xgboost
    for cls in (lightgbm.LGBMClassifier, lightgbm.LGBMRegressor):
        register(cls, "LightGbm" + cls.__name__, convert_lightgbm)
    for cls in (xgboost.XGBClassifier, xgboost.XGBRegressor):
        register(cls, "XGBoost" + cls.__name__, convert_xgboost)
    options = {id(made): {"zipmap": False}} if sklearn.base.is_classifier(made) else None
    row = np.zeros((1, made.n_features_in_), np.float32)
    try:
        return skl2onnx.to_onnx(made, row, options=options, target_opset=OPSET)
    except Exception as e:  # its errors have many types
        raise Stop(f"skl2onnx cannot convert it: {str(e).splitlines()[0]}. Serve it with the Python backend") from e


def load_xgboost(path):
    import xgboost

    booster = xgboost.Booster()
    try:
        booster.load_model(path)
    except (xgboost.core.XGBoostError, ValueError) as e:
        raise Stop(f"XGBoost cannot read it: {str(e).strip().splitlines()[0]}") from e
    booster.feature_names = None  # the converter knows features by number
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]

    def answer(x):
        return scores(booster.predict(xgboost.DMatrix(x)), objective.startswith(("binary:", "reg:logistic")))

    def export():
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        rows = [("input", FloatTensorType([None, booster.num_features()]))]
        return onnxmltools.convert_xgboost(booster, initial_types=rows, target_opset=OPSET[""])

    return Model(f"XGBoost {xgboost.__version__}", booster.num_features(), answer, None, export)


def load_lightgbm(path):
    import lightgbm

    try:
        booster = lightgbm.Booster(model_file=path)
    except lightgbm.basic.LightGBMError as e:
        raise Stop(f"LightGBM cannot read it: {e}") from e
    objective = booster.dump_model().get("objective", "")

    def export():
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        rows = [("input", FloatTensorType([None, booster.num_feature()]))]
        return onnxmltools.convert_lightgbm(booster, initial_types=rows, zipmap=False, target_opset=OPSET[""])

    return Model(f"LightGBM {lightgbm.__version__}", booster.num_feature(),
                 lambda x: scores(booster.predict(x), objective.startswith("binary")), None, export)


def scores(p, binary):
    """The outputs of a converted booster: labels and probabilities, or values."""
    p = np.asarray(p)
    if binary:
        p = np.stack([1 - p, p], axis=1)
    return [p] if p.ndim == 1 else [p.argmax(axis=1), p]


def rows_of(path, features):
    """The rows to compare with: those of a file, or made ones, of the same size in each run."""
    if not path:
        if features is None:
            raise Stop("it does not say how many numbers a row has; give rows with --inputs")
        made = np.random.default_rng(0).normal(size=(ROWS, features)) * 3
        return made.astype(np.float32)
    try:
        if path.endswith(".csv"):
            rows = np.loadtxt(path, delimiter=",", ndmin=2, skiprows=0 if numeric(path) else 1)
        else:
            rows = np.load(path)
            rows = rows[rows.files[0]] if hasattr(rows, "files") else rows
        rows = np.asarray(rows, np.float32)
    except (OSError, ValueError, IndexError) as e:
        raise Stop(f"the inputs cannot be read: {e}") from e
    if rows.ndim != 2 or len(rows) == 0 or features not in (None, rows.shape[1]):
        raise Stop(f"the inputs have the shape {list(rows.shape)}, and the model takes rows of {features} numbers")
    return rows


def numeric(path):
    """Whether a .csv file has no line with names at its head."""
    with open(path) as f:
        first = f.readline().split(",")
    try:
        [float(x) for x in first]
        return True
    except ValueError:
        return False


def name_batch(onnx_model, session, x):
    """Gives each input and output its real shape, with the first dimension "batch". Some converters write others."""
    feed = session.get_inputs()[0].name
    shapes = {o.name: a.shape for o, a in zip(session.get_outputs(), session.run(None, {feed: x}))}
    shapes[feed] = x.shape
    for info in list(onnx_model.graph.input) + list(onnx_model.graph.output):
        shape = info.type.tensor_type.shape
        del shape.dim[:]
        shape.dim.add().dim_param = "batch"
        for n in shapes[info.name][1:]:
            shape.dim.add().dim_value = n


def difference(name, want, got):
    """How an output of the ONNX model differs from the framework's answer."""
    got = got.reshape(want.shape) if got.size == want.size else got
    if want.shape != got.shape:
        raise Stop(f"the ONNX model's output {name} has the shape {list(got.shape)}, and the framework's answer "
                   f"{list(want.shape)}")
    if want.dtype.kind not in "fc":
        equal = np.asarray(want).astype(str) == np.asarray(got).astype(str)
        return {"output": name, "rows": len(want), "same": int(equal.sum())}
    delta = np.abs(want.astype(np.float64) - got)
    rel = float((delta / np.maximum(np.abs(want), 1e-12))[delta > 0].max(initial=0))
    out = {"output": name, "rows": len(want), "maxAbs": float(delta.max()), "maxRel": rel,
           "error": float((delta / np.maximum(np.abs(want), 1)).max())}
    if want.ndim == 2 and want.shape[1] > 1:
        out["same"] = int((want.argmax(axis=1) == got.argmax(axis=1)).sum())
    return out


def milliseconds(f):
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


def tensor(array):
    """A tensor of a golden request, in the format of perf_analyzer's input data."""
    return {"content": array.ravel().tolist(), "shape": list(array.shape[1:]) or [1]}


def convert(path, kind, out, inputs, tolerance):
    import onnx
    import onnxruntime

    model = {"pickle": load_pickle, "xgboost": load_xgboost, "lightgbm": load_lightgbm}[kind](path)
    x = rows_of(inputs, model.features)
    exported = model.export()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1

    def open_session():
        return onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])

    name_batch(exported, open_session(), x)
    session = open_session()
    names = [o.name for o in session.get_outputs()]
    feed = session.get_inputs()[0].name
    want, got = model.answer(x), session.run(None, {feed: x})
    file = out / "1/model.onnx"
    file.parent.mkdir()
    onnx.save(exported, file)
    if model.classes is not None and np.ndim(model.classes) == 1:
        (out / "labels.txt").write_text("".join(f"{c}\n" for c in model.classes))
    (out / "golden").mkdir()
    rows = [{feed: tensor(x[i:i + 1])} for i in range(min(GOLDEN, len(x)))]
    # The framework's answers, so that every later version is compared with them too.
    answers = [{n: tensor(np.asarray(w[i:i + 1]).astype(g.dtype)) for n, w, g in zip(names, want, got)}
               for i in range(len(rows))]
    (out / "golden/converted.json").write_text(
        json.dumps({"data": rows, "validation_data": answers, "tolerance": tolerance}) + "\n")
    report = {
        "framework": model.framework, "rows": len(x), "made": not inputs,
        "outputs": [difference(n, np.asarray(w), g) for n, w, g in zip(names, want, got)],
        "bytesBefore": pathlib.Path(path).stat().st_size, "bytesAfter": file.stat().st_size,
        "msBefore": milliseconds(lambda: model.answer(x[:1])),
        "msAfter": milliseconds(lambda: session.run(None, {feed: x[:1]})),
    }
    (out / "report.json").write_text(json.dumps(report) + "\n")


if __name__ == "__main__":
    try:
        convert(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
    except Stop as e:
        print(str(e).replace("\n", " "), file=sys.stderr)
        sys.exit(3)
