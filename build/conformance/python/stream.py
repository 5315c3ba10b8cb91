"""IN is the number of responses. A thread sends them after execute has returned. Negative numbers: see below."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.threads, self.cancelled = [], 0

    def execute(self, requests):
        for r in requests:
            n = int(pb.get_input_tensor_by_name(r, "IN").as_numpy().ravel()[0])
            sender = r.get_response_sender()
            if n == -1:
                raise ValueError("no stream")
            t = threading.Thread(target=self.send, args=(sender, n, r))
            self.threads.append(t)
            t.start()
        return None

    def response(self, n):
        return pb.InferenceResponse([pb.Tensor("OUT", np.array([n], np.int32))])

    def send(self, sender, n, request):
        if n == -2:  # an error in the middle of the stream
            sender.send(self.response(1))
            sender.send(pb.InferenceResponse(error=pb.TritonError("in between")))
            sender.send(self.response(2))
        elif n == -3:  # until the client disconnects
            while not sender.is_cancelled():
                sender.send(self.response(1))
                time.sleep(0.01)
            self.cancelled += 1
        elif n == -4:  # the number of clients that disconnected
            for _ in range(500):
                if self.cancelled:
                    break
                time.sleep(0.01)
            sender.send(self.response(self.cancelled))
            self.cancelled = 0
        elif n == -5:  # the last response carries the final flag
            sender.send(self.response(1))
            sender.send(self.response(2), flags=FINAL)
            return
        elif n == -6:  # a send after the final flag
            sender.send(flags=FINAL)
            try:
                sender.send(self.response(1))
            except pb.TritonModelException as e:
                self.text = str(e)
            return
        elif n == -7:  # nothing to send
            try:
                sender.send()
            except pb.TritonModelException as e:
                sender.send(pb.InferenceResponse(error=pb.TritonError(str(e))))
            try:
                sender.send(self.response(1), flags=4)
            except pb.TritonModelException as e:
                sender.send(pb.InferenceResponse(error=pb.TritonError(str(e))))
        else:
            for i in range(n):
                sender.send(self.response(i))
        sender.send(flags=FINAL)

    def finalize(self):
        for t in self.threads:
            t.join()
