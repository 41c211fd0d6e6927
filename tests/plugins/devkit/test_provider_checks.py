"""`perpetual plugins check`: providers compared with their slots, whole and broken."""

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


def test_the_bundled_plugins_keep_their_contracts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "plugins", "check")
    wrong = [item for item in document["items"] if item["ok"] is False]
    assert (code, document["ok"], wrong) == (0, True, [])
    store = next(item for item in document["items"] if item["slot"] == "store")
    assert [one["check"] for one in store["checks"]] == ["offer", "options", "factory", "call", "answer", "head"]
    assert run(["plugins", "check"]) == 0
    assert "perpetual-lab/tinydb" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("provider", "extra", "check", "words"),
    [
        ("Provider('gpus', 'x', '{m}:nothing')", "", "factory", "has no attribute 'nothing'"),
        ("Provider('gpus', 'x', '{m}_absent:build')", "", "factory", "No module named"),
        ("Provider('gpus', 'x', '{m}:none')", "def none():\n    return 1\n", "call", "cannot be called with (options)"),
        ("Provider('gpus', 'x', '{m}:N')", "N = 3\n", "call", "cannot be called"),
        ("Provider('gpus', 'x', '{m}:text')", "def text(options) -> str:\n    return ''\n", "answer",
         "str, which is no GpuBackend"),
        ("Provider('gpus', 'x', '{m}:Half')",
         "class Half(GpuBackend):\n    def __init__(self, options): pass\n", "answer", "Half lacks read"),
        ("Provider('gpus', 'x', '{m}:build', api=99)", "", "offer", "plugin API 99"),
        ("Provider('gpus', 'x', '{m}:build', requires=('absent',))", "", "offer", "needs the plugin absent"),
        ("Provider('gpus', 'x', '{m}:build', options=dict(n=Option('int', 'many', 'how many')))", "", "options",
         "n must be a whole number"),
        ("Provider('gpus', 'x', '{m}:build', options=dict(n=Option('number', 1, 'how many')))", "", "options",
         "no type of option"),
        ("Provider('gpus', 'x', '{m}:build', head='{m}:none')", "def none():\n    return 1\n", "head", "cannot be"),
    ],
)  # fmt: skip
def test_a_provider_that_breaks_its_contract_is_named(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    install: Install,
    provider: str,
    extra: str,
    check: str,
    words: str,
) -> None:
    module = "acme_broken"
    install("acme", module, f"{offers(provider.format(m=module))}\n{extra}")
    code, document = ask(capsys, "plugins", "check", "acme")
    (item,) = document["items"]
    assert (code, document["ok"], item["ok"], item["qualified_name"]) == (1, False, False, "acme/x")
    (wrong,) = [one for one in item["checks"] if one["ok"] is False]
    assert wrong["check"] == check
    assert words in wrong["detail"]
    assert ask(capsys, "plugins", "check", "perpetual-lab/nvml", "--no-suites")[0] == 0
    assert run(["plugins", "check", "acme"]) == 1
    assert check in capsys.readouterr().out


def test_a_sound_provider_holds_and_an_unannotated_factory_is_untold(
    project: Path, capsys: pytest.CaptureFixture[str], install: Install
) -> None:
    source = offers("Provider('gpus', 'told', 'acme_i:build')", "Provider('gpus', 'untold', 'acme_i:plain')")
    install("acme", "acme_i", f"{source}\ndef plain(options):\n    raise RuntimeError('it was called')\n")
    code, document = ask(capsys, "plugins", "check", "acme", "--no-suites")
    told, untold = ({one["check"]: one["ok"] for one in item["checks"]} for item in document["items"])
    assert (code, told["answer"], untold["answer"]) == (0, True, None)
