"""A deployment of Ray Serve with a Nereid in each replica. Their number follows the time that requests wait.

The server is in the process of the replica, as the Python package nereid runs it, so that both end together. Requests
are those of Triton's HTTP protocol; the replica forwards them to its server. README.md is the manual.
"""

import os
import socket

import aiohttp
import nereid
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from starlette.requests import Request
from starlette.responses import Response

TARGET_MS = 20  # a request may wait this long on average before a replica is added
FORWARDED = {"content-type", "content-encoding", "accept-encoding", "inference-header-content-length", "authorization"}
RETURNED = {"content-type", "content-encoding", "inference-header-content-length"}


def by_queue_time(context):
    """Adds a replica while requests wait too long, and removes one when they hardly wait."""
    waits = list((context.aggregated_metrics or {}).get("queue_ms", {}).values())
    wanted = context.target_num_replicas
    if waits and max(waits) > TARGET_MS:
        wanted = context.current_num_replicas + 1
    elif waits and max(waits) < TARGET_MS / 10:
        wanted = context.current_num_replicas - 1
    return wanted, {}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@serve.deployment(
    ray_actor_options={"num_cpus": 1},
    max_ongoing_requests=64,
    health_check_period_s=2,
    autoscaling_config=AutoscalingConfig(
        min_replicas=1, max_replicas=2, upscale_delay_s=1, downscale_delay_s=60, look_back_period_s=15,
        policy=AutoscalingPolicy(policy_function=by_queue_time)))
class Nereid:
    def __init__(self, models, **options):
        port = free_port()
        self.server = nereid.Server(models, http_port=port, http_address="127.0.0.1", **options)
        self.url = "http://127.0.0.1:%d" % port
        self.session = None  # is made in the event loop
        self.count = self.nanoseconds = 0

    async def __call__(self, request: Request) -> Response:
        if self.session is None:
            self.session = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None))
        headers = {k: v for k, v in request.headers.items() if k in FORWARDED}
        url = self.url + request.url.path + ("?" + request.url.query if request.url.query else "")
        async with self.session.request(request.method, url, data=await request.body(), headers=headers) as answer:
            returned = {k: v for k, v in answer.headers.items() if k.lower() in RETURNED}
            returned["nereid-replica"] = str(os.getpid())
            return Response(await answer.read(), answer.status, returned)

    async def check_health(self):
        if not self.server.ready():
            raise RuntimeError("a model of the server is not ready")

    async def record_autoscaling_stats(self):
        """The average time in the queue since the last call. by_queue_time reads it."""
        queues = [s["inference_stats"]["queue"] for m in self.server.models().values()
                  for s in m.statistics()["model_stats"]]
        count, nanoseconds = sum(q["count"] for q in queues), sum(q["ns"] for q in queues)
        requests, waited = count - self.count, nanoseconds - self.nanoseconds
        self.count, self.nanoseconds = count, nanoseconds
        return {"queue_ms": waited / requests / 1e6 if requests > 0 else 0.0}
