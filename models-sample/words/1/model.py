"""Streams the words of a text from a separate thread, until the client disconnects."""

import threading
import time

import numpy as np

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.threads = []

    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0].decode()
            delay = pb_utils.get_input_tensor_by_name(request, "delay_ms")
            seconds = 0 if delay is None else int(delay.as_numpy()[0]) / 1000
            thread = threading.Thread(target=self.stream, args=(request.get_response_sender(), text, seconds))
            self.threads = [t for t in self.threads if t.is_alive()] + [thread]
            thread.start()
        return None

    @staticmethod
    def stream(sender, text, seconds):
        for i, word in enumerate(text.split()):
            if sender.is_cancelled():
                break
            time.sleep(seconds)
            sender.send(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("text_output", np.array([word.encode()], dtype=object)),
                        pb_utils.Tensor("index", np.array([i], dtype=np.int32)),
                    ]
                )
            )
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        for thread in self.threads:
            thread.join()
