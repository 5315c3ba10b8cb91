"""Which model configurations load, and what /config then says. The verdicts are Triton's; `deviates` marks the
others."""

import pytest

from harness import REFERENCE, Server, deviates

CODE = """import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("O", pb.get_input_tensor_by_name(r, "I").as_numpy())]) for r in requests]
"""
INPUT = 'input { name: "I" data_type: TYPE_FP32 dims: 4 }\n'
OUTPUT = 'output { name: "O" data_type: TYPE_FP32 dims: 4 }\n'
PORTS = INPUT + OUTPUT


def python(more="", backend='backend: "python"\n', batch="max_batch_size: 4\n", ports=PORTS):
    return backend + batch + ports + more


def ensemble(step, more="", batch="max_batch_size: 4\n", platform='platform: "ensemble"\n', limit="", ports=PORTS):
    return (
        f"{platform}{batch}{ports}{more}ensemble_scheduling {{ {limit}\n"
        f'  step {{ model_name: "{step}" model_version: -1 input_map {{ key: "I" value: "I" }} '
        'output_map { key: "O" value: "O" } }\n}\n'
    )


def level(n):
    return f"priority_queue_policy {{ key: {n} value {{ max_queue_size: 3 }} }}"


STATE = 'state { input_name: "SI" output_name: "SO" data_type: TYPE_FP32 dims: 4 }'
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
CACHE = "response_cache { enable: true }\n"
GROUP = "instance_group { kind: KIND_CPU "

# name: (configuration, ready on Triton, ready here)
CONFIGURATIONS = {
    "base": (python(), True, True),
    "seq": (python("sequence_batching { }"), True, True),
    "dec": (python(DECOUPLED), True, True),
    "map_without_key": (python('parameters { value { string_value: "x" } }'), True, True),
    "platform_beside_backend": (python(backend='backend: "python"\nplatform: "python"\n'), True, True),
    "platform_of_another_backend": (python(backend='backend: "python"\nplatform: "tensorrt_plan"\n'), True, True),
    "output_twice": (python(ports=PORTS + OUTPUT), True, True),
    "policies_without_levels": (python(f"dynamic_batching {{ {level(1)} {level(2)} }}"), True, True),
    "policy_above_levels": (
        python(f"dynamic_batching {{ priority_levels: 2 default_priority_level: 1 {level(9)} }}"), False, False),
    "state": (python(f"sequence_batching {{ {STATE} }}"), True, True),
    "count_negative": (python(GROUP + "count: -1 }"), True, True),
    "groups_of_one_name": (python((GROUP + 'name: "a" }\n') * 2), True, True),
    "secondary_device": (python(GROUP + "secondary_devices { kind: KIND_NVDLA device_id: 7 } }"), True, True),
    "batch_input": (
        python('batch_input { kind: BATCH_ELEMENT_COUNT target_name: "B" data_type: TYPE_FP32 source_input: "I" }'),
        True, True),
    "batch_output": (
        python('batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "O" source_input: "I" }'), True, True),
    "dec_cache": (python(DECOUPLED + CACHE), False, False),
    "e_plain": (ensemble("base"), True, True),
    "e_flag": (ensemble("base", DECOUPLED), True, True),
    "e_dec": (ensemble("dec"), True, True),
    "e_e_dec": (ensemble("e_dec"), True, True),
    "e_dec_cache": (ensemble("dec", CACHE), False, False),
    "e_unbatched": (ensemble("base", batch=""), True, True),
    "e_of_itself": (ensemble("e_of_itself"), False, False),
    # deliberate differences
    "input_twice_DV77": (python(ports=PORTS + INPUT), True, False),
    "batch_size_DV78": (python(batch="max_batch_size: 2147483647\n"), True, False),
    "levels_DV78": (python("dynamic_batching { priority_levels: 70000 default_priority_level: 1 }"), True, False),
    "all_passive_DV79": (python(GROUP + "passive: true }"), True, False),
    "gpus_that_are_not_there_DV80": (python("instance_group { gpus: [ 0 ] }"), False, True),
    "byte_order_mark_DV81": ("\ufeff" + python(), False, True),
    "e_without_platform_DV81": (ensemble("base", platform=""), False, True),
    "e_limit_DV82": (ensemble("base", limit="max_inflight_requests: 2"), False, True),
    "e_seq_cache_DV83": (ensemble("seq", CACHE), True, False),
    "negative_batch_size_DV84": (python(batch="max_batch_size: -1\n"), False, False),
}


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    work = tmp_path_factory.mktemp("verdicts")
    for name, (config, *_) in CONFIGURATIONS.items():
        folder = work / "models" / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(config, encoding="utf-8")
        if "ensemble_scheduling" not in config:
            (folder / "1/model.py").write_text(CODE)
    options = ["--model-control-mode=explicit", "--cache-config=local,size=1048576"]
    with Server(work / "models", work, *options) as s:
        yield s


