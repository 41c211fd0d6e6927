"""The table of slots, and slots that plugins bring: offered, chosen, built, proven and written like the others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest

from perpetual import Lab
from perpetual.api import Option, Provider, Slot, Suite, hookimpl
from perpetual.errors import ConfigError, PluginError, UsageError
from perpetual.registry import Registry
from perpetual.slots.table import SLOTS, thaw_slot

CRITIC = Slot("critic", "acme_critics", "critic", "acme_family:Critic", "one", default="mild",
              suite=Suite("acme_family:CriticContract", fixture="critic"))  # fmt: skip
JUROR = Slot("juror", "acme_jurors", "juror", arguments=("path",))

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

def juror(options, *, path):
    return path

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
JUDGES = plugin(acme_jurors=lambda: [Provider(slot="juror", name=name, factory="acme_family:juror") for name in "ab"])


def registry() -> Registry:
    """The family's plugin is registered after the plugins that fill it: order does not matter."""
    return Registry(
        extra=[
            ("aa-fills", "fills", "1", FILLS),
            ("bb-judges", "judges", "1", JUDGES),
            ("zz-family", "family", "1", brings(CRITIC, JUROR)),
        ]
    )


def test_another_plugin_fills_a_slot_that_a_plugin_brings() -> None:
    found = registry()
    assert {info.name: info.state for info in found.plugins if "perpetual-lab" not in info.qualified_name} == {
        "fills": "loaded", "judges": "loaded", "family": "loaded",
    }  # fmt: skip
    assert found.choose("critic", "stern").qualified_name == "aa-fills/stern"
    assert [offer.name for offer in found.serving("juror")] == ["a", "b"]
    assert found.slot("critic") == CRITIC
    brought = ["model_backend", "agent_handler", "agent_tool",
               "approver", "loop", "companion", "frames", "dispatcher", "harness_hook", "mirror", "note_form",
               "notifier", "retriever", "embedder", "price", "withholder", "board", "site", "planner", "stopper",
               "service_host", "thinker", "question", "critic", "juror"]  # fmt: skip
    assert list(found.slots) == [*SLOTS, *brought]


def test_the_configuration_chooses_among_its_providers(project: Path) -> None:
    with Lab.open(registry=registry()) as lab:
        assert lab.part("critic").grade("") == 5
        lab.settings.set_config("plugins.mild.bonus", "2")
        assert [item.value for item in lab.settings.config() if item.key == "plugins.mild.bonus"] == [2]
        with pytest.raises(UsageError, match=r"stren.*did you mean: stern|stren"):
            lab.settings.set_config("slots.critic", "stren")
        item = lab.settings.set_config("slots.critic", "stern")
        assert (item.key, item.value, item.origin) == ("slots.critic", "stern", "project")
    with Lab.open(registry=registry()) as lab:
        assert lab.part("critic").grade("") == -1
        assert [(item.key, item.value) for item in lab.settings.config() if item.key.startswith("slots.")] == [
            ("slots.critic", "stern")
        ]
        states = {one["name"]: one["state"] for one in lab.inventory().plugin("fills")["providers"]}
        assert states == {"mild": "available", "stern": "active"}
        assert [name for name, _ in lab.parts("critic")] == ["aa-fills/stern"]
        assert [path for _, path in lab.parts("juror")] == [project / ".perpetual" / "parts" / "juror"] * 2


@pytest.mark.parametrize(
    ("key", "words"),
    [("slots.juror", "every provider serves"), ("slots.store", "the key of this slot is store"),
     ("slots.scorer", "exploration_strategy chooses"), ("slots.citric", "no slot 'citric'|citric")],
)  # fmt: skip
def test_a_choice_that_is_none_is_refused_and_not_written(project: Path, key: str, words: str) -> None:
    before = (project / ".perpetual" / "config.yaml").read_bytes()
    with Lab.open(registry=registry()) as lab, pytest.raises(UsageError, match=words):
        lab.settings.set_config(key, "mild")
    assert (project / ".perpetual" / "config.yaml").read_bytes() == before


def test_a_slot_without_a_choice_says_how_to_make_one(project: Path) -> None:
    without = Registry(extra=[("a", "fills", "1", FILLS), ("b", "family", "1", brings(replace(CRITIC, default=None)))])
    with Lab.open(registry=without) as lab:
        with pytest.raises(ConfigError) as caught:
            lab.part("critic")
        assert str(caught.value.hint) == "perpetual config set slots.critic NAME"


def test_a_part_is_asked_for_as_its_slot_gives_it(project: Path) -> None:
    with Lab.open(registry=registry()) as lab:
        for name, words in (("store", "belongs to the lab"), ("gate", "every gate serves"), ("sotre", "sotre")):
            with pytest.raises(UsageError, match=words):
                lab.part(name)
        assert lab.part("memory") is lab.part("memory")


