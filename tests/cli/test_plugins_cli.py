"""`perpetual plugins`: what is listed and shown, with plugins of other distributions, whole and broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual.cli.app import run

Install = Callable[..., None]
Asked = tuple[int, dict[str, Any]]

HEAD = (
    "from __future__ import annotations\nfrom perpetual.api import GpuBackend, Option, Provider, GpuReading, hookimpl\n"
)
BACKEND = """
class Backend(GpuBackend):
    def read(self, deadline_s: float = 5.0) -> GpuReading:
        return GpuReading(None, (), "of acme")


def build(options: dict) -> Backend:
    return Backend()
"""


def offers(*providers: str, hook: str = "perpetual_gpu_backends") -> str:
    """The source of a plugin that offers these providers."""
    return f"{HEAD}{BACKEND}\n\n@hookimpl\ndef {hook}() -> list:\n    return [{', '.join(providers)}]\n"


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> Asked:
    """The exit status of a command and its one JSON document."""
    capsys.readouterr()
    code = run([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def listed(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The one plugin of that qualified name in a list."""
    (found,) = [item for item in document["items"] if item["qualified_name"] == name]
    item: dict[str, Any] = found
    return item


def test_bundled_plugins_are_listed_with_what_is_in_force(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "plugins", "list")
    assert (code, document["problems"], document["next_cursor"]) == (0, [], None)
    nvml = listed(document, "perpetual-lab/nvml")
    assert (nvml["name"], nvml["slots"], nvml["state"], nvml["reason"]) == ("nvml", ["gpus"], "active", None)
    assert {one["name"]: one["state"] for one in nvml["providers"]} == {"nvml": "active", "none": "available"}
    for name, slot in (("git", "memory"), ("immune", "gate"), ("scorers", "scorer"), ("tinydb", "store")):
        item = listed(document, f"perpetual-lab/{name}")
        assert slot in item["slots"]
        assert "active" in {one["state"] for one in item["providers"] if one["slot"] == slot}
    assert run(["plugins", "list"]) == 0
    shown = capsys.readouterr().out
    assert "gpus nvml, (none)" in shown


