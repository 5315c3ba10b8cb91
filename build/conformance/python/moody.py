"""The first number of INPUT0 decides. Below 0: raises. Below 8: answers with the TritonError of this code. Else: echoes."""

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()) for r in requests]

    def answer(self, x):
        n = int(x[0])
        if n < 0:
            raise ValueError("negative")
        codes = [pb.TritonError.UNKNOWN, pb.TritonError.INTERNAL, pb.TritonError.NOT_FOUND, pb.TritonError.INVALID_ARG,
                 pb.TritonError.UNAVAILABLE, pb.TritonError.UNSUPPORTED, pb.TritonError.ALREADY_EXISTS, pb.TritonError.CANCELLED]
        if n < 8:
            return pb.InferenceResponse(error=pb.TritonError("code %d" % n, codes[n]))
        return pb.InferenceResponse([pb.Tensor("OUTPUT0", x)])
