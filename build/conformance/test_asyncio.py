"""The asyncio versions of the real clients, with many requests at the same time."""

import asyncio

import numpy as np
import tritonclient.grpc.aio as ga
import tritonclient.http.aio as ha


async def many(client, module, n=100):
    async def one(k):
        x = np.full([1, 16], k, np.float32)
        i = module.InferInput("INPUT0", x.shape, "FP32")
        i.set_data_from_numpy(x)
        r = await client.infer("batched", [i], request_id=str(k))
        np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), x)
        return k

    assert await asyncio.gather(*(one(k) for k in range(n))) == list(range(n))


def test_B010_http_asyncio(server):
    async def run():
        async with ha.InferenceServerClient(server.http) as c:
            assert await c.is_server_live() and await c.is_server_ready() and await c.is_model_ready("sums")
            assert (await c.get_server_metadata())["version"] == "2.51.0"
            assert (await c.get_model_metadata("sums"))["name"] == "sums"
            assert (await c.get_model_config("sums"))["max_batch_size"] == 8
            assert (await c.get_inference_statistics("sums"))["model_stats"][0]["name"] == "sums"
            assert any(m["name"] == "sums" for m in await c.get_model_repository_index())
            await many(c, ha)

    asyncio.run(run())


def test_B060_grpc_asyncio(server):
    async def run():
        async with ga.InferenceServerClient(server.grpc) as c:
            assert await c.is_server_live() and await c.is_server_ready() and await c.is_model_ready("sums")
            assert (await c.get_server_metadata()).version == "2.51.0"
            assert (await c.get_model_metadata("sums")).name == "sums"
            assert (await c.get_model_config("sums")).config.max_batch_size == 8
            assert (await c.get_inference_statistics("sums")).model_stats[0].name == "sums"
            assert any(m.name == "sums" for m in (await c.get_model_repository_index()).models)
            await many(c, ga)

    asyncio.run(run())
