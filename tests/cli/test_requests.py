"""Two schedulers side by side in one project: chosen by experiment, with requests and options, asked by run."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import UsageError
from perpetual.lab.engines.placing import view_of
from perpetual.lab.ledger.experiments import spec_hash
from perpetual.records import to_json
from perpetual.testing.scheduler_site import make_site
from perpetual.testing.schedulers import SchedulerContract
from perpetual_mcp.write_tools import perpetual_propose
from tests.cli.engine_harness import Call, Json, caller, installed, until

SOURCE = Path(__file__).parents[1] / "fixtures" / "third_party" / "acme-cluster"
ASK = ("--scheduler", "acme-cluster", "--cpus", "400", "--memory", "2TiB", "--nodes", "2", "--engine", "partition=long")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stranger's distribution is installed; answers the folder of the engine's jobs."""
    with installed(SOURCE, tmp_path / "site", monkeypatch):
        yield tmp_path / "engine" / "jobs"


@pytest.fixture
def call(project: Path, cluster: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command with --json and answers its document, an error's too."""
    assert run(["config", "set", "plugins.acme-cluster.state", str(cluster.parent)]) == 0
    return caller(capsys)


def propose(call: Call, *words: str) -> Json:
    made = call("propose", *words, "--cost", "1m")
    return call("approve", made["id"])


def test_each_experiment_has_its_scheduler(
    call: Call, project: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Analysis on this machine beside training on the cluster; a run keeps its own, whatever is configured later."""
    monkeypatch.setenv("OF_THE_LAUNCHER", "x")
    monkeypatch.setenv("ACME_PASSED", "y")
    call("config", "set", "plugins.acme-cluster.passes_env", "ACME_PASSED,ACME_MISSING")
    train = propose(call, "--command", "sh -c 'env; while [ ! -e go ]; do sleep 0.02; done'", *ASK, "--gpus", "8",
                    "--env", "LR=0.1", "--engine", '{"gres": {"count": 3}}', "--engine", "priority=4")  # fmt: skip
    here = propose(call, "--command", "env", "--cpus", "1", "--memory", "64MiB")
    assert train["resources"]["engine"] == {"partition": "long", "gres": {"count": 3}, "priority": 4}
    assert (here["resources"]["scheduler"], here["resources"]["engine"]) == (None, {})
    capsys.readouterr()
    assert run(["experiments", "e1"]) == 0
    shown = capsys.readouterr().out
    assert "8 GPUs, 400 CPUs, 2048 GiB of memory, 2 nodes" in shown
    assert 'by acme-cluster with partition=long gres={"count": 3} priority=4' in shown

    far, near = call("run", "e1"), call("run", "e2", "--wait")
    assert (far["scheduler"], far["status"], far["host"]) == ("acme-cluster", "running", "node2")
    assert (near["scheduler"], near["status"]) == ("local", "done")
    assert near["host"] not in (None, "node2")
    request = json.loads((cluster / "1" / "request").read_text())
    assert (request["cpus"], request["memory_bytes"], request["nodes"], request["gpus"]) == (400, 2 * 2**40, 2, 8)
    assert request["options"] == {
        "partition": "long", "account": None, "priority": 4, "constraint": [], "gres": {"type": "any", "count": 3},
    }  # fmt: skip

    with Lab.open(project) as lab:  # what runs on the cluster holds nothing of this machine
        assert view_of(lab.context).live() == []
        assert [item.run_id for item in view_of(lab.context, "acme-cluster").live()] == ["r1"]

    call("config", "set", "scheduler", "acme-cluster")
    (project / "go").touch()
    ended = until(call, "r1", "done")
    assert (ended["exit_code"], ended["host"]) == (0, "node2")
    words = (project / ".perpetual" / "runs" / "r1" / "stdout.log").read_text().splitlines()
    assert {"LR=0.1", "ACME_PASSED=y", "ACME_PARTITION=long", "PERPETUAL_RUN=r1"} <= set(words)
    assert "OF_THE_LAUNCHER=x" not in words
    assert "OF_THE_LAUNCHER=x" in (project / ".perpetual" / "runs" / "r2" / "stdout.log").read_text().splitlines()


@pytest.mark.slow
def test_the_record_keeps_it_whatever_is_configured(call: Call, cluster: Path, project: Path) -> None:
    """The hash binds it; a run is ended with its own scheduler; without the plugin it stays as it is, and says so."""
    cluster_s = ("--scheduler", "acme-cluster", "--replicates", "2")
    one, other, plain = (
        propose(call, "--command", "sleep 60", *more)
        for more in (cluster_s, (*cluster_s, "--engine", "priority=1"), ("--replicates", "2"))
    )
    assert len({item["spec_hash"] for item in (one, other, plain)}) == 3
    pinned = propose(call, "--command", "true", "--scheduler", "local", "--engine", "{}")
    assert (pinned["resources"]["scheduler"], pinned["resources"]["engine"]) == ("local", {})
    assert call("run", "e1")["scheduler"] == "acme-cluster"
    call("queue", "pause")
    assert call("run", "e2")["status"] == "queued"
    call("queue", "resume")
    call("config", "set", "plugins.disabled", "acme-cluster")
    assert [problem["run_id"] for problem in call("scan", code=1)["problems"]] == ["r1"]
    assert call("runs", "r1")["status"] == "running"
    assert "is to be run by the scheduler 'acme-cluster', which is not here" in call("runs", "r2")["reason"]
    refused = call("run", "e2", code=2)["error"]
    assert "e2 is to be run by the scheduler 'acme-cluster', which is not here" in refused["message"]
    assert "propose e2 again with another --scheduler" in refused["hint"]
    call("config", "set", "plugins.disabled", "")
    assert call("kill", "r1")["status"] == "killed"
    call("kill", "r2")


def test_a_request_that_the_scheduler_does_not_know_is_refused(call: Call) -> None:
    cluster = ("--scheduler", "acme-cluster", "--engine")
    for words, told in (
        (("--scheduler", "acme-clutser"), "scheduler: unknown provider 'acme-clutser': did you mean acme-cluster"),
        ((*cluster, "partion=long"), "unknown engine option of acme-cluster 'partion': did you mean partition"),
        ((*cluster, "partition=lnog"), "partition: unknown value 'lnog': did you mean long?"),
        ((*cluster, "priority=11"), "priority must be at most 10, not 11"),
        ((*cluster, "gres.cuont=1"), "unknown engine option of acme-cluster 'gres.cuont': did you mean gres.count"),
        (("--engine", "partition=long"), "unknown engine option of local 'partition': there is none"),
        (("--engine", "partition"), "--engine takes KEY=VALUE"),
        (("--nodes", "0"), "--nodes must be a whole number from 1 "),
        (("--memory", "0"), "--memory"),
    ):
        error = call("propose", "--command", "true", *words, code=2)["error"]
        assert told in error["message"], error
        if "unknown engine option of acme-cluster" in told:
            assert "gres.type: their kind; partition: the queue" in error["hint"]
    assert call("experiments")["items"] == []


def test_a_request_that_cannot_be_honoured_is_refused(call: Call) -> None:
    for number, (words, told) in enumerate((
        (("--nodes", "2"), "it needs 2 nodes, and its scheduler runs it on this machine"),
        (("--cpus", "99999"), "needs 99999 CPUs, and "),
        (("--memory", "500TiB"), "needs 512000 GiB of memory, and "),
        (("--scheduler", "acme-cluster", "--nodes", "5"), "it needs 5 nodes, and the cluster has 4"),
    ), 1):  # fmt: skip
        propose(call, "--command", "true", *words)
        assert told in call("run", f"e{number}", code=1)["error"]["message"]
    assert call("runs")["items"] == []


def test_a_run_waits_for_the_memory_it_declares(call: Call) -> None:
    """As CPUs are: a run starts where those that are live leave as much as it declares."""
    from perpetual.toolkit.platform import memory_bytes

    most = memory_bytes()
    assert most is not None
    propose(call, "--command", "sleep 60", "--memory", str(most), "--replicates", "2")
    call("run", "e1", "--all")
    found = call("runs", "r2")
    assert (found["status"], "of memory; 0 bytes of" in found["reason"]) == ("queued", True), found["reason"]
    assert "r1 holds" in found["reason"]
    call("kill", "r2")
    call("kill", "r1")


def test_an_agent_asks_for_the_same(cluster: Path, project: Path) -> None:
    """Through the MCP tool, whose numbers have units; options are JSON there, and texts are read as their types."""
    with Lab.open(project) as lab:
        perpetual_propose(lab, command="true", cpus=2, memory="64GiB", nodes=2, scheduler="acme-cluster",
                          engine={"partition": "long", "priority": "4", "gres": {"count": 1}})  # fmt: skip
        found = lab.experiments.get("e1").resources
        assert (found.cpus, found.memory_bytes, found.nodes, found.scheduler) == (2, 64 * 2**30, 2, "acme-cluster")
        assert found.engine == {"partition": "long", "priority": 4, "gres": {"count": 1}}
        with pytest.raises(UsageError, match="unknown engine option of acme-cluster 'partion': did you mean"):
            perpetual_propose(lab, command="true", scheduler="acme-cluster", engine={"partion": "long"})


@pytest.mark.slow
def test_the_cluster_keeps_what_the_suite_asks(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests, options, machines and environment: its runs do not inherit this machine's."""
    options = {"state": str(cluster.parent), "passes_env": []}
    scheduler = importlib.import_module("acme_cluster.scheduler").build(options)
    suite = SchedulerContract()
    with make_site(tmp_path / "suite", scheduler, patience_s=30.0, options=options) as place:
        suite.test_a_request_is_honoured_or_refused(place)
        suite.test_engine_options_are_declared(place)
        suite.test_its_machine_is_named(place)
        suite.test_words_folder_and_environment_are_the_spec_s(place, monkeypatch)


def test_earlier_specifications_keep_their_hashes(project: Path) -> None:
    """What was not asked for is not in the hash; each request, the scheduler and each option is."""
    with Lab.open(project) as lab:
        body = to_json(lab.experiments.propose(command="true"))
    earlier = {name: value for name, value in body["resources"].items()
               if name not in ("memory_bytes", "nodes", "scheduler", "engine")}  # fmt: skip
    assert spec_hash({**body, "resources": earlier}) == spec_hash(body) == body["spec_hash"]
    asked: list[Json] = [{"memory_bytes": 1}, {"nodes": 1}, {"scheduler": "local"}, {"engine": {"a": 1}}]
    others = {spec_hash({**body, "resources": {**body["resources"], **one}}) for one in asked}
    assert len(others - {body["spec_hash"]}) == len(asked)
