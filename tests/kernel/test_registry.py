"""Plugins: found, named, chosen, switched off; and what becomes of broken ones. Some are real distributions in a folder
on the import path, the others are handed to the registry as they are."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual.api import Option, Provider, hookimpl, hookspec
from perpetual.catalogue import PluginInfo
from perpetual.cli.table import ORDER
from perpetual.discovery import discover
from perpetual.errors import PluginError
from perpetual.registry import Registry
from perpetual.toolkit.cache_files import commands
from perpetual.toolkit.hook_calls import Called
from perpetual.toolkit.reserved import RESERVED, known_names

BUNDLED_STORES = ["perpetual-lab/sqlite", "perpetual-lab/tinydb"]
HEAVY = {"tinydb", "dulwich", "mcp", "pynvml", "psutil", "ruamel", "rich", "pydantic", "jinja2"}
Extra = tuple[str, str, str, Callable[[], object]]


def _offering(hook: str, *providers: object) -> type:
    """A plugin that answers these providers to one hook."""

    def answer(self: object) -> list[object]:
        return [*providers]

    answer.__name__ = hook
    return type("Plugin", (), {hook: hookimpl(answer)})


def _scorer(name: str, **given: Any) -> Provider:
    return Provider("scorer", name, "acme_scorer.scorer:build", "tosses a coin", **given)


def _plugin(distribution: str, name: str, version: str, *providers: object) -> Extra:
    return distribution, name, version, _offering("perpetual_scorers", *providers)


def _info(registry: Registry, qualified_name: str) -> PluginInfo:
    return next(info for info in registry.plugins if info.qualified_name == qualified_name)


def _raising(problem: BaseException) -> Callable[[], object]:
    def load() -> object:
        raise problem

    return load


def _install(
    folder: Path, distribution: str, version: str, modules: Mapping[str, str], points: Mapping[str, str]
) -> None:
    """Puts a distribution where the import path will look."""
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (info / "entry_points.txt").write_text("[perpetual.plugins]\n" + "".join(lines))


_STORE = """
from perpetual.api import Provider, hookimpl

@hookimpl
def perpetual_stores():
    return [Provider("store", "{name}", "acme_store_provider:build", "a store of somebody else", head="acme_head:head")]
"""
_ASK = """
import json, sys
from perpetual.registry import Registry
registry = Registry({disabled!r}, safe={safe!r})
found = [[info.qualified_name, info.version, info.state, info.reason] for info in registry.plugins]
stores = [offer.qualified_name for offer in registry.offers("store")]
print(json.dumps([found, stores, sorted(sys.modules)]))
"""


def _ask(
    *path: Path, disabled: tuple[str, ...] = (), safe: bool = False, code: str = _ASK, **environment: str
) -> tuple[dict[str, list[Any]], list[str], set[str]]:
    """What a fresh process with these folders on its path finds: plugins by name, stores, modules."""
    done = subprocess.run(
        [sys.executable, "-c", code.format(disabled=disabled, safe=safe)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found, stores, modules = json.loads(done.stdout)
    return {row[0]: row[1:] for row in found}, stores, set(modules)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder on nobody's path yet."""
    made = tmp_path / "site"
    made.mkdir()
    return made


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that is cold."""
    made = tmp_path / "cache"
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(made))
    return made


# --- distributions on the import path -------------------------------------------------------------------------------


def test_an_installed_distribution_is_found_and_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = "def build(options, *, path):\n    return ('built', options, str(path))\n"
    _install(
        folder,
        "acme-store",
        "2.1",
        {"acme_store_plugin": _STORE.format(name="acme"), "acme_store_provider": provider},
        {"acme": "acme_store_plugin"},
    )
    # Not in front: discovery's cache leaves out the first folder of the path, which is the script's own.
    monkeypatch.setattr(sys, "path", [sys.path[0], str(folder), *sys.path[1:]])
    registry = Registry()
    info = _info(registry, "acme-store/acme")
    assert (info.version, info.state, info.reason) == ("2.1", "loaded", None)
    assert [offer.qualified_name for offer in registry.offers("store")] == ["acme-store/acme", *BUNDLED_STORES]
    offer = registry.choose("store", "acme")
    assert "acme_store_provider" not in sys.modules  # nothing is imported before it is built
    assert registry.build(offer, {"n": 1}, path=folder) == ("built", {"n": 1}, str(folder))
    assert "acme_store_plugin" not in sys.modules  # a helper process has asked it
    monkeypatch.delitem(sys.modules, "acme_store_provider")


def test_a_bundled_name_that_a_foreign_plugin_offers_stays_ours(folder: Path) -> None:
    _install(folder, "acme-store", "2.1", {"acme_store": _STORE.format(name="tinydb")}, {"store": "acme_store"})
    code = """
