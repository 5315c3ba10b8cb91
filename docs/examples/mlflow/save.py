"""Saves an ONNX file as an MLflow model: save.py FILE FOLDER."""

import sys

import mlflow.onnx
import onnx

# With its requirements given, MLflow does not load the model to find them.
mlflow.onnx.save_model(onnx.load(sys.argv[1]), sys.argv[2], pip_requirements=["onnx", "onnxruntime"])
