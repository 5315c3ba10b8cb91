"""Models of scikit-learn, XGBoost, LightGBM and CatBoost: each takes rows of numbers."""

import json
import pickle
import sys
import warnings

import numpy as np

from common import Net, Port, Stop, first_line

OPSET = {"": 15, "ai.onnx.ml": 3}  # onnxmltools knows no newer one
ROWS = 256  # that are made


def table(framework, features, answer, classes, export, outputs=None):
    """A model of rows with features numbers. None: the file does not say; then given rows tell."""
    return Net(framework, [Port("X", np.float32, [None, features])], lambda arrays: answer(arrays[0]), export,
               outputs, classes, spread)


def spread(port):
    """Rows as numbers that were measured are: around 0, some above 5."""
    return (np.random.default_rng(0).normal(size=(ROWS, port.dims[1])) * 3).astype(np.float32)


def load_sklearn(order):
    import joblib
    import sklearn

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = joblib.load(order["file"])
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
    return table(f"{name} {version}", getattr(made, "n_features_in_", None), lambda x: sklearn_answer(made, x),
                 getattr(made, "classes_", None), lambda parts: export_sklearn(made))


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
        model = skl2onnx.to_onnx(made, row, options=options, target_opset=OPSET)
    except Exception as e:  # its errors have many types
        raise Stop(f"skl2onnx cannot convert it: {first_line(e)}. Serve it with the Python backend") from e
    answered = 2 if hasattr(made, "predict") and hasattr(made, "predict_proba") else 1
    del model.graph.output[answered:]  # scores of its own, which nothing would compare
    return model


def load_xgboost(order):
    import xgboost

    booster = xgboost.Booster()
    try:
        booster.load_model(order["file"])
    except (xgboost.core.XGBoostError, ValueError) as e:
        raise Stop(f"XGBoost cannot read it: {first_line(e)}") from e
    booster.feature_names = None  # the converter knows features by number
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]

    def answer(x):
        return scores(booster.predict(xgboost.DMatrix(x)), objective.startswith(("binary:", "reg:logistic")))

    def export(parts):
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        rows = [("input", FloatTensorType([None, booster.num_features()]))]
        return onnxmltools.convert_xgboost(booster, initial_types=rows, target_opset=OPSET[""])

    return table(f"XGBoost {xgboost.__version__}", booster.num_features(), answer, None, export)


def load_lightgbm(order):
    import lightgbm

    try:
        booster = lightgbm.Booster(model_file=order["file"])
    except lightgbm.basic.LightGBMError as e:
        raise Stop(f"LightGBM cannot read it: {e}") from e
    objective = booster.dump_model().get("objective", "")

    def export(parts):
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        rows = [("input", FloatTensorType([None, booster.num_feature()]))]
        return onnxmltools.convert_lightgbm(booster, initial_types=rows, zipmap=False, target_opset=OPSET[""])

    return table(f"LightGBM {lightgbm.__version__}", booster.num_feature(),
                 lambda x: scores(booster.predict(x), objective.startswith("binary")), None, export)


def scores(p, binary):
    """The outputs of a converted booster: labels and probabilities, or values."""
    p = np.asarray(p)
    if binary:
        p = np.stack([1 - p, p], axis=1)
    return [p] if p.ndim == 1 else [p.argmax(axis=1), p]


def load_catboost(order):
    import catboost

    model = catboost.CatBoost()
    try:
        model.load_model(order["file"])
    except Exception as e:  # its errors have many types
        raise Stop(f"CatBoost cannot read it: {first_line(e)}") from e
    if model.get_cat_feature_indices() or model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise Stop("it has features that are no numbers, which CatBoost does not write as ONNX. Serve it with the Python "
                   "backend, or train it with encoded features")
    classes = list(model.classes_) if len(np.shape(model.classes_)) == 1 and len(model.classes_) else None

    def answer(x):
        if classes is None:
            return [np.asarray(model.predict(x)).reshape(len(x), -1)]
        labels = np.asarray(model.predict(x, prediction_type="Class")).reshape(-1)
        return [labels, model.predict(x, prediction_type="Probability")]

    return table(f"CatBoost {catboost.__version__}", len(model.feature_names_), answer, classes,
                 lambda parts: export_catboost(model), classes and ["label", "probabilities"])


def export_catboost(model):
    """CatBoost's own export. It ends in maps from class to probability, which no tensor holds; the tensor before stays."""
    import pathlib
    import tempfile

    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        try:
            model.save_model(str(path), format="onnx")
        except Exception as e:  # its errors have many types
            raise Stop(f"CatBoost cannot write it as ONNX: {first_line(e)}. Serve it with the Python backend") from e
        made = onnx.load(path)
    for node in [n for n in made.graph.node if n.op_type == "ZipMap"]:
        for info in made.graph.output:
            if info.name == node.output[0]:
                info.CopyFrom(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None))
        made.graph.node.remove(node)
    return made
