"""Cases of TLS and mutual TLS over gRPC by the real clients. Triton has no TLS on HTTP: test_tls.py tests ours."""

import numpy as np
import tritonclient.grpc as tg
from tritonclient.utils import InferenceServerException

from answers import Call, ask
from cases import GRPC_WAYS, add

X = np.arange(-3, 5, dtype=np.int32)


def with_client(server, pki, mutual):
    server.secure = {"grpc": pki.grpc(pki.client if mutual else None)}
    return server


for kind in ("tls", "mutual"):
    for way in GRPC_WAYS:

        def infer(secured, kind=kind, way=way):
            server = with_client(*secured[kind], kind == "mutual")
            return ask(server, way, Call("identity_INT32", [("INPUT0", "INT32", X)]), {"OUTPUT0": X})

        add("tls", f"{way}/{kind}/infer", infer)

    def decoupled(secured, kind=kind):
        server = with_client(*secured[kind], kind == "mutual")
        inputs = [("IN", "INT32", np.array([7, 8], np.int32)), ("DELAY", "UINT32", np.zeros(2, np.uint32)),
                  ("WAIT", "UINT32", np.zeros(1, np.uint32))]
        return ask(server, "grpc-stream", Call("repeat", inputs))

    add("tls", f"grpc-stream/{kind}/decoupled", decoupled)

    def fault(secured, kind=kind):
        server = with_client(*secured[kind], kind == "mutual")
        return ask(server, "grpc", Call("identity_INT32", [("INPUT0", "FP32", X.astype(np.float32))]))

    add("tls", f"grpc/{kind}/fault", fault)


def refused(kind, **how):
    """The error code for a client that must be rejected. The text comes from its own library and is ignored."""

    def run(secured):
        server, pki = secured[kind]
        own = getattr(pki, how["own"]) if how.get("own") else None
        arguments = {} if how.get("plain") else pki.grpc(own, pki.other if how.get("other") else None)
        with tg.InferenceServerClient(server.grpc, **arguments) as c:
            try:
                return {"live": c.is_server_live(client_timeout=120)}
            except InferenceServerException as e:
                return {"code": e.status()}

    return run


add("tls", "grpc/tls/client-trusts-another", refused("tls", other=True))
add("tls", "grpc/tls/client-without-tls", refused("tls", plain=True))
add("tls", "grpc/tls/client-shows-one-though", refused("tls", own="client"))
add("tls", "grpc/mutual/client-shows-none", refused("mutual"))
add("tls", "grpc/mutual/client-of-another-authority", refused("mutual", own="stranger"))
