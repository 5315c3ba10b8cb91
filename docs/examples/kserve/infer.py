"""Calls the model digits with KServe's own clients: infer.py http://HOST:PORT HOST:GRPC_PORT [name of the service]."""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


def request():
    picture = np.zeros((1, 1, 28, 28), np.float32)
    picture[0, 0, 4:24, 13:15] = 1  # a stroke
    tensor = InferInput("image", list(picture.shape), "FP32")
    tensor.set_data_from_numpy(picture, binary_data=True)
    return InferRequest(model_name="digits", infer_inputs=[tensor])


async def main(rest_url, grpc_url, *host):
    headers = {"Host": host[0]} if host else {}
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    answer = await rest.infer(rest_url, request(), model_name="digits", headers=headers)
    print("REST:", answer.outputs[0].name, answer.outputs[0].as_numpy().argmax())
    async with InferenceGRPCClient(grpc_url) as client:
        ready = await client.is_server_ready() and await client.is_model_ready("digits")
        print("gRPC:", "ready" if ready else "not ready")
        answer = await client.infer(request())
        print("gRPC:", answer.outputs[0].name, answer.outputs[0].as_numpy().argmax())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
