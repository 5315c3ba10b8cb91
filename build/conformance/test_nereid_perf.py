"""nereid perf accepts perf_analyzer's options, agrees with the server's counts, and writes perf_analyzer's CSV."""

import base64
import csv
import json
import os
import platform
import struct
import subprocess

import pytest

import models
from harness import BINARY, ROOT, Server

FOLDER = ROOT / ".cache/perf_analyzer"  # the program and its libraries
REQUESTS = 60

REPEAT = {"data": [{"IN": {"content": [1, 2, 3], "shape": [3]}, "DELAY": {"content": [0, 0, 0], "shape": [3]},
                    "WAIT": [0]}]}
SUMS = {
    "data": [{"INPUT0": [1] * 16, "INPUT1": {"b64": base64.b64encode(struct.pack("<16i", *[2] * 16)).decode()}}],
    "validation_data": [{"OUTPUT0": [3] * 16, "OUTPUT1": [-1] * 16}],
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    work = tmp_path_factory.mktemp("measured")
    models.write_simple_sequence(work / "models")
    with Server(models.write_cases(work / "models"), work, "--log-verbose=0") as s:
        yield s


def counts(server, model):
    """The numbers of successful and of failed requests of a model."""
    s = server.get(f"/v2/models/{model}/stats").json["model_stats"][0]["inference_stats"]
    return s["success"]["count"], s["fail"]["count"]


COUNTED = ["--request-count", str(REQUESTS)]
# perf_analyzer sometimes waits for ever with --request-count: its threads end before it looks at how many requests
# they have sent. The columns of its CSV are the same with windows of time.
TIMED = ["--measurement-interval", "200", "--stability-percentage", "999"]


def measure(program, server, tmp_path, protocol, model, options):
    """Runs a program with perf_analyzer's options. Returns its output, and the columns and the first row of its CSV."""
    report = tmp_path / f"{os.path.basename(program[0])}.csv"
    argv = program + ["-m", model, "-i", protocol, "-u", getattr(server, protocol), "-f", str(report)] + options
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LD_LIBRARY_PATH": str(FOLDER)})
    assert done.returncode == 0, done.stdout + done.stderr
    with report.open() as f:
        rows = csv.DictReader(f)
        return done.stdout, rows.fieldnames, next(rows)


MODES = {
    "F001-F018 http": ("http", "plain", ["--concurrency-range", "4"]),
    "F018 http verbose": ("http", "plain", ["--verbose-csv"]),
    "F018-F009 grpc percentile": ("grpc", "plain", ["--percentile", "85", "--verbose-csv"]),
    "F018-F002 http rate": ("http", "plain", ["--request-rate-range", "50"]),
    "F018-F020 http metrics": ("http", "plain", ["--collect-metrics", "--verbose-csv", "--metrics-url", "METRICS"]),
    "F018-F013 grpc stream decoupled": ("grpc", "repeat", ["--async", "--streaming", "--input-data", "REPEAT"]),
    "F011 http validation": ("http", "add_sub_INT32", ["--input-data", "SUMS"]),
    "F015 http sequences": ("http", "simple_sequence", ["--concurrency-range", "2", "--sequence-length", "5"]),
}


@pytest.mark.parametrize("name", MODES)
def test_F018_F013_counts_and_columns(measured, tmp_path, name):
    protocol, model, options = MODES[name]
    for word, value in {"REPEAT": REPEAT, "SUMS": SUMS}.items():
        if word in options:
            path = tmp_path / f"{word}.json"
            path.write_text(json.dumps(value))
            options = [str(path) if o == word else o for o in options]
    options = [f"{measured.metrics}/metrics" if o == "METRICS" else o for o in options]
    before = counts(measured, model)
    out, columns, row = measure([BINARY, "perf"], measured, tmp_path, protocol, model, options + COUNTED)
    after = counts(measured, model)
    # At the end, each open sequence gets one more request with the END flag.
    assert REQUESTS <= after[0] - before[0] <= REQUESTS + (2 if "sequences" in name else 0), out
    assert after[1] == before[1], out
    assert f"Request count: {REQUESTS}\n" in out
    assert float(row["Inferences/Second"]) > 0
    if "sequences" in name or platform.machine() != "x86_64":
        return  # perf_analyzer's sequences sometimes fail, and it only exists for x86_64
    _, theirs, _ = measure([str(FOLDER / "perf_analyzer")], measured, tmp_path, protocol, model, options + TIMED)
    assert columns == theirs


def test_F007_the_search_stops_at_the_threshold(measured, tmp_path):
    """Each request to this model takes half a second, so the search stops at its first level."""
    report = tmp_path / "out.csv"
    argv = [BINARY, "perf", "-m", "slow", "-u", measured.http, "--concurrency-range", "1:0:1", "-l", "100", "-p",
            "1600", "-f", str(report)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "went over the set limit of 100 msec" in done.stderr
    assert "Request concurrency: 2" not in done.stdout and not report.exists()


def test_F004_fixed_schedule(measured, tmp_path):
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": [{"INPUT0": [i] * 16, "timestamp": [10 * i]} for i in range(12)]}))
    export = tmp_path / "export.json"
    before = counts(measured, "plain")
    argv = [BINARY, "perf", "-m", "plain", "-u", measured.http, "--fixed-schedule", "--input-data", str(data),
            "--profile-export-file", str(export)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts(measured, "plain")[0] - before[0] == 12
    experiment = json.loads(export.read_text())["experiments"][0]
    sent = sorted((r["request_inputs"]["INPUT0"][0], r["timestamp"]) for r in experiment["requests"])
    assert [v for v, _ in sent] == list(range(12))
    begin = experiment["window_boundaries"][0]
    assert all(at - begin >= 10_000_000 * v for v, at in sent), "requests were sent before their scheduled time"


def test_F004_entries_without_a_timestamp_are_refused(measured, tmp_path):
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": [{"INPUT0": [1] * 16, "timestamp": [0]}, {"INPUT0": [2] * 16}]}))
    before = counts(measured, "plain")
    argv = [BINARY, "perf", "-m", "plain", "-u", measured.http, "--fixed-schedule", "--input-data", str(data)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 99 and 'stream 0, step 1: has no "timestamp"' in done.stderr, done.stdout + done.stderr
    assert counts(measured, "plain") == before


def test_F011_a_folder_with_an_expected_output_of_variable_size(measured, tmp_path):
    values = struct.pack("<4d", 1, 2, 3, 4)
    (tmp_path / "INPUT0").write_bytes(values)
    argv = [BINARY, "perf", "-m", "identity_FP64", "-u", measured.http, "--shape", "INPUT0:4", "--input-data",
            str(tmp_path), "--request-count", "5"]
    for expected, status in [(values, 0), (values[:16], 99), (struct.pack("<4d", 1, 2, 3, 5), 99)]:
        (tmp_path / "OUTPUT0").write_bytes(expected)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        assert done.returncode == status, done.stdout + done.stderr
        assert status == 0 or 'output "OUTPUT0"' in done.stderr, done.stderr
