"""Two deployments of Ray Serve with a Nereid in each replica.

Nereid loads all models in each replica, and the number of replicas follows the time that requests wait. Multiplexed
loads a model in the replica that gets a request for it, and unloads the one that was used least recently.

The server is in the process of the replica, as the Python package nereid runs it, so that both end together. Requests
are those of Triton's HTTP protocol; the replica forwards them to its server. README.md is the manual.
"""

import asyncio
import contextlib
import os
import re
import socket
import threading

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


class Replica:
    def __init__(self, models, **options):
        port = free_port()
        self.server = nereid.Server(models, http_port=port, http_address="127.0.0.1", **options)
        self.url = "http://127.0.0.1:%d" % port
        self.session = None  # is made in the event loop
        self.count = self.nanoseconds = 0

    async def __call__(self, request: Request) -> Response:
        return await self.forward(request)

    async def forward(self, request):
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


@serve.deployment(
    ray_actor_options={"num_cpus": 1},
    max_ongoing_requests=64,
    health_check_period_s=2,
    autoscaling_config=AutoscalingConfig(
        min_replicas=1, max_replicas=2, upscale_delay_s=1, downscale_delay_s=60, look_back_period_s=15,
        policy=AutoscalingPolicy(policy_function=by_queue_time)))
class Nereid(Replica):
    pass


class Loaded:
    """A model that is loaded in a server."""

    def __init__(self, server, name):
        self.server, self.name = None, name
        self.users, self.changed = 0, threading.Condition()
        server.load(name)
        self.server = server

    @contextlib.contextmanager
    def used(self):
        with self.changed:
            self.users += 1
        try:
            yield
        finally:
            with self.changed:
                self.users -= 1
                self.changed.notify_all()

    def __del__(self):
        """Unloads the model. Ray calls this in a thread before it loads another, and Python calls it once more."""
        server, self.server = self.server, None
        if server is None:
            return
        with self.changed:
            self.changed.wait_for(lambda: self.users == 0)
        server.unload(self.name)


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1}, max_ongoing_requests=64, health_check_period_s=2)
class Multiplexed(Replica):
    def __init__(self, models, **options):
        super().__init__(models, model_control_mode="explicit", **options)

    @serve.multiplexed(max_num_models_per_replica=2)
    async def model(self, name):
        return await asyncio.to_thread(Loaded, self.server, name)

    async def __call__(self, request: Request) -> Response:
        """Loads the model of the request. Ray prefers a replica that has it if the header names it too."""
        path = re.match("/v2/models/([^/]+)", request.url.path)
        name = serve.get_multiplexed_model_id() or path and path[1]
        if not name:
            return await self.forward(request)
        try:
            model = await self.model(name)
        except nereid.TritonError:  # the server says why there is no such model
            return await self.forward(request)
        with model.used():
            return await self.forward(request)
