"""`perpetual config`, `methodology`, `doctor`, `gpu-status` and `completion`: what is shown, set and refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Finding
from perpetual.cli.app import run
from perpetual.config import KEYS as CONFIG_KEYS
from perpetual.lab.methodology import KEYS
from perpetual_devkit.server_check import ServerCheck

CONFIG, METHODOLOGY = ".perpetual/config.yaml", ".perpetual/methodology.yaml"


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status of a command and its one JSON document."""
    capsys.readouterr()
    code = run([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def values(document: dict[str, Any]) -> dict[str, Any]:
    """A list of settings as {key: value}."""
    return {item["key"]: item["value"] for item in document["items"]}


def test_config_shows_every_key_with_origin_and_meaning(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERPETUAL_GPUS", "none")
    code, document = ask(capsys, "config", "show")
    items = {item["key"]: item for item in document["items"]}
    assert code == 0
    assert {*CONFIG_KEYS, "plugins.disabled", "plugins.tinydb.lock_timeout_s"} <= set(items)
    assert (items["gpus"]["value"], items["gpus"]["origin"]) == ("none", "environment")
    assert items["project"]["origin"] == "project"
    assert items["plugins.tinydb.lock_timeout_s"]["origin"] == "default"
    assert all(item["meaning"] for item in items.values())
    assert run(["config", "show"]) == 0
    assert " environment " not in capsys.readouterr().out
    assert run(["config", "show", "--origin"]) == 0
    assert " environment " in capsys.readouterr().out


def test_config_set_changes_what_is_in_force_and_keeps_comments(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / CONFIG
    file.write_text(file.read_text("utf-8").replace("gpus: nvml", "gpus: nvml  # the cluster has none"), "utf-8")
    before = file.read_text("utf-8")
    code, answer = ask(capsys, "config", "set", "gpus", "none")
    assert (code, answer["schema"], answer["value"], answer["origin"]) == (0, "perpetual.setting/1", "none", "project")
    assert file.read_text("utf-8") == before.replace("gpus: nvml  #", "gpus: none  #")
    assert values(ask(capsys, "config", "show")[1])["gpus"] == "none"
    assert "configured to use no GPUs" in ask(capsys, "gpu-status")[1]["reason"]


def test_config_set_reaches_the_options_of_a_plugin(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = ask(capsys, "config", "set", "plugins.tinydb.lock_timeout_s", "2.5")
    assert (code, answer["value"]) == (0, 2.5)
    with Lab.open(project) as lab:
        assert lab.options_of(lab.registry.choose("store", "tinydb")) == {"lock_timeout_s": 2.5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("config", "set", "stoer", "tinydb"), "did you mean store"),
        (("config", "set", "store", "tinidb"), "did you mean tinydb"),
        (("config", "set", "scheduler", "slurm"), "unknown provider 'slurm'"),
        (("config", "set", "format", "2"), "written once, by init"),
        (("config", "set", "project_id", "abc"), "written once, by init"),
        (("config", "set", "plugins.tinydb.lock_timeout_s", "soon"), "must be a number"),
        (("config", "set", "plugins.tinydb.lock_timeout", "3"), "did you mean plugins.tinydb.lock_timeout_s"),
        (("config", "set", "plugins.nobody.x", "3"), "unknown key"),
        (("config", "set", "plugins", "3"), "unknown key"),
        (("config", "set", "gpus"), "Missing argument 'VALUE'"),
        (("methodology", "set", "alpha", "2"), "at most 0.5"),
        (("methodology", "set", "alhpa", "0.05"), "did you mean alpha"),
        (("methodology", "set", "kill_grace_s", "-1"), "at least 0"),
        (("methodology", "set", "auto_propose", "7"), "true or false"),
        (("methodology", "set", "exploration_strategy", "information-gian"), "did you mean information-gain"),
        (("methodology", "show", "--orgin"), "No such option"),
        (("completion", "zhs"), "did you mean zsh"),
    ],
)
def test_a_bad_value_is_exit_2_and_changes_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    before = [(project / name).read_bytes() for name in (CONFIG, METHODOLOGY)]
    code, answer = ask(capsys, *arguments)
    assert (code, answer["error"]["exit"]) == (2, 2)
    assert words in answer["error"]["message"]
    assert [(project / name).read_bytes() for name in (CONFIG, METHODOLOGY)] == before


def test_the_methodology_is_shown_and_set_with_an_event(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "methodology", "show")
    brought = {"stoppers.active", "stoppers.at"}  # by bundled plugins
    assert (code, set(values(document))) == (0, {*KEYS} | brought)
    before = (project / METHODOLOGY).read_text("utf-8")
    code, answer = ask(capsys, "methodology", "set", "alpha", "0.05")
    assert (code, answer["value"], answer["origin"]) == (0, 0.05, "project")
    assert (project / METHODOLOGY).read_text("utf-8") == before.replace("alpha:\n", "alpha: 0.05\n")
    assert values(ask(capsys, "methodology", "show")[1])["alpha"] == 0.05
    event = ask(capsys, "events")[1]["items"][-1]
    assert (event["kind"], event["subject"], event["payload"]) == (
        "methodology_set",
        "alpha",
        {"value": 0.05, "was": None},
    )


def test_methodology_init_writes_the_file_where_there_is_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = ask(capsys, "methodology", "init")
    assert (code, answer["error"]["code"]) == (6, "conflict")
    default = (project / METHODOLOGY).read_text("utf-8")
    (project / METHODOLOGY).unlink()
    code, document = ask(capsys, "methodology", "init")
    assert (code, document["schema"]) == (0, "perpetual.methodology/1")
    assert (project / METHODOLOGY).read_text("utf-8") == default


@pytest.mark.parametrize("variable", ["CLAUDECODE", "GEMINI_CLI", "AGENT"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents_may_approve", "true"),
        ("auto_approve", "true"),
        ("required_gates", ""),
        ("confidence_support_threshold", "0.6"),
        ("min_replicates", "1"),
    ],
)
def test_an_agent_does_not_widen_its_own_rights(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    key: str,
    value: str,
) -> None:
    before = (project / METHODOLOGY).read_bytes()
    monkeypatch.setenv(variable, "1")
    code, answer = ask(capsys, "methodology", "set", key, value)
    assert (code, answer["error"]["code"]) == (4, "not_permitted")
    assert (project / METHODOLOGY).read_bytes() == before
    assert ask(capsys, "methodology", "set", "proposal_batch_size", "5")[0] == 0
    monkeypatch.delenv(variable)
    assert ask(capsys, "methodology", "set", key, value)[0] == 0


# --- broken and foreign projects ----------------------------------------------------------------------------

DEEDS = (("status",), ("config", "show"), ("config", "set", "gpus", "none"), ("memory", "list"), ("plugins", "list"))


@pytest.mark.parametrize("deed", DEEDS)
def test_broken_yaml_is_exit_2_and_names_the_line(
    project: Path, capsys: pytest.CaptureFixture[str], deed: tuple[str, ...]
) -> None:
    text = "format: 1\nproject: 'no end\nstore: tinydb\n"
    (project / CONFIG).write_text(text, "utf-8")
    code, answer = ask(capsys, *deed)
    assert (code, answer["error"]["code"]) == (2, "config")
    assert f"{CONFIG}:" in answer["error"]["message"]
    assert (project / CONFIG).read_text("utf-8") == text


def test_a_wrong_methodology_names_the_line_and_the_nearest_key(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / METHODOLOGY).write_text("# ours\n\nmin_replicats: 3\n", "utf-8")
    for deed in (("methodology", "show"), ("methodology", "set", "alpha", "0.05"), ("methodology", "init")):
        code, answer = ask(capsys, *deed)
        assert (code, answer["error"]["code"]) == (2, "config")
        assert (
            f"{METHODOLOGY}:3: unknown key 'min_replicats': did you mean min_replicates" in answer["error"]["message"]
        )


@pytest.mark.parametrize("deed", DEEDS)
def test_a_newer_project_is_exit_6_by_name(
    project: Path, capsys: pytest.CaptureFixture[str], deed: tuple[str, ...]
) -> None:
    text = "format: 99\nproject: of tomorrow\nholograms: true\n"
    (project / CONFIG).write_text(text, "utf-8")
    code, answer = ask(capsys, *deed)
    assert (code, answer["error"]["code"]) == (6, "foreign_project")
    assert "format 99" in answer["error"]["message"]
    assert "upgrade" in answer["error"]["hint"]
    assert (project / CONFIG).read_text("utf-8") == text


@pytest.mark.parametrize("deed", DEEDS)
def test_another_tools_folder_is_exit_6_and_untouched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, deed: tuple[str, ...]
) -> None:
    theirs = tmp_path / ".perpetual"
    theirs.mkdir()
    (theirs / "graph.db").write_bytes(b"SQLite format 3\0")
    (theirs / "config.yaml").write_text("budget_gpu_hours: 3\n", "utf-8")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in theirs.iterdir()}
    monkeypatch.chdir(tmp_path)
    code, answer = ask(capsys, *deed)
    assert (code, answer["error"]["code"]) == (6, "foreign_project")
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in theirs.iterdir()} == before