def test_a_project_whose_family_has_gone_still_opens(project: Path) -> None:
    with Lab.open(registry=registry()) as lab:
        lab.settings.set_config("slots.critic", "stern")
    with Lab.open() as lab:
        assert lab.status()["hypotheses"] == []
        assert ("slots.critic", "stern") in [(item.key, item.value) for item in lab.settings.config()]


def test_the_plugin_that_fills_an_absent_slot_names_its_hook() -> None:
    (info,) = [info for info in Registry(extra=[("a", "fills", "1", FILLS)]).plugins if info.name == "fills"]
    assert info.state == "failed"
    assert "acme_critics" in str(info.reason)
    patient = ModuleType("patient")
    patient.acme_critics = hookimpl(optionalhook=True)(lambda: [MILD])  # type: ignore[attr-defined]
    (info,) = [info for info in Registry(extra=[("a", "p", "1", lambda: patient)]).plugins if info.name == "p"]
    assert (info.state, info.offers) == ("loaded", ())


WRONG = {
    "no slot": ("a slot", "answered a str instead of a Slot"),
    "name": (replace(CRITIC, name="Critic "), "is no name"),
    "taken": (replace(CRITIC, name="store"), "the slot store exists already"),
    "hook": (replace(CRITIC, hook="perpetual_stores"), "exists already"),
    "hook's name": (replace(CRITIC, hook="acme critics"), "is no name"),
    "selection": (replace(CRITIC, selection="two"), "none of one, all, methodology"),  # type: ignore[arg-type]
    "key": (replace(CRITIC, key="critic"), "leave key out"),
    "base": (replace(CRITIC, base="acme_family.Critic"), "not module:class"),
    "suite": (replace(CRITIC, suite=Suite("nowhere")), "not module:class"),
    "arguments": (replace(CRITIC, arguments=("lab",)), "nothing else"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_slot_that_can_be_none_fails_its_plugin_alone(name: str) -> None:
    slot, words = WRONG[name]
    found = Registry(extra=[("a", "wrong", "1", brings(JUROR, slot)), ("b", "judges", "1", JUDGES)])
    states = {info.name: (info.state, str(info.reason)) for info in found.plugins}
    assert states["wrong"][0] == "failed"
    assert words in states["wrong"][1]
    assert "juror" not in found.slots  # nothing of it is half there
    assert {info.state for info in found.plugins if info.qualified_name.startswith("perpetual-lab/")} == {"loaded"}


def test_a_hook_that_raises_is_named() -> None:
    def explode() -> list[Slot]:
        raise SystemExit(3)

    (info,) = [i for i in Registry(extra=[("a", "x", "1", plugin(perpetual_slots=explode))]).plugins if i.name == "x"]
    assert (info.state, str(info.reason)) == ("failed", "perpetual_slots: PartEnded: SystemExit: 3")


def test_two_plugins_with_one_slot() -> None:
    found = Registry(extra=[("a", "one", "1", brings(CRITIC)), ("b", "two", "1", brings(CRITIC))])
    assert {info.name: info.state for info in found.plugins if info.name in ("one", "two")} == {
        "one": "loaded", "two": "failed",
    }  # fmt: skip


@pytest.mark.parametrize("slot", [*SLOTS.values(), CRITIC, JUROR], ids=lambda slot: slot.name)
def test_a_row_survives_the_cache(slot: Slot) -> None:
    assert thaw_slot(json.loads(json.dumps(asdict(slot)))) == slot


@pytest.mark.parametrize("slot", SLOTS.values(), ids=lambda slot: slot.name)
def test_the_rows_of_the_table_name_what_there_is(slot: Slot) -> None:
    from importlib import import_module

    from perpetual import hookspecs

    assert hasattr(hookspecs, slot.hook)
    for home in (slot.base, None if slot.suite is None else slot.suite.home):
        if home is not None:
            module, _, name = home.partition(":")
            assert isinstance(getattr(import_module(module), name), type)
    if slot.selection == "one":
        assert Registry().choose(slot.name, str(slot.default)).is_bundled


def test_an_unknown_choice_in_the_file_is_a_clear_error(project: Path) -> None:
    path = project / ".perpetual" / "config.yaml"
    path.write_text(path.read_text() + "slots:\n  critic: sterm\n")
    with Lab.open(registry=registry()) as lab, pytest.raises(PluginError, match="sterm"):
        lab.part("critic")
    path.write_text(path.read_text().replace("critic: sterm", "critic: [1]"))
    with pytest.raises(ConfigError, match=r"config.yaml.*slots.critic|slots"):
        Lab.open(registry=registry())
