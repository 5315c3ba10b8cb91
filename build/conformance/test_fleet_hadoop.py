"""Models in a real HDFS, from Maven's packages of Hadoop: a name node and a data node in one process."""

import getpass
import os
import re
import subprocess
import urllib.parse
import urllib.request

import pytest

from harness import ROOT, Server, until

pytestmark = pytest.mark.fleet

CLUSTER = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    """The address of the name node."""
    work = tmp_path_factory.mktemp("hadoop")
    libraries = ROOT / ".cache/fleet/hadoop/lib"
    assert libraries.exists(), "run make test-fleet"
    config, log = work / "config.xml", work / "log"
    with open(log, "w") as out:
        process = subprocess.Popen(
            ["java", "-Xmx512m", f"-Dtest.build.data={work}", "-cp", f"{libraries}/*", CLUSTER, "-nomr", "-format",
             "-writeConfig", config], cwd=work, stdout=out, stderr=out)
    try:
        def address():
            assert process.poll() is None, log.read_text()
            found = re.search("dfs.namenode.http-address</name><value>([^<]+)", config.read_text())
            return found and found[1]

        yield until(address, 120, "no name node", log.read_text)
    finally:
        process.terminate()
        process.wait()


def test_all_cases_of_a_storage_pass_with_a_real_hadoop(hdfs):
    done = subprocess.run(
        ["go", "test", "-count=1", "-v", "-run", "^TestStorages$/^A022_HDFS$", "./engine/repo/cloud"], cwd=ROOT,
        env={**os.environ, "NEREID_TEST_HADOOP": hdfs}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "--- PASS: TestStorages/A022_HDFS/an_interrupted_download_continues" in done.stdout


def test_a_repository_in_hdfs_is_served_and_follows_changes(hdfs, tmp_path):
    def put(path, data):
        query = urllib.parse.urlencode({"op": "CREATE", "overwrite": "true", "user.name": getpass.getuser()})
        request = urllib.request.Request(f"http://{hdfs}/webhdfs/v1/{path}?{query}", method="PUT")
        try:
            urllib.request.urlopen(request)  # names the data node
        except urllib.error.HTTPError as e:
            assert e.code == 307, e
            to = urllib.request.Request(e.headers["Location"], data, method="PUT")
            assert urllib.request.urlopen(to).status == 201

    sample = ROOT / "models-sample/add_sub"
    for file in sample.rglob("*"):
        if file.is_file():
            put(f"repository/add_sub/{file.relative_to(sample)}", file.read_bytes())
    options = [f"--model-repository=hdfs://{hdfs}/repository", "--model-control-mode=poll", "--repository-poll-secs=1"]
    with Server([], tmp_path, *options) as server:
        ones = [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": [1.0] * 16} for n in ("INPUT0", "INPUT1")]
        answer = server.post("/v2/models/add_sub/infer", {"inputs": ones})
        assert answer.status == 200, answer.body
        assert answer.json["outputs"][0]["data"] == [2.0] * 16
        config = (ROOT / "models-sample/builtin_identity/config.pbtxt").read_bytes()
        put("repository/other/config.pbtxt", config.replace(b"builtin_identity", b"other"))
        put("repository/other/1/empty", b"")
        until(lambda: server.get("/v2/models/other/ready").status == 200, 60, "the new model", server.log)