@pytest.mark.parametrize("deed", [*DEEDS[:4], ("methodology", "show"), ("methodology", "init")])
def test_outside_a_project_it_is_exit_5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, deed: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, answer = ask(capsys, *deed)
    assert (code, answer["error"]["code"], answer["error"]["hint"]) == (5, "no_project", "perpetual init")


# --- the machine --------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server that the doctor would start is started by a test of its own."""
    monkeypatch.setattr(ServerCheck, "examine", lambda *_: Finding(None, "not asked"))


def test_the_doctor_finds_a_sound_project_sound(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = ask(capsys, "doctor")
    checks = {check["check"]: check for check in answer["checks"]}
    assert {"import", "platform", "plugins", "slots", "store", "permissions", "disk", "live_runs"} <= set(checks)
    assert (code, answer["ok"]) == (0, True), [check for check in answer["checks"] if check["ok"] is False]


@pytest.mark.slow
def test_the_doctor_ends_with_1_and_names_what_is_wrong(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chmod(project / ".perpetual", 0o755)
    code, answer = ask(capsys, "doctor")
    wrong = [check for check in answer["checks"] if check["ok"] is False]
    assert (code, answer["ok"], [check["check"] for check in wrong]) == (1, False, ["permissions"])
    assert "chmod -R go-rwx" in wrong[0]["hint"]
    assert run(["doctor"]) == 1
    assert "BAD  permissions" in capsys.readouterr().out


def test_the_doctor_works_outside_a_project_and_in_a_broken_one(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / CONFIG).write_text("format: 1\nstoer: x\n", "utf-8")
    code, answer = ask(capsys, "doctor")
    assert (code, answer["checks"][-1]["check"], answer["checks"][-1]["ok"]) == (1, "project", False)
    assert "did you mean store" in answer["checks"][-1]["detail"]
    monkeypatch.chdir(tmp_path)
    code, answer = ask(capsys, "doctor")
    assert code == 0
    assert {check["check"] for check in answer["checks"]} == {"import", "platform", "git"}
    code, answer = ask(capsys, "--project", str(tmp_path), "doctor")
    assert (code, answer["error"]["code"]) == (5, "no_project")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_the_shell_takes(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    code, answer = ask(capsys, "completion", shell)
    assert (code, answer["shell"]) == (0, shell)
    assert "_PERPETUAL_COMPLETE" in answer["script"]
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run([program, "-n"], input=answer["script"].encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("perpetual meth", "methodology"), ("perpetual memory hi", "history"), ("perpetual --pro", "--project")],
)
def test_the_program_completes_words(tmp_path: Path, words: str, wanted: str) -> None:
    environment = {**os.environ, "_PERPETUAL_COMPLETE": "bash_complete", "COMP_WORDS": words,
                   "COMP_CWORD": str(len(words.split()) - 1)}  # fmt: skip
    command = [sys.executable, "-m", "perpetual"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"plain,{wanted}"], done.stderr