def test_the_choice_of_the_configuration_moves_what_is_active(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERPETUAL_GPUS", "perpetual-lab/none")
    nvml = listed(ask(capsys, "plugins", "list")[1], "perpetual-lab/nvml")
    assert {one["name"]: one["state"] for one in nvml["providers"]} == {"nvml": "available", "none": "active"}


def test_the_scorer_of_the_methodology_is_the_active_one(
    project: Path, capsys: pytest.CaptureFixture[str], install: Install
) -> None:
    install("acme", "acme_a", offers("Provider('scorer', 'coin', 'acme_a:build')", hook="perpetual_scorers"))
    assert listed(ask(capsys, "plugins", "list")[1], "acme/acme")["state"] == "available"
    assert ask(capsys, "methodology", "set", "exploration_strategy", "coin")[0] == 0
    document = ask(capsys, "plugins", "list")[1]
    assert listed(document, "acme/acme")["state"] == "active"
    bundled = {one["name"]: one["state"] for one in listed(document, "perpetual-lab/scorers")["providers"]}
    commands = dict.fromkeys(("aa", "bench-policy", "overturn", "power", "sweep", "sweeps"), "active")
    assert bundled == dict.fromkeys(bundled, "available") | commands


@pytest.mark.slow
def test_plugins_list_works_outside_a_project_unless_one_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (("list",), ("show", "tinydb"), ("check", "tinydb")):
        assert ask(capsys, "plugins", *arguments)[0] == 0
    code, document = ask(capsys, "--project", str(tmp_path), "plugins", "list")
    assert (code, document["error"]["code"]) == (5, "no_project")
    assert not (tmp_path / ".perpetual").exists()


def test_one_plugin_is_shown_with_its_options(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "plugins", "show", "tinydb")
    assert (code, document["schema"], document["hooks"]) == (0, "perpetual.plugin/1", [])
    (provider,) = document["providers"]
    assert (provider["slot"], provider["factory"]) == ("store", "perpetual_tinydb.store:open_store")
    assert provider["options"][0]["key"] == "lock_timeout_s"
    assert run(["plugins", "show", "perpetual-lab/tinydb"]) == 0
    assert "plugins.store.tinydb.lock_timeout_s (float, 30.0)" in capsys.readouterr().out
    code, document = ask(capsys, "plugins", "show", "tinidb")
    assert (code, document["error"]["code"]) == (5, "not_found")
    assert "did you mean tinydb" in document["error"]["message"]


def test_an_observer_is_active_and_shows_its_hooks(
    project: Path, capsys: pytest.CaptureFixture[str], install: Install
) -> None:
    install("acme", "acme_b", f"{HEAD}\n@hookimpl\ndef perpetual_event(event: object) -> None:\n    pass\n")
    document = ask(capsys, "plugins", "show", "acme")[1]
    assert (document["state"], document["hooks"], document["providers"]) == ("active", ["perpetual_event"], [])


# --- disabled, missing, failed ------------------------------------------------------------------------------


def test_a_disabled_plugin_that_is_chosen_is_named_everywhere(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(capsys, "config", "set", "plugins.disabled", "tinydb")[0] == 0
    code, document = ask(capsys, "plugins", "list")
    item = listed(document, "perpetual-lab/tinydb")
    assert (code, item["state"], item["reason"]) == (0, "disabled", "plugins.disabled names it")
    (problem,) = document["problems"]
    assert (problem["slot"], problem["name"]) == ("store", "tinydb")
    assert "perpetual-lab/tinydb (plugins.disabled names it)" in problem["hint"]
    code, document = ask(capsys, "memory", "list")
    assert (code, document["error"]["code"]) == (2, "plugin_missing")
    assert "perpetual-lab/tinydb (plugins.disabled names it)" in document["error"]["hint"]
    code, document = ask(capsys, "plugins", "check", "tinydb")
    assert (code, document["ok"], document["items"][0]["ok"]) == (0, True, None)
    assert ask(capsys, "config", "set", "plugins.disabled", "")[0] == 0
    assert ask(capsys, "memory", "list")[0] == 0


def test_a_misspelt_name_leaves_nothing_out_and_is_named(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, document = ask(capsys, "config", "set", "plugins.disabled", "tinydb,imune")
    assert (code, document["error"]["message"]) == (2, "unknown plugin 'imune': did you mean immune?")
    monkeypatch.setenv("PERPETUAL_WITHOUT", "imune")
    words = "nothing is left out: unknown plugin 'imune': did you mean immune?"
    (problem,) = ask(capsys, "plugins", "list")[1]["problems"]
    assert (problem["slot"], problem["name"], problem["message"]) == ("plugin", "imune", words)
    findings = ask(capsys, "doctor")[1]["checks"]
    (finding,) = (one for one in findings if one["check"] == "plugins")
    assert (finding["ok"], finding["detail"]) == (None, words)


def test_a_missing_plugin_that_is_chosen_is_named_everywhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project / ".perpetual" / "config.yaml"
    file.write_text(file.read_text("utf-8").replace("store: tinydb", "store: postgres"), "utf-8")
    (problem,) = ask(capsys, "plugins", "list")[1]["problems"]
    assert (problem["slot"], problem["name"]) == ("store", "postgres")
    code, document = ask(capsys, "memory", "list")
    assert (code, document["error"]["code"]) == (2, "plugin_missing")
    assert "postgres" in document["error"]["message"]
    assert "pip install" in document["error"]["hint"]
    assert ask(capsys, "config", "set", "store", "tinydb")[0] == 0
    assert ask(capsys, "memory", "list")[0] == 0


def test_a_required_gate_that_is_missing_is_a_problem(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "methodology", "set", "required_gates", "immune,nothing")
    assert (code, "'nothing'" in document["error"]["message"]) == (2, True)
    (project / ".perpetual" / "methodology.yaml").write_text("required_gates: [immune, replay]\n")
    (problem,) = ask(capsys, "plugins", "list")[1]["problems"]
    assert (problem["slot"], problem["name"]) == ("gate", "replay")


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("acme_c", "import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("acme_d", "raise SystemExit('bye')\n", "SystemExit: bye"),
        ("acme_e", "def broken(:\n", "SyntaxError"),
        (
            "acme_f",
            f"{HEAD}\n@hookimpl\ndef perpetual_gpu_backend() -> list:\n    return []\n",
            "perpetual_gpu_backends",
        ),
        ("acme_g", offers("1 / 0"), "ZeroDivisionError"),
    ],
)
def test_a_plugin_that_fails_is_listed_with_its_exception_and_stops_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], install: Install, module: str, source: str, reason: str
) -> None:
    install("acme", module, source)
    code, document = ask(capsys, "plugins", "list")
    item = listed(document, "acme/acme")
    assert (code, item["state"], item["version"], item["slots"]) == (0, "failed", "1.2", [])
    assert reason in item["reason"]
    assert ask(capsys, "memory", "list")[0] == 0
    code, document = ask(capsys, "plugins", "check", "acme")
    assert (code, document["ok"], document["items"][0]["ok"]) == (1, False, False)
    code, document = ask(capsys, "--safe", "plugins", "list")
    assert listed(document, "acme/acme")["reason"] == "safe mode: only bundled plugins"


def test_a_provider_that_cannot_serve_is_listed_as_failed_with_the_reason(
    project: Path, capsys: pytest.CaptureFixture[str], install: Install
) -> None:
    newer = "Provider('gpus', 'newer', 'acme_j:build', api=99)"
    lonely = "Provider('gpus', 'lonely', 'acme_j:build', requires=('absent',))"
    install("acme", "acme_j", offers(newer, lonely, "Provider('gpus', 'fine', 'acme_j:build')"))
    item = listed(ask(capsys, "plugins", "list")[1], "acme/acme")
    providers = {one["name"]: (one["state"], one["reason"]) for one in item["providers"]}
    assert item["state"] == "available"
    assert providers["fine"] == ("available", None)
    assert providers["lonely"] == ("failed", "needs the plugin absent")
    assert providers["newer"][0] == "failed"
    assert "plugin API 99" in str(providers["newer"][1])


def test_a_bundled_name_means_the_bundled_part(
    project: Path, capsys: pytest.CaptureFixture[str], install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme", "acme_h", offers("Provider('gpus', 'nvml', 'acme_h:build')"), name="nvml")
    document = ask(capsys, "plugins", "list")[1]
    assert document["problems"] == []
    (provider,) = listed(document, "acme/nvml")["providers"]
    assert (provider["state"], provider["reason"]) == ("available", "nvml is Perpetual's own: write acme/nvml")
    assert ask(capsys, "plugins", "show", "nvml")[1]["qualified_name"] == "perpetual-lab/nvml"
    assert ask(capsys, "gpu-status")[1]["reason"] != "of acme"
    assert ask(capsys, "plugins", "show", "acme/nvml")[1]["version"] == "1.2"
    monkeypatch.setenv("PERPETUAL_GPUS", "acme/nvml")
    assert ask(capsys, "gpu-status")[1]["reason"] == "of acme"
