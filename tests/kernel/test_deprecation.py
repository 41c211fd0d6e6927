"""Names that are replaced go on working and say so; plugin interfaces are served side by side; a newer one is named."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab, discovery, hookspecs, slots
from perpetual.api import PerpetualDeprecationWarning, Provider, hookimpl
from perpetual.catalogue import PluginInfo
from perpetual.cli.app import run
from perpetual.hookspecs import Replaced
from perpetual.registry import Registry
from perpetual.toolkit.deprecation import announced, collected, warn_replaced

GATE = (
    "from perpetual.api import {name}, Provider, hookimpl\n\n\n@hookimpl\ndef perpetual_gates():\n"
    "    return [Provider(slot='gate', name='old', factory='{module}:build')]\n\n\n"
    "def build(options):\n    return None\n"
)


def found(loader: Callable[[], object]) -> PluginInfo:
    """The plugin that a loader answers, as discovery finds it."""
    plugins = Registry(extra=[("acme", "acme", "1.0", loader)]).plugins
    return next(info for info in plugins if info.qualified_name == "acme/acme")


def offering(hook: str, *providers: Provider) -> ModuleType:
    plugin = ModuleType("acme")

    def offer() -> list[Provider]:
        return [*providers]

    setattr(plugin, hook, hookimpl(offer))
    return plugin


# --- names ----------------------------------------------------------------------------------------------------


def test_a_replaced_name_says_since_when_and_what_to_write() -> None:
    with pytest.warns(PerpetualDeprecationWarning, match="is called CliContext now") as seen:
        from perpetual.api import Face
    warning = seen[0].message
    assert isinstance(warning, PerpetualDeprecationWarning)
    assert (warning.name, warning.replacement, warning.since) == ("perpetual.api.Face", "CliContext", "0.1.0")
    assert (warning.removal, Face.__name__) == ("plugin API 1", "CliContext")
    assert Path(seen[0].filename) == Path(__file__)


def test_a_replaced_name_warns_once_a_process_and_names_its_user() -> None:
    said: list[str] = []
    with announced(said.append), warnings.catch_warnings():
        warnings.simplefilter("ignore", PerpetualDeprecationWarning)
        for _ in range(3):
            warn_replaced("an_old_word", "word", since="0.1.0", removal="0.3.0")
    assert [line.partition(": ")[2] for line in said] == [
        "an_old_word is called word now (since 0.1.0; it goes with 0.3.0)"
    ]
    assert said[0].startswith(f"{__name__.rpartition('.')[0]}") or said[0].startswith(__name__)


def test_other_warnings_go_on_as_ever() -> None:
    replaced: list[str] = []

    def warned() -> None:
        with collected() as found:
            warnings.warn("mine", UserWarning, stacklevel=1)
            warn_replaced("a", "b", since="1", removal="2")
        replaced.extend(found)

    with pytest.warns(UserWarning, match="mine") as seen:
        warned()
    assert (replaced, len(seen)) == (["a is called b now (since 1; it goes with 2)"], 1)


def test_a_plugin_that_uses_one_is_listed(project: Path, install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    install("acme-old", "acme_old", GATE.format(name="Face", module="acme_old"))
    assert run(["plugins", "show", "acme-old", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["state"] == "active"
    assert shown["deprecations"] == [
        "perpetual.api.Face is called CliContext now (since 0.1.0; it goes with plugin API 1)"
    ]
    assert run(["plugins", "list"]) == 0
    assert "deprecated: acme-old/acme-old: perpetual.api.Face" in capsys.readouterr().err
    assert run(["plugins", "check", "acme-old", "--no-suites"]) == 0
    assert "deprecated: acme-old/old: perpetual.api.Face" in capsys.readouterr().out


@pytest.mark.slow
def test_the_doctor_names_deprecated_uses(project: Path, install: Any) -> None:
    install("acme-old", "acme_old", GATE.format(name="Face", module="acme_old"))
    with Lab.open(project) as lab:
        checks = {item["check"]: item for item in lab.doctor()}
    assert checks["plugins"]["ok"] is True
    assert "acme-old/acme-old: perpetual.api.Face is called" in checks["plugins"]["detail"]


@pytest.mark.slow
def test_a_command_says_it_on_standard_error_alone(project: Path) -> None:
    code = (
        "import sys\nfrom perpetual.cli import overview\n"
        "def late(*_): from perpetual.api import Face, pass_face, Face as again\n"
        "overview.status.callback, before = (lambda *a, **k: (late(), before(*a, **k))[1]), overview.status.callback\n"
        "from perpetual.cli.app import run\nsys.exit(run(['status', '--json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["schema"] == "perpetual.status/1"
    lines = [line for line in done.stderr.splitlines() if line.startswith("deprecated: ")]
    assert [line.split()[2] for line in lines] == ["perpetual.api.Face", "perpetual.api.pass_face"]


# --- hooks ----------------------------------------------------------------------------------------------------


def test_a_plugin_with_a_hooks_old_name_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hookspecs.REPLACED, "perpetual_judges", Replaced("perpetual_gates", "0.2.0", "0.4.0"))
    info = found(lambda: offering("perpetual_judges", Provider("gate", "old", "acme:build")))
    assert [offer.qualified_name for offer in info.offers] == ["acme/old"]
    assert info.deprecations == ("perpetual_judges is called perpetual_gates now (since 0.2.0; it goes with 0.4.0)",)


# --- interfaces -----------------------------------------------------------------------------------------------


def test_two_interfaces_are_served_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """One plugin offers parts of both; the part of the older one serves through its slot's adapter."""
    monkeypatch.setattr(discovery, "SERVED", (1, 2))
    monkeypatch.setattr(discovery, "API", 2)
    monkeypatch.setitem(slots.ADAPTERS, (1, "proposer"), "builtins:tuple")
    module = ModuleType("acme_parts")
    module.build = lambda options: ["a part"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_parts", module)
    providers = [
        Provider("proposer", "old", "acme_parts:build"),
        Provider("proposer", "new", "acme_parts:build", api=2),
    ]
    plugins = Registry(extra=[("acme", "acme", "1.0", lambda: offering("perpetual_proposers", *providers))])
    parts = {name: plugins.build(plugins.choose("proposer", name), {}) for name in ("old", "new")}
    assert parts == {"old": ("a part",), "new": ["a part"]}
    info = next(info for info in plugins.plugins if info.name == "acme")
    assert info.deprecations == ("proposer old is written for plugin API 1; 2 is current",)


def test_a_provider_that_says_no_number_was_written_for_1() -> None:
    assert Provider("gate", "x", "x:x").api == 1


@pytest.mark.parametrize(("number", "words"), [(7, "needs a newer Perpetual"), (0, "needs an older Perpetual")])
def test_another_interface_is_refused_with_the_way_out(number: int, words: str) -> None:
    (offer,) = found(lambda: offering("perpetual_gates", Provider("gate", "x", "x:x", api=number))).offers
    assert words in f"{offer.refused}"
    assert ("pip install --upgrade perpetual-lab" in f"{offer.refused}") is (number > 1)


@pytest.mark.parametrize(
    "line",
    ["from perpetual.api import Tomorrow", "import perpetual.toolkit.tomorrow", "from perpetual import Tomorrow"],
)
def test_a_public_name_that_is_not_there_needs_a_newer_perpetual(line: str) -> None:
    def load() -> object:
        exec(line, {})
        return None

    info = found(load)
    assert info.state == "failed"
    assert f"{info.reason}".startswith("it needs a newer Perpetual than ")
    assert "pip install --upgrade perpetual-lab" in f"{info.reason}"


def test_another_packages_name_does_not() -> None:
    def load() -> object:
        from json import Tomorrow  # type: ignore[attr-defined]

        return Tomorrow

    assert f"{found(load).reason}".startswith("ImportError: cannot import name 'Tomorrow' from 'json'")
