"""The response cache: which answers come from it, and how they are counted."""

import re

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th

import models
from harness import REFERENCE, Server

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a model with response_cache; the reference has other models")


@pytest.fixture
def cached(tmp_path):
    repo = tmp_path / "models"
    models.write_sums(repo, "sums", "max_batch_size: 8\nresponse_cache { enable: true }\n")
    models.write_sums(repo, "plain", "max_batch_size: 8\n")
    with Server(repo, tmp_path, "--cache-config=local,size=1048576") as s:
        yield s


def infer(client, module, model="sums", value=1, **options):
    a = np.full((1, 16), value, dtype=np.int32)
    inputs = [module.InferInput(n, a.shape, "INT32") for n in ("INPUT0", "INPUT1")]
    for i in inputs:
        i.set_data_from_numpy(a)
    r = client.infer(model, inputs, **options)
    assert (r.as_numpy("OUTPUT0") == 2 * value).all()
    return r


def stats(server, model):
    return server.get(f"/v2/models/{model}/stats").json["model_stats"][0]


def test_C078_E032_I013_H075_hits_over_both_protocols(cached):
    with th.InferenceServerClient(cached.http) as h, tg.InferenceServerClient(cached.grpc) as g:
        first = infer(h, th, request_id="a")
        again = infer(h, th, request_id="b")
        assert (first.get_response()["id"], again.get_response()["id"]) == ("a", "b")
        assert infer(g, tg, request_id="c").get_response().id == "c"
        infer(h, th, value=2)
        for _ in range(3):
            infer(h, th, "plain")
    s = stats(cached, "sums")
    assert (s["inference_count"], s["execution_count"]) == (2, 2)
    i = s["inference_stats"]
    assert (i["success"]["count"], i["cache_hit"]["count"], i["cache_miss"]["count"],
            i["compute_infer"]["count"]) == (4, 2, 2, 2)
    assert i["cache_hit"]["ns"] > 0 and i["cache_miss"]["ns"] > 0
    plain = stats(cached, "plain")
    assert plain["inference_count"] == 3 and plain["inference_stats"]["cache_miss"]["count"] == 0


def test_E012_E013_E026_I013_metrics(cached):
    with th.InferenceServerClient(cached.http) as h:
        for _ in range(3):
            infer(h, th)
    text = cached.request("GET", "/metrics", address=cached.metrics).body.decode()
    value = dict(re.findall(r"^(nv_cache_\w+(?:\{[^}]*\})?) (\S+)$", text, re.M))
    of = '{model="sums",version="1"}'
    assert value["nv_cache_num_hits_per_model" + of] == "2" and value["nv_cache_num_misses_per_model" + of] == "1"
    assert "nv_cache_num_hits_per_model" + of.replace("sums", "plain") not in value
    for name, want in {"num_entries": "1", "num_hits": "2", "num_misses": "1", "num_lookups": "3",
                       "num_evictions": "0"}.items():
        assert value["nv_cache_" + name] == want, name
    assert 0 < float(value["nv_cache_util"]) < 0.01
    assert 'nv_inference_request_success{model="sums",version="1"} 3' in text
    assert 'nv_inference_count{model="sums",version="1"} 1' in text


def test_C078_without_a_cache_nothing_is_cached(tmp_path):
    repo = tmp_path / "models"
    models.write_sums(repo, "sums", "max_batch_size: 8\nresponse_cache { enable: true }\n")
    with Server(repo, tmp_path) as s:
        with th.InferenceServerClient(s.http) as h:
            infer(h, th)
            infer(h, th)
        assert stats(s, "sums")["inference_count"] == 2
        assert "--cache-config=local,size=" in s.log()
        assert "nv_cache_" not in s.request("GET", "/metrics", address=s.metrics).body.decode()


def test_C078_a_reload_clears_the_cache(tmp_path):
    repo = tmp_path / "models"
    models.write_sums(repo, "sums", "max_batch_size: 8\nresponse_cache { enable: true }\n")
    with Server(repo, tmp_path, "--cache-config=local,size=1048576", "--model-control-mode=explicit",
                "--load-model=sums") as s:
        with th.InferenceServerClient(s.http) as h:
            infer(h, th)
            infer(h, th)
            h.unload_model("sums")
            h.load_model("sums")
            # The counts continue if the load replaced the version before its unload was complete.
            before = stats(s, "sums")["inference_stats"]
            infer(h, th)
            after = stats(s, "sums")["inference_stats"]
        assert after["cache_hit"]["count"] == before["cache_hit"]["count"]
        assert after["cache_miss"]["count"] == before["cache_miss"]["count"] + 1


def test_C078_a_decoupled_model_is_refused(tmp_path):
    repo = tmp_path / "models"
    models.write_sums(repo, "sums", "response_cache { enable: true }\nmodel_transaction_policy { decoupled: true }\n")
    with Server(repo, tmp_path, "--cache-config=local,size=1048576", "--exit-on-error=false", wait="live") as s:
        state, reason = s.index()["sums", "1"] if ("sums", "1") in s.index() else s.index()["sums", ""]
        assert state != "READY" and "response cache" in reason