import json
from perpetual.errors import PluginError
from perpetual.registry import Registry
told = []
for disabled in ((), ("perpetual-lab/tinydb",), ("store",), ("acme-store/store",)):
    registry = Registry(disabled)
    for want in ("tinydb", "acme-store/tinydb", "perpetual-lab/tinydb"):
        try:
            told.append(registry.choose("store", want).qualified_name)
        except PluginError as problem:
            told.append([problem.code, problem.message, problem.hint])
print(json.dumps([told]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    told = json.loads(done.stdout)[0]
    assert told[:3] == ["perpetual-lab/tinydb", "acme-store/tinydb", "perpetual-lab/tinydb"]
    # The bundled one is off: its name means nothing else.
    assert (told[3][0], told[4]) == ("plugin_missing", "acme-store/tinydb")
    assert (told[6], told[7][0]) == (told[9], told[10][0]) == ("perpetual-lab/tinydb", "plugin_missing")


def test_the_reserved_names_are_those_that_are_bundled() -> None:
    found: dict[str, set[str]] = {}
    for info in Registry(safe=True).plugins:
        for offer in info.offers:
            found.setdefault(offer.provider.slot, set()).add(offer.provider.name)
    found["command"] |= {*ORDER}
    missing = {slot: names - RESERVED.get(slot, frozenset()) for slot, names in found.items()}
    assert {slot: names for slot, names in missing.items() if names} == {}


def test_two_commands_of_one_name_have_their_full_names() -> None:
    assert known_names("command", ["a/x", "b/x", "a/adopt", "perpetual-lab/adopt", "a/y"]) == [
        "a/x", "b/x", "a/adopt", "adopt", "y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import a_library_that_is_not_there\n", "ModuleNotFoundError: No module named 'a_library_that_is_not_there'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("raise RuntimeError('at import')\n", "RuntimeError: at import"),
        ("def (\n", "SyntaxError"),
    ],
    ids=["ImportError", "SystemExit", "an exception", "a syntax error"],
)
def test_a_broken_distribution_is_named_and_the_rest_works(
    folder: Path, own_cache: Path, code: str, reason: str
) -> None:
    _install(folder, "broken", "0.3", {"broken_plugin": code}, {"bad": "broken_plugin"})
    _install(folder, "acme-store", "2.1", {"acme_store": _STORE.format(name="acme")}, {"store": "acme_store"})
    _install(folder, "nowhere", "1", {}, {"gone": "a_module_that_is_not_there"})
    found, stores, _ = _ask(folder)
    assert found["broken/bad"][:2] == ["0.3", "failed"]
    assert reason in found["broken/bad"][2]
    assert found["nowhere/gone"][1] == "failed"
    assert stores == ["acme-store/acme", *BUNDLED_STORES]
    assert [info[1] for name, info in found.items() if name.startswith("perpetual-lab/")] == ["loaded"] * (
        len(found) - 3
    )
    # It is looked at anew each time: what is missing may get installed.
    (folder / "broken_plugin.py").write_text(_STORE.format(name="mended"))
    found, stores, _ = _ask(folder)
    assert found["broken/bad"][1] == "loaded"
    assert "broken/mended" in stores


def test_safe_mode_does_not_even_import_the_others(folder: Path, own_cache: Path) -> None:
    marked = "import os\nopen(os.environ['MARK'], 'w').close()\n" + _STORE.format(name="acme")
    _install(folder, "acme-store", "2.1", {"acme_store": marked}, {"store": "acme_store"})
    mark = folder / "mark"
    found, stores, _ = _ask(folder, safe=True, MARK=str(mark))
    assert found["acme-store/store"] == ["2.1", "disabled", "safe mode: only bundled plugins"]
    assert stores == BUNDLED_STORES
    assert not mark.exists()
    found, stores, _ = _ask(folder, MARK=str(mark))
    assert found["acme-store/store"][1] == "loaded"
    assert mark.exists()
    mark.unlink()
    found, _, _ = _ask(folder, disabled=("acme-store/store",), MARK=str(mark))
    assert found["acme-store/store"][1:] == ["disabled", "plugins.disabled names it"]
    assert not mark.exists()


# --- the cache and what discovery costs -----------------------------------------------------------------------------


def test_discovery_is_light_and_its_cache_is_lighter(
    folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    first, stores, modules = _ask(folder)
    assert {"pluggy", "importlib.metadata"} <= modules
    assert not modules & HEAVY
    assert {"perpetual_tinydb.plugin", "perpetual_git.plugin"} <= modules
    assert not modules & {"perpetual_tinydb.store", "perpetual_git.repository", "click"}
    second, again, modules = _ask(folder)
    assert (second, again) == (first, stores)
    assert not modules & ({"pluggy", "importlib.metadata", "perpetual_tinydb.plugin"} | HEAVY)


@pytest.mark.slow
def test_a_changed_path_is_seen(folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # a __pycache__ written beside the modules is a change as well
    before, _, _ = _ask(folder)
    _install(folder, "acme-store", "2.1", {"acme_store": _STORE.format(name="acme")}, {"store": "acme_store"})
    found, stores, modules = _ask(folder)
    assert set(found) - set(before) == {"acme-store/store"}
    assert "pluggy" in modules
    _, cached, modules = _ask(folder)
    assert cached == stores
    assert "pluggy" not in modules
    (folder / "acme_store-2.1.dist-info").rename(folder / "acme_store-2.2.dist-info")
    (folder / "acme_store-2.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-store\nVersion: 2.2\n"
    )
    found, _, _ = _ask(folder)
    assert found["acme-store/store"][0] == "2.2"


def test_a_plugin_that_is_worked_on_is_seen(folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a distribution is installed in editable form its files change, and no folder of the path does."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    _install(folder, "acme-store", "2.1", {"acme_store": _STORE.format(name="acme")}, {"store": "acme_store"})
    _, before, _ = _ask(folder)
    module, seen = folder / "acme_store.py", folder.stat()
    module.write_text(_STORE.format(name="another"))
    os.utime(folder, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    _, after, modules = _ask(folder)
    assert "pluggy" in modules
    assert after != before
    assert any("another" in str(name) for name in after)


@pytest.fixture
def discoveries(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was discovered, rather than answered from the cache."""
    made: list[object] = []

    def counted(*given: Any, **named: Any) -> object:
        made.append(discover(*given, **named))
        return made[-1]

    monkeypatch.setattr("perpetual.discovery.discover", counted)
    return made


def test_cached_plugins_equal_discovered_ones(own_cache: Path, discoveries: list[object]) -> None:
    found = Registry().plugins
    assert len(discoveries) == 1
    warm = Registry()
    assert warm.plugins == found
    assert len(discoveries) == 1
    options = warm.choose("store", "tinydb").provider.options
    assert options is not None
    assert options["lock_timeout_s"] == Option("float", 30.0, options["lock_timeout_s"].meaning)
    # What is disabled and what is safe have caches of their own.
    assert _info(Registry(("tinydb",)), "perpetual-lab/tinydb").state == "disabled"
    assert _info(Registry(), "perpetual-lab/tinydb").state == "loaded"


@pytest.mark.parametrize("kept", ['{"key": 1}', "[", "{}", "", "null", '[{"name": "x"}]', "of an older version"])
def test_a_cache_that_is_no_cache_is_ignored(own_cache: Path, kept: str) -> None:
    found = Registry().plugins
    (file,) = own_cache.glob("plugins-*.json")
    text = kept
    if kept == "of an older version":
        data = json.loads(file.read_text())
        text = json.dumps({**data, "value": [{"name": "x", "qualified_name": "y/x", "offers": [{"odd": 1}]}]})
    file.write_text(text)
    assert commands() is None
    assert Registry().plugins == found
    assert Registry().plugins == found
    assert commands() is not None


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert Registry().choose("store", "tinydb").qualified_name == "perpetual-lab/tinydb"


# --- choosing -------------------------------------------------------------------------------------------------------


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    registry = Registry(extra=[("acme", "bad", "1", _raising(ImportError("no libacme")))])
    with pytest.raises(PluginError) as caught:
        registry.choose("store", "tinydbb")
    assert "did you mean tinydb" in caught.value.message
    assert "acme/bad" in (caught.value.hint or "")
    assert "no libacme" in (caught.value.hint or "")
    assert (caught.value.code, caught.value.exit) == ("plugin_missing", 2)
    with pytest.raises(PluginError) as caught:
        Registry(("tinydb",)).choose("store", "tinydb")
    assert "plugins.disabled" in (caught.value.hint or "")


def test_two_providers_of_one_name() -> None:
    extra = [_plugin("acme", "one", "1.0", _scorer("coin")), _plugin("zeta", "two", "2.0", _scorer("coin"))]
    registry = Registry(extra=extra)
    with pytest.raises(PluginError) as caught:
        registry.choose("scorer", "coin")
    assert "acme/coin 1.0" in caught.value.message
    assert "zeta/coin 2.0" in caught.value.message
    assert registry.choose("scorer", "zeta/coin").plugin == "zeta/two"
    for disabled, left in (("one", "zeta/coin"), ("acme/one", "zeta/coin"), ("zeta/two", "acme/coin")):
        assert Registry((disabled,), extra=extra).choose("scorer", "coin").qualified_name == left


def test_an_offer_for_a_newer_kernel_is_refused_by_name() -> None:
    registry = Registry(extra=[_plugin("acme", "new", "9", _scorer("quantum", api=2), _scorer("coin"))])
    assert _info(registry, "acme/new").state == "loaded"
    with pytest.raises(PluginError) as caught:
        registry.choose("scorer", "quantum")
    assert "acme/quantum" in caught.value.message
    assert "API 2" in caught.value.message
    assert registry.choose("scorer", "coin").qualified_name == "acme/coin"
    assert "acme/quantum" not in [offer.qualified_name for offer in registry.serving("scorer")]


def test_a_provider_that_lacks_a_required_plugin_is_refused() -> None:
    needy = _plugin("acme", "needy", "1", _scorer("needy", requires=("helper",)))
    helper = _plugin("other", "helper", "1", _scorer("help"))
    with pytest.raises(PluginError) as caught:
        Registry(extra=[needy]).choose("scorer", "needy")
    assert "needs the plugin helper" in caught.value.message
    assert Registry(extra=[needy, helper]).choose("scorer", "needy").plugin == "acme/needy"
    with pytest.raises(PluginError):
        Registry(("other/helper",), extra=[needy, helper]).choose("scorer", "needy")
    broken: Extra = ("other", "helper", "1", _raising(OSError("no")))
    with pytest.raises(PluginError):
        Registry(extra=[needy, broken]).choose("scorer", "needy")
    qualified = _plugin("acme", "needy", "1", _scorer("needy", requires=("other/helper",)))
    assert Registry(extra=[qualified, helper]).choose("scorer", "needy").plugin == "acme/needy"


def test_a_factory_that_cannot_be_loaded_is_named() -> None:
    registry = Registry(extra=[_plugin("acme", "p", "1", _scorer("coin"))])
    with pytest.raises(PluginError) as caught:
        registry.build(registry.choose("scorer", "coin"), {})
    assert caught.value.code == "plugin_broken"
    assert "acme/coin" in caught.value.message
    assert "acme_scorer" in caught.value.message


def test_the_order_of_registration_says_nothing() -> None:
    extras = [
        _plugin("acme", "b", "1", _scorer("coin", order=50)),
        _plugin("acme", "a", "1", _scorer("dice")),
        _plugin("zeta", "c", "1", _scorer("card", order=50)),
    ]
    seen = []
    for order in itertools.permutations(extras):
        registry = Registry(extra=order)
        names = [offer.qualified_name for offer in registry.serving("scorer")]
        seen.append(
            ([info.qualified_name for info in registry.plugins if "perpetual-lab" not in info.qualified_name], names)
        )
    assert all(item == seen[0] for item in seen)
    assert seen[0][0] == ["acme/a", "acme/b", "zeta/c"]
    assert [name for name in seen[0][1] if "perpetual-lab" not in name] == ["acme/coin", "zeta/card", "acme/dice"]


# --- broken plugins -------------------------------------------------------------------------------------------------


class _Misspelt:
    @hookimpl
    def perpetual_scorer(self) -> list[Provider]:
        return []


class _KeywordOnly:
    @hookimpl
    def perpetual_event(self, *, event: object) -> None:
        raise AssertionError(event)


class _WrongArgument:
    @hookimpl
    def perpetual_event(self, evnt: object) -> None:
        raise AssertionError(evnt)


class _Raises:
    @hookimpl
    def perpetual_scorers(self) -> list[Provider]:
        raise ValueError("in the hook")


class _Optional:
    @hookimpl(optionalhook=True)
    def somebody_elses_hook(self) -> None:
        return None


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (_Misspelt, "did you mean perpetual_scorers"),
        (_KeywordOnly, "keyword-only argument 'event'"),
        (_WrongArgument, "evnt"),
        (_Raises, "perpetual_scorers: ValueError: in the hook"),
        (_offering("perpetual_scorers", "coin"), "instead of a Provider"),
        (_raising(ImportError("no libacme")), "ImportError: no libacme"),
        (_raising(SystemExit(2)), "SystemExit: 2"),
    ],
    ids=["misspelt", "keyword-only", "wrong argument", "raises", "no provider", "ImportError", "SystemExit"],
)
def test_a_broken_plugin_is_named_and_skipped(plugin: Callable[[], object], reason: str) -> None:
    registry = Registry(extra=[("acme", "bad", "1.5", plugin), _plugin("zeta", "good", "1", _scorer("coin"))])
    info = _info(registry, "acme/bad")
    assert (info.state, info.version, info.offers, info.hooks) == ("failed", "1.5", (), ())
    assert reason in (info.reason or "")
    assert registry.choose("scorer", "coin").qualified_name == "zeta/coin"
    assert registry.choose("store", "tinydb").plugin == "perpetual-lab/tinydb"
    assert registry.call("perpetual_event", event=None, lab=None, options={}) == []


def test_an_optional_hook_of_another_host_is_no_fault() -> None:
    assert _info(Registry(extra=[("acme", "p", "1", _Optional)]), "acme/p").state == "loaded"


def test_an_interruption_is_not_a_fault() -> None:
    with pytest.raises(KeyboardInterrupt):
        _ = Registry(extra=[("acme", "p", "1", _raising(KeyboardInterrupt()))]).plugins


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (Provider("store", "coin", "a.b:c"), "the hook's is 'scorer'"),
        (_scorer("Big Name"), "is no name"),
        (Provider("scorer", "coin", "a.b.c"), "not module:callable"),
        (Provider("scorer", "coin", "a-b:c"), "not module:callable"),
    ],
)
def test_an_offer_that_is_none_is_refused(provider: Provider, reason: str) -> None:
    registry = Registry(extra=[_plugin("acme", "p", "1", provider, _scorer("good"))])
    refused = [offer.refused for offer in _info(registry, "acme/p").offers if offer.refused]
    assert len(refused) == 1
    assert reason in refused[0]
    assert registry.choose("scorer", "good").plugin == "acme/p"


def test_one_distribution_that_offers_a_name_twice() -> None:
    registry = Registry(extra=[_plugin("acme", "a", "1", _scorer("coin")), _plugin("acme", "b", "1", _scorer("coin"))])
    with pytest.raises(PluginError):
        registry.choose("scorer", "coin")
    assert [offer.refused is None for offer in registry.offers("scorer") if offer.provider.name == "coin"].count(
        True
    ) == 1


# --- calling --------------------------------------------------------------------------------------------------------


class _Ear:
    def __init__(self, problem: Exception | None = None) -> None:
        self.heard: list[object] = []
        self._problem = problem

    @hookimpl
    def perpetual_event(self, event: object) -> None:
        self.heard.append(event)
        if self._problem is not None:
            raise self._problem


def _same(ear: _Ear) -> _Ear:
    return ear


def test_every_observer_hears_even_after_one_that_raises() -> None:
    ears = {"a": _Ear(), "b": _Ear(ValueError("deaf")), "c": _Ear()}
    registry = Registry(extra=[("acme", name, "1", partial(_same, ear)) for name, ear in ears.items()])
    answers = registry.call("perpetual_event", event="bell", lab=None, options={})
    assert [ear.heard for ear in ears.values()] == [["bell"]] * 3
    assert answers == [Called("acme/a"), Called("acme/b", error="ValueError: deaf"), Called("acme/c")]


def _families() -> ModuleType:
    module = ModuleType("acme_hookspecs")

    def acme_rooms(size: int) -> list[str]:  # type: ignore[empty-body]
        """Offers rooms of at least that size."""

    module.acme_rooms = hookspec(acme_rooms)  # type: ignore[attr-defined]
    return module


class _BringsAFamily:
    @hookimpl
    def perpetual_hookspecs(self) -> list[object]:
        return [_families()]


class _Rooms:
    @hookimpl
    def acme_rooms(self, size: int) -> list[str]:
        return [f"room of {size}"]


@pytest.mark.parametrize("names", [("a-family", "z-rooms"), ("z-family", "a-rooms")])
def test_a_plugin_brings_a_family_that_others_fill(names: tuple[str, str]) -> None:
    family, rooms = names
    registry = Registry(extra=[("acme", family, "1", _BringsAFamily), ("other", rooms, "1", _Rooms)])
    assert _info(registry, f"other/{rooms}").hooks == ("acme_rooms",)
    assert registry.call("acme_rooms", size=3) == [Called(f"other/{rooms}", value=["room of 3"])]
    without = Registry(
        (f"acme/{family}",), extra=[("acme", family, "1", _BringsAFamily), ("other", rooms, "1", _Rooms)]
    )
    assert _info(without, f"other/{rooms}").state == "failed"
    assert "acme_rooms" in (_info(without, f"other/{rooms}").reason or "")


class _BringsRubbish:
    @hookimpl
    def perpetual_hookspecs(self) -> list[object]:
        raise RuntimeError("no family")


def test_a_family_that_cannot_be_brought_is_its_plugin_s_fault() -> None:
    registry = Registry(extra=[("acme", "p", "1", _BringsRubbish)])
    assert _info(registry, "acme/p").state == "failed"
    assert "no family" in (_info(registry, "acme/p").reason or "")


def test_an_unused_hook_discovers_nothing(own_cache: Path, discoveries: list[object]) -> None:
    assert Registry().plugins
    discoveries.clear()
    assert Registry().call("perpetual_event", event=None, lab=None, options={}) == []
    assert discoveries == []


def test_calls_can_be_traced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], discoveries: list[object]
) -> None:
    ear = _Ear(ValueError("deaf"))
    extra = [("acme", "ear", "1", lambda: ear)]
    assert Registry(extra=extra).plugins
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PERPETUAL_TRACE_HOOKS", "1")
    registry = Registry(extra=extra)
    registry.call("perpetual_event", event="bell", lab=None, options={})
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("hook perpetual_stores <- perpetual-lab/tinydb: [Provider(") for line in lines)
    assert lines[-1] == "hook perpetual_event <- acme/ear: 'ValueError: deaf'"
    # What is kept would hide the calls, so a trace always discovers.
    discoveries.clear()
    assert Registry().plugins
    assert len(discoveries) == 1


def test_bundled_plugins_are_all_well() -> None:
    registry = Registry()
    assert {info.qualified_name: info.reason for info in registry.plugins if info.state != "loaded"} == {}
    refused = {
        offer.qualified_name: offer.refused for info in registry.plugins for offer in info.offers if offer.refused
    }
    assert refused == {}
    for info in registry.plugins:
        for offer in info.offers:
            assert callable(registry.load(offer)), offer.qualified_name
            assert offer.provider.summary, offer.qualified_name


def test_a_plugin_that_cannot_be_kept_in_a_set_fails_alone() -> None:
    """An entry point may name any object, a plain dict among them."""
    registry = Registry(extra=[("acme", "dict", "1", lambda: {"not": "a plugin"})])
    info = _info(registry, "acme/dict")
    assert (info.state, info.reason) == ("failed", "TypeError: unhashable type: 'dict'")
    assert registry.choose("store", "tinydb").qualified_name == "perpetual-lab/tinydb"
