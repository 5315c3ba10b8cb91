"""The model of a bound function: it passes requests to the user's process, and its answers back. See triton.py."""

import json
from multiprocessing.connection import Client

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        address, key = (parameters[name]["string_value"] for name in ("bound_address", "bound_key"))
        self.connection = Client(address, "AF_UNIX", authkey=bytes.fromhex(key))
        self.connection.send(args["model_name"])
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))

    def execute(self, requests):
        self.connection.send([
            ({t.name(): t.as_numpy() for t in r.inputs()}, json.loads(r.parameters() or "{}"),
             list(r.requested_output_names()))
            for r in requests])
        if self.decoupled:
            return self.stream(requests)
        answers = self.connection.recv()
        if isinstance(answers, str):
            answers = [answers] * len(requests)
        return [self.response(r, a) for r, a in zip(requests, answers)]

    def stream(self, requests):
        senders = [r.get_response_sender() for r in requests]
        while (answers := self.connection.recv()) is not None:
            if isinstance(answers, str):
                answers = [answers] * len(requests)
            for request, sender, answer in zip(requests, senders, answers):
                sender.send(self.response(request, answer))
        for sender in senders:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def response(self, request, answer):
        """answer is a dict of outputs, or the text of an error."""
        if isinstance(answer, str):
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(answer))
        wanted = request.requested_output_names()
        return pb_utils.InferenceResponse([pb_utils.Tensor(n, a) for n, a in answer.items() if n in wanted])

    def finalize(self):
        self.connection.close()