def load(server, name):
    return server.post(f"/v2/repository/models/{name}/load", {})


@pytest.mark.parametrize("name", [n for n in CONFIGURATIONS if n != "e_of_itself"])
def test_verdict_on_a_configuration_C001(explicit, name):
    ready = deviates(*CONFIGURATIONS[name][1:])
    answer = load(explicit, name)
    assert (answer.status == 200) == ready, answer.body
    assert (explicit.get(f"/v2/models/{name}/ready").status == 200) == ready


@pytest.mark.parametrize("name, decoupled", [
    ("dec", True), ("e_plain", False), ("e_flag", False), ("e_dec", True), ("e_e_dec", True),
])
def test_transaction_policy_of_an_ensemble_is_that_of_its_steps_C048_C053(explicit, name, decoupled):
    assert load(explicit, name).status == 200
    config = explicit.get(f"/v2/models/{name}/config").json
    assert config["model_transaction_policy"] == {"decoupled": decoupled}


def test_shown_configuration_C062(explicit):
    for name in ("count_negative", "groups_of_one_name", "secondary_device"):
        assert load(explicit, name).status == 200
    groups = explicit.get("/v2/models/count_negative/config").json["instance_group"]
    assert [g["count"] for g in groups] == [1]
    groups = explicit.get("/v2/models/groups_of_one_name/config").json["instance_group"]
    assert [g["name"] for g in groups] == ["a", "a"]
    groups = explicit.get("/v2/models/secondary_device/config").json["instance_group"]
    assert groups[0]["secondary_devices"] == [{"kind": "KIND_NVDLA", "device_id": "7"}]


@pytest.mark.parametrize("name", ["state", "batch_input", "output_twice", "platform_beside_backend", "count_negative"])
def test_a_model_with_settings_that_do_nothing_answers(explicit, name):
    assert load(explicit, name).status == 200
    tensor = {"name": "I", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    sequence = {"sequence_id": 5, "sequence_start": True} if name == "state" else {}
    answer = explicit.post(f"/v2/models/{name}/infer", {"inputs": [tensor], "parameters": sequence})
    assert answer.status == 200, answer.body
    assert answer.json["outputs"] == [{"name": "O", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]


def test_text_about_the_cache_of_a_decoupled_model_C078(explicit):
    assert "Response Cache does not currently support model e_dec_cache with 'decoupled' transaction policy" in load(
        explicit, "e_dec_cache").error


def test_a_cycle_of_ensembles_is_the_clients_mistake(explicit):
    answer = load(explicit, "e_of_itself")
    assert answer.status == 400
    assert answer.error.startswith("load failed for model 'e_of_itself': circular dependency between ensembles: ")


def test_status_of_an_invalid_configuration_DV84(explicit):
    assert load(explicit, "negative_batch_size_DV84").status == deviates(500, 400)


def test_the_index_has_folders_as_they_are_now_B013(explicit):
    models = explicit.repositories[0]

    def listed():
        return [row["name"] for row in explicit.post("/v2/repository/index", {}).json]

    (models / "new").mkdir()
    assert "new" in listed()
    assert {"name": "new"} in explicit.post("/v2/repository/index", {}).json
    assert "new" not in [row["name"] for row in explicit.post("/v2/repository/index", {"ready": True}).json]
    (models / "new").rmdir()
    assert "new" not in listed()


def test_a_repository_that_is_not_there_DV85(tmp_path):
    server = Server(tmp_path / "nowhere", tmp_path, "--exit-on-error=false", wait=None)
    if REFERENCE:
        with server:
            assert server.get("/v2/health/live").status == 400
        return
    with pytest.raises(AssertionError, match="the server exited with 1"), server:
        pass
