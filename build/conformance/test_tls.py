"""TLS and mutual TLS on HTTP with common clients. Triton leaves this to a proxy."""

import shutil
import subprocess

import numpy as np
import pytest
import requests
import tritonclient.http as th
from tritonclient.http.auth import BasicAuth

import models
import tls
from answers import Call, ask
from harness import REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no TLS on HTTP")
X = np.arange(-3, 5, dtype=np.int32)


@pytest.fixture(scope="module", params=["tls", "mutual"])
def https(request, tmp_path_factory):
    work = tmp_path_factory.mktemp("https")
    repo = models.write_builtin(work / "models", "identity_INT32", "identity", "",
                                *[[(n, "INT32", [-1])] for n in ("INPUT0", "OUTPUT0")]).parent
    pki = tls.Certificates(work / "pki")
    with Server(repo, work, *pki.options("http", mutual=request.param == "mutual"), wait=None) as s:
        s.own = pki.client if request.param == "mutual" else None
        s.pki = pki
        s.secure = {"http": pki.http(s.own), "http_aio": pki.http_aio(s.own)}
        until(lambda: requests.get(f"https://{s.http}/v2/health/ready", verify=pki.root, cert=s.own,
                                   timeout=60).status_code == 200, 60, "not ready", s.log)
        yield s


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("way", ["http", "http-async", "http-aio"])
def test_B043_F043_client(https, way, binary):
    got = ask(https, way, Call("identity_INT32", [("INPUT0", "INT32", X)], [("OUTPUT0", {"binary_data": binary})],
                               binary), {"OUTPUT0": X})
    assert got["outputs"][0]["values"] == X.tolist()


def test_B043_F043_client_with_an_auth_plugin(https):
    with th.InferenceServerClient(https.http, **https.secure["http"]) as c:
        c.register_plugin(BasicAuth("user", "password"))
        assert c.is_server_ready() and c.is_model_ready("identity_INT32")


def test_B043_F047_curl(https):
    if not shutil.which("curl"):
        pytest.skip("no curl on this machine")
    own = ["--cert", https.own[0], "--key", https.own[1]] if https.own else []
    done = subprocess.run(["curl", "-v", "--cacert", https.pki.root, *own, f"https://{https.http}/v2/health/ready"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "< HTTP/1.1 200 OK" in done.stderr, done.stderr


def test_B043_clients_that_must_be_rejected(https):
    url = f"https://{https.http}/v2/health/live"
    with pytest.raises(requests.exceptions.SSLError):  # a client that trusts another authority
        requests.get(url, verify=https.pki.other, cert=https.own, timeout=60)
    if https.own:
        for own in (None, https.pki.stranger):
            with pytest.raises(requests.exceptions.ConnectionError):
                requests.get(url, verify=https.pki.root, cert=own, timeout=60)
    plain = requests.get(f"http://{https.http}/v2", timeout=60)
    assert plain.status_code == 400 and "HTTPS" in plain.text, plain.text
