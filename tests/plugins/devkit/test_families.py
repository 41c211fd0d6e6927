"""A family that a plugin brings is proven, checked and written like Perpetual's own slots."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from perpetual import Lab
from perpetual.api import Option, Provider, Slot, Suite, Template, UsageError, hookimpl
from perpetual.registry import Registry
from perpetual.slots.table import SLOTS
from perpetual_devkit.authoring import new_plugin
from perpetual_devkit.contract_runner import run_suite
from perpetual_devkit.provider_checks import check_plugins

CRITIC = Slot("critic", "acme_critics", "critic", "acme_family:Critic", "one", default="mild",
              suite=Suite("acme_family:CriticContract", fixture="critic"))  # fmt: skip

FAMILY = '''
import abc
import pytest

class Critic(abc.ABC):
    @abc.abstractmethod
    def grade(self, text): ...

class Mild(Critic):
    def __init__(self, bonus=0):
        self.bonus = bonus
    def grade(self, text):
        return 5 + self.bonus

class Stern(Critic):
    def grade(self, text):
        return -1

def mild(options) -> Mild:
    return Mild(options.get("bonus", 0))

def stern(options) -> Stern:
    return Stern()

class CriticContract:
    def test_no_grade_is_negative(self, critic):
        """No grade is negative."""
        assert critic.grade("x") >= 0
'''


@pytest.fixture(autouse=True)
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "family"
    folder.mkdir()
    (folder / "acme_family.py").write_text(FAMILY, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "acme_family", raising=False)  # another test's


def plugin(**hooks: Callable[[], object]) -> Callable[[], ModuleType]:
    made = ModuleType("acme_plugin")
    for name, answer in hooks.items():
        setattr(made, name, hookimpl(answer))
    return lambda: made


def brings(*slots: object) -> Callable[[], ModuleType]:
    return plugin(perpetual_slots=lambda: list(slots))


MILD = Provider(slot="critic", name="mild", factory="acme_family:mild",
                options={"bonus": Option("int", 0, "points added to each grade")})  # fmt: skip
STERN = Provider(slot="critic", name="stern", factory="acme_family:stern")
FILLS = plugin(acme_critics=lambda: [MILD, STERN])


def registry() -> Registry:
    return Registry(extra=[("aa-fills", "fills", "1", FILLS), ("zz-family", "family", "1", brings(CRITIC))])


@pytest.mark.slow
def test_the_suite_of_a_family_bites() -> None:
    good = run_suite(CRITIC, "aa-fills/mild", "acme_family:mild", {"bonus": 1})
    assert (good.ok, good.suite) == (True, "acme_family.CriticContract")
    bad = run_suite(CRITIC, "aa-fills/stern", "acme_family:stern", {})
    assert [(promise.promise, promise.ok) for promise in bad.promises] == [("no grade is negative", False)]


@pytest.mark.slow
def test_plugins_check_covers_a_family(project: Path) -> None:
    with Lab.open(registry=registry()) as lab:
        mild, stern = check_plugins(lab.inventory(), "fills", suites=True)
    assert (mild.ok, stern.ok) == (True, False)
    assert {check.check: check.detail for check in mild.checks}["answer"] == "Mild is a Critic"


def test_a_family_brings_its_template(tmp_path: Path) -> None:
    folder = tmp_path / "family" / "acme_templates"
    for name in ("part", "tests"):
        (folder / "texts" / name).mkdir(parents=True)
        (folder / "texts" / name / "critic.py.j2").write_text(f'"""{{{{ about }}}}: {name}."""\n', "utf-8")
    (folder / "__init__.py").write_text("", "utf-8")
    template = Template("perpetual config set slots.critic {0}", "grades", folder="acme_templates:texts")
    slots = {**SLOTS, "critic": replace(CRITIC, template=template)}
    made = new_plugin("gentle", "critic", tmp_path, slots=slots)
    assert "perpetual_gentle/critic.py" in made.files
    assert (Path(made.path) / "perpetual_gentle/critic.py").read_text() == '"""The critic `gentle`: part."""\n'
    assert "def acme_critics()" in (Path(made.path) / "perpetual_gentle/plugin.py").read_text()
    assert "perpetual config set slots.critic gentle" in (Path(made.path) / "README.md").read_text()
    with pytest.raises(UsageError):
        new_plugin("gentle", "critic", tmp_path / "other")
