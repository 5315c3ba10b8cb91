"""A model that fails to load. The parameter "how" of its configuration selects the failure."""

import json

import triton_python_backend_utils as pb


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        how = config.as_dict().get("parameters", {}).get("how", {}).get("string_value", "")
        if how == "batch":
            config.set_max_batch_size(1)
        if how == "dtype":
            config.add_input({"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]})
        if how == "dims":
            config.add_output({"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [3]})
        if how == "property":
            config.add_input({"name": "X", "data_type": "TYPE_INT32", "dims": [1], "what": 1})
        if how == "missing":
            config.add_input({"name": "X", "dims": [1]})
        if how == "nameless":
            config.add_output({"data_type": "TYPE_INT32", "dims": [1]})
        if how == "policy":
            config.set_model_transaction_policy({"other": True})
        if how == "returns":
            return None
        if how == "raises":
            raise RuntimeError("cannot complete")
        return config

    def initialize(self, args):
        how = json.loads(args["model_config"])["parameters"].get("how", {}).get("string_value", "")
        if how == "initialize":
            raise pb.TritonModelException("cannot initialize")
        if how == "initialize_value":
            raise ValueError("cannot initialize")

    def execute(self, requests):
        return []
