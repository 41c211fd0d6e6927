"""Options of providers and plugins: whose a section is, what fits, what is secret, and how they are set and unset."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import (
    ConfigError,
    NotFound,
    NotPermitted,
    Option,
    PluginError,
    Provider,
    Secret,
    UsageError,
    hookimpl,
)
from perpetual.config import Config
from perpetual.lab.options import PluginOptions, asked, with_defaults
from perpetual.registry import Registry
from perpetual.toolkit import trust_record
from perpetual.toolkit.secret import carried, uncarried
from tests.support import finding

SPEED = Option("int", 1, "metres per second")
CONFIG = ".perpetual/config.yaml"
Spec = Mapping[str, Option]


def plugin(own: Spec | None = None, **offers: dict[str, Spec]) -> Callable[[], ModuleType]:
    """A plugin with options `own`, and with providers by slot and name."""
    made = ModuleType("acme_plugin")
    hooks = {"store": "perpetual_stores", "scheduler": "perpetual_schedulers", "mcp": "perpetual_mcp_servers",
             "analyser": "perpetual_analysers", "gate": "perpetual_gates", "scorer": "perpetual_scorers",
             "memory": "perpetual_memories"}  # fmt: skip
    for slot, providers in offers.items():
        found = [Provider(slot, name, f"acme_options:{slot}", options=dict(spec)) for name, spec in providers.items()]
        setattr(made, hooks[slot], hookimpl(lambda found=found: found))
    if own is not None:
        made.perpetual_options = hookimpl(lambda: own)  # type: ignore[attr-defined]
    return lambda: made


def registry(*plugins: tuple[str, str, Callable[[], ModuleType]]) -> Registry:
    return Registry(extra=[(distribution, name, "1", load) for distribution, name, load in plugins])


def write(project: Path, text: str) -> None:
    """Replaces the section `plugins` of the project's file."""
    file = project / CONFIG
    before = file.read_text("utf-8").partition("\nplugins:")[0]
    file.write_text(f"{before}\n{text}", "utf-8")


def user_writes(text: str) -> None:
    from perpetual.config import user_file

    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(text, "utf-8")


def read(project: Path, found: Registry, slot: str, name: str) -> dict[str, Any]:
    return PluginOptions(Config(project), found).of(found.choose(slot, name))


def shown(lab: Lab) -> dict[str, tuple[Any, str]]:
    return {item.key: (item.value, item.origin) for item in lab.settings.config()}


def doctor(lab: Lab) -> tuple[bool | None, str, str | None]:
    return finding(lab, "options")


@pytest.fixture
def one() -> Registry:
    return registry(("acme", "acme", plugin(store={"acme.weather": {"speed": SPEED}})))


@pytest.fixture
def two() -> Registry:
    """A store and a scheduler of one name, which share an option and have one each."""
    spec = {"host": Option("str", "here", "the server")}
    return registry(
        ("acme", "x", plugin(store={"x": {**spec, "pool": SPEED}}, scheduler={"x": {**spec, "queue": SPEED}}))
    )


# --- whose a section is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section",
    [
        "acme.weather: {speed: 7}",
        "acme/acme.weather: {speed: 7}",
        "store: {acme.weather: {speed: 7}}",
        "store: {acme/acme.weather: {speed: 7}}",
    ],
)
def test_every_form_of_a_section_is_read(project: Path, one: Registry, section: str) -> None:
    write(project, f"plugins:\n  {section}\n")
    assert read(project, one, "store", "acme.weather") == {"speed": 7}


def test_the_fuller_form_and_the_nearer_file_win(project: Path, one: Registry) -> None:
    write(project, "plugins:\n  acme.weather: {speed: 2}\n  store: {acme.weather: {speed: 3}}\n")
    assert read(project, one, "store", "acme.weather") == {"speed": 3}
    user_writes("plugins:\n  store: {acme/acme.weather: {speed: 4}}\n")
    assert read(project, one, "store", "acme.weather") == {"speed": 3}
    write(project, "plugins:\n  disabled: []\n")
    assert read(project, one, "store", "acme.weather") == {"speed": 4}


def test_options_come_from_both_files_with_their_origins(project: Path) -> None:
    spec = {"speed": SPEED, "colour": Option("str", "red", "of the paint"), "loud": Option("bool", False, "hums")}
    user_writes("plugins:\n  disabled: [noise]\n  acme: {speed: 5, colour: blue}\n")
    write(project, "plugins:\n  acme:\n    colour: green\n")
    with Lab.open(registry=registry(("acme", "acme", plugin(store={"acme": spec})))) as lab:
        assert lab.options_of(lab.registry.choose("store", "acme")) == {"speed": 5, "colour": "green", "loud": False}
        items = shown(lab)
    assert items["plugins.acme.speed"] == (5, "user")
    assert items["plugins.acme.colour"] == ("green", "project")
    assert items["plugins.acme.loud"] == (False, "default")
    assert items["plugins.disabled"] == (["noise"], "user")


def test_one_name_in_two_slots_has_two_sections(project: Path, two: Registry) -> None:
    """A store and a scheduler of one plugin: what one has is no unknown option of the other."""
    write(project, "plugins:\n  x: {pool: 4, queue: 5}\n  store: {x: {host: there}}\n")
    assert read(project, two, "store", "x") == {"host": "there", "pool": 4}
    assert read(project, two, "scheduler", "x") == {"host": "here", "queue": 5}


def test_an_ambiguous_key_refuses_only_the_parts_that_read_it(project: Path, two: Registry) -> None:
    write(project, "plugins:\n  x: {host: there, pool: 4}\n")
    for slot in ("store", "scheduler"):
        with pytest.raises(ConfigError, match=r"plugins\.x\.host is ambiguous") as caught:
            read(project, two, slot, "x")
        assert "plugins.scheduler.acme/x.host, plugins.store.acme/x.host" in str(caught.value.hint)
    with Lab.open(registry=two) as lab:
        assert lab.status()
        ok, detail, hint = doctor(lab)
        assert (ok, "plugins.x.host is ambiguous" in detail) == (False, True)
        assert "unset plugins.x.host" in str(hint)
        lab.settings.unset_config("plugins.x.host")
        assert doctor(lab)[0] is True
        assert lab.options_of(two.choose("store", "x")) == {"host": "here", "pool": 4}


def test_a_short_key_of_two_providers_is_refused_where_it_is_set(project: Path, two: Registry) -> None:
    before = (project / CONFIG).read_bytes()
    with Lab.open(registry=two) as lab:
        with pytest.raises(UsageError, match="ambiguous") as caught:
            lab.settings.set_config("plugins.x.host", "there")
        assert (caught.value.exit, caught.value.code) == (2, "option_ambiguous")
        assert caught.value.hint == "write plugins.scheduler.x.host or plugins.store.x.host"
        assert (project / CONFIG).read_bytes() == before
        lab.settings.set_config("plugins.scheduler.x.host", "there")
        lab.settings.set_config("plugins.x.pool", "3")
        assert lab.options_of(two.choose("store", "x")) == {"host": "here", "pool": 3}
        assert lab.options_of(two.choose("scheduler", "x")) == {"host": "there", "queue": 1}
        keys = shown(lab)
    assert {key for key in keys if ".x." in key} == {
        "plugins.store.x.host", "plugins.x.pool", "plugins.scheduler.x.host", "plugins.x.queue",
    }  # fmt: skip


def test_two_distributions_are_distinguished_by_their_full_names(project: Path) -> None:
    found = registry(
        ("acme", "a", plugin(store={"x": {"speed": SPEED}})), ("beta", "b", plugin(store={"x": {"speed": SPEED}}))
    )
    with Lab.open(registry=found) as lab:
        for key in ("plugins.x.speed", "plugins.store.x.speed"):
            with pytest.raises(UsageError, match="ambiguous") as caught:
                lab.settings.set_config(key, "3")
            assert caught.value.hint == "write plugins.store.acme/x.speed or plugins.store.beta/x.speed"
        lab.settings.set_config("plugins.store.acme/x.speed", "3")
        assert lab.options_of(found.choose("store", "acme/x")) == {"speed": 3}
        assert lab.options_of(found.choose("store", "beta/x")) == {"speed": 1}


def test_a_bundled_name_keeps_its_short_form(project: Path) -> None:
    """Installing a distribution changes nothing of what a bundled part reads."""
    spec = {"lock_timeout_s": Option("float", 1.0, "seconds")}
    found = registry(("acme", "acme", plugin(scheduler={"tinydb": spec}, store={"tinydb": spec})))
    write(project, "plugins:\n  tinydb: {lock_timeout_s: 7}\n")
    assert read(project, found, "store", "tinydb") == {"lock_timeout_s": 7.0}
    assert read(project, found, "store", "acme/tinydb") == {"lock_timeout_s": 1.0}
    assert read(project, found, "scheduler", "tinydb") == {"lock_timeout_s": 1.0}


def test_a_provider_named_like_a_slot(project: Path) -> None:
    """A mapping in such a section is a provider's of the slot; anything else is an option of the provider."""
    inside = {"port": Option("int", 80, "of the server")}
    spec = {"hosts": Option("list", [], "names"), "http": Option("section", {}, "the server", fields=inside)}
    found = registry(("acme", "m", plugin(analyser={"gate": spec}, gate={"pii": {"words": Option("list", [], "w")}})))
    write(project, "plugins:\n  gate:\n    hosts: [a]\n    pii: {words: [b]}\n")
    assert read(project, found, "analyser", "gate") == {"hosts": ["a"], "http": {"port": 80}}
    assert read(project, found, "gate", "pii") == {"words": ["b"]}
    with Lab.open(registry=found) as lab:
        lab.settings.set_config("plugins.gate.http.port", "81")  # would be read as a gate's section
        assert Config(project).sections["project"]["analyser"] == {"gate": {"http": {"port": 81}}}
        assert lab.options_of(found.choose("analyser", "gate"))["http"] == {"port": 81}
        assert doctor(lab)[0] is True


def test_setting_one_form_takes_the_others_out(project: Path, one: Registry) -> None:
    write(project, "plugins:\n  store: {acme.weather: {speed: 3}}\n")
    with Lab.open(registry=one) as lab:
        item = lab.settings.set_config("plugins.acme.weather.speed", "7")
        assert (item.key, item.value, item.origin) == ("plugins.acme.weather.speed", 7, "project")
        assert Config(project).sections["project"] == {"acme.weather": {"speed": 7}}
        lab.settings.set_config("plugins.store.acme/acme.weather.speed", "8")
        assert Config(project).sections["project"] == {"store": {"acme/acme.weather": {"speed": 8}}}
        with pytest.raises(ConfigError, match="must be a whole number"):
            lab.settings.set_config("plugins.acme.weather.speed", "fast")
        with pytest.raises(UsageError, match=r"did you mean plugins\.acme\.weather\.speed"):
            lab.settings.set_config("plugins.acme.weather.spede", "7")


# --- what fits --------------------------------------------------------------------------------------------------------

TYPED: Spec = {
    "mode": Option("str", "fast", "how", choices=("fast", "safe")),
    "size": Option("int", 3, "how many", minimum=1, maximum=9),
    "limit": Option("float", None, "seconds", nullable=True),
    "ports": Option("list", [1], "ports", items="int", minimum=1),
    "pool": Option("section", {}, "connections", fields={
        "size": Option("int", 2, "connections"),
        "retry": Option("section", {}, "tries", fields={"times": Option("int", 0, "tries")}),
    }),
    "tls": Option("section", None, "encryption", nullable=True, fields={"verify": Option("bool", True, "checks")}),
    "hosts": Option("list", [], "servers", items="section", fields={
        "name": Option("str", None, "its name"), "port": Option("int", 5, "its port"),
    }),
}  # fmt: skip
DEFAULTS = {"mode": "fast", "size": 3, "limit": None, "ports": [1], "pool": {"size": 2, "retry": {"times": 0}},
            "tls": None, "hosts": []}  # fmt: skip


@pytest.fixture
def typed() -> Registry:
    return registry(("acme", "typed", plugin(store={"pg": TYPED})))


def test_typed_options_have_their_defaults(project: Path, typed: Registry) -> None:
    assert read(project, typed, "store", "pg") == DEFAULTS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mode: safe", {"mode": "safe"}),
        ("limit: null", {"limit": None}),
        ("limit: 2", {"limit": 2.0}),
        ("ports: [3, 4]", {"ports": [3, 4]}),
        ("pool: {retry: {times: 4}}", {"pool": {"size": 2, "retry": {"times": 4}}}),
        ("tls: {}", {"tls": {"verify": True}}),
        ("tls: {verify: false}", {"tls": {"verify": False}}),
        ("hosts: [{name: a}, {name: b, port: 6}]", {"hosts": [{"name": "a", "port": 5}, {"name": "b", "port": 6}]}),
    ],
)
def test_a_value_that_fits_is_in_force(project: Path, typed: Registry, text: str, value: dict[str, Any]) -> None:
    write(project, f"plugins:\n  store:\n    pg: {{{text}}}\n")
    assert read(project, typed, "store", "pg") == {**DEFAULTS, **value}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mode: slow", "unknown value 'slow'"),
        ("size: 0", "at least 1"),
        ("size: 10", "at most 9"),
        ("size: null", "has no value"),
        ("limit: soon", "a number or null"),
        ("ports: [a]", "a list of whole numbers"),
        ("ports: [0]", "at least 1"),
        ("pool: 3", "must hold keys with values"),
        ("pool: {sise: 3}", "did you mean size"),
        ("pool: {retry: {times: x}}", "pool.retry.times must be a whole number"),
        ("hosts: [{name: a, prot: 3}]", "did you mean port"),
        ("hosts: [{port: 3}]", "name must be text"),
        ("hosts: a", "a list of sections"),
        ("sise: 3", "did you mean size"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_for_its_provider(
    project: Path, typed: Registry, text: str, words: str
) -> None:
    write(project, f"plugins:\n  pg: {{{text}}}\n")
    with pytest.raises(ConfigError) as caught:
        read(project, typed, "store", "pg")
    assert words in caught.value.message
    with Lab.open(registry=typed) as lab:
        assert lab.status()
        ok, detail, _ = doctor(lab)
        assert (ok, words in detail) == (False, True)
        assert lab.settings.config()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("plugins.store.pg.pool.retry.times", "4", 4),
        ("plugins.pg.ports", "[3,4]", [3, 4]),
        ("plugins.pg.limit", "null", None),
        ("plugins.pg.tls.verify", "no", False),
        ("plugins.pg.hosts", '[{"name": "a"}]', [{"name": "a", "port": 5}]),
    ],
)
def test_typed_options_are_set_by_text(project: Path, typed: Registry, key: str, text: str, value: object) -> None:
    with Lab.open(registry=typed) as lab:
        assert lab.settings.set_config(key, text).value == value
        assert shown(lab)[key.replace(".store", "")] == (value, "project")
        with pytest.raises(UsageError):
            lab.settings.set_config("plugins.pg.pool", "3")


def test_a_variable_gives_the_value(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"size": Option("int", 3, "how many", variable="ACME_SIZE", maximum=9)}
    found = registry(("acme", "typed", plugin(store={"pg": spec})))
    monkeypatch.setenv("ACME_SIZE", "5")
    write(project, "plugins:\n  pg: {size: 4}\n")
    with Lab.open(registry=found) as lab:
        assert lab.options_of(found.choose("store", "pg")) == {"size": 5}
        assert shown(lab)["plugins.pg.size"] == (5, "environment")
        assert lab.settings.set_config("plugins.pg.size", "6").origin == "environment"
        monkeypatch.setenv("ACME_SIZE", "10")
        with pytest.raises(ConfigError, match=r"ACME_SIZE.*at most 9"):
            lab.options_of(found.choose("store", "pg"))
        monkeypatch.delenv("ACME_SIZE")
        assert lab.options_of(found.choose("store", "pg")) == {"size": 6}


def test_options_survive_the_cache_of_plugins(typed: Registry) -> None:
    from dataclasses import asdict

    from perpetual.catalogue import thaw

    info = next(info for info in typed.plugins if info.qualified_name == "acme/typed")
    assert thaw(json.loads(json.dumps(asdict(info)))) == info


def test_options_of_api_1_are_as_they_were() -> None:
    assert Option("int", 1, "metres") == Option(type="int", default=1, meaning="metres")
    with pytest.raises(TypeError):
        Option("int", 1, "metres", ("a",))  # type: ignore[call-arg]


# --- secrets ----------------------------------------------------------------------------------------------------------

WORD = "hunter2-of-the-lab"


@pytest.fixture
def kept() -> Registry:
    spec = {
        "password": Option("str", None, "of the server", secret=True, variable="ACME_PASSWORD"),
        "token": Option("str", None, "of the server", secret=True, nullable=True),
    }
    return registry(("acme", "kept", plugin(store={"pg": spec}, analyser={"pg2": spec})))


def password(lab: Lab) -> Secret:
    found = lab.options_of(lab.registry.choose("store", "pg"))["password"]
    assert isinstance(found, Secret)
    return found


@pytest.mark.parametrize("kind", ["env", "file", "keyring"])
def test_a_secret_is_referred_to_and_revealed(
    project: Path, kept: Registry, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_WORD", WORD)
    (project / "word.txt").write_text(WORD + "\n", "utf-8")
    keyring = ModuleType("keyring")
    keyring.get_password = lambda service, user: WORD if (service, user) == ("lab", "ann/b") else None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    reference = {"env": "env:THE_WORD", "file": "file:word.txt", "keyring": "keyring:lab/ann/b"}[kind]
    with Lab.open(registry=kept) as lab:
        item = lab.settings.set_config("plugins.pg.password", reference)
        assert (item.value, item.origin) == (reference, "project")
        secret = password(lab)
        assert secret.reveal() == WORD
        assert shown(lab)["plugins.pg.password"] == (reference, "project")
        assert lab.options_of(kept.choose("store", "pg"))["token"] is None
        assert doctor(lab)[0] is True
    for text in (repr(secret), str(secret), f"{secret}", repr(copy.deepcopy({"a": secret}))):
        assert "plugins.store.pg.password" in text
        assert WORD not in text
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps({"a": secret})
    assert not hasattr(secret, "__dict__")
    assert WORD not in (project / CONFIG).read_text("utf-8")


@pytest.mark.slow
def test_errors_of_plugins_do_not_quote_a_secret_that_they_were_given(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_options.py").write_text(
        "def store(options, path):\n    raise OSError('no route to ' + options['password'].reveal())\n"
        "def analyser(options):\n    raise ValueError('bad login ' + options['password'].reveal())\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ACME_PASSWORD", WORD)
    spec = {"password": Option("str", None, "of the server", secret=True, variable="ACME_PASSWORD")}
    found = registry(("acme", "kept", plugin(analyser={"pg": spec})))
    with Lab.open(registry=found) as lab:
        part = dict(lab.parts("analyser"))["acme/pg"]
        with pytest.raises(PluginError) as caught:
            part.analyse()
        checks = lab.doctor()
    assert "bad login <redacted>" in caught.value.message
    assert WORD not in repr(checks)
    assert "bad login" in repr(checks)
    assert PluginError(f"a {WORD} b", hint=WORD).document()["message"] == "a <redacted> b"


def test_a_variable_of_a_secret_holds_it(project: Path, kept: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_PASSWORD", WORD)
    with Lab.open(registry=kept) as lab:
        assert password(lab).reveal() == WORD
        assert shown(lab)["plugins.pg.password"] == ("env:ACME_PASSWORD", "environment")


def test_a_secret_that_is_written_out_is_refused_and_shown_nowhere(
    project: Path, kept: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    with Lab.open(registry=kept) as lab:
        with pytest.raises(UsageError, match="secret") as refused:
            lab.settings.set_config("plugins.pg.password", WORD)
        assert WORD not in str(refused.value) + str(refused.value.hint)
    write(project, f"plugins:\n  pg: {{password: {WORD}}}\n  gone: {{password: {WORD}}}\n")
    with Lab.open(registry=kept) as lab:
        with pytest.raises(ConfigError, match=r"plugins\.store\.pg\.password is a secret") as caught:
            password(lab)
        texts = ["".join(traceback.format_exception(caught.value)), str(caught.value.document())]
        texts += [repr(lab.settings.config()), repr(doctor(lab)), repr(lab.inventory().plugin("kept"))]
        assert doctor(lab)[0] is False
        assert lab.status()
    assert not [text for text in texts if WORD in text]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("env:THERE_IS_NONE", "holds nothing"),
        ("file:none.txt", "no such file"),
        ("file:.", "no such file"),
        ("keyring:lab/ann", "needs the package keyring"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(
    project: Path, kept: Registry, reference: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with Lab.open(registry=kept) as lab:
        lab.settings.set_config("plugins.pg.password", reference)
        with pytest.raises(ConfigError, match=words) as caught:
            password(lab).reveal()
        assert "plugins.store.pg.password" in caught.value.message


def test_a_secret_without_a_value_is_asked_for_by_its_provider_alone(project: Path, kept: Registry) -> None:
    with Lab.open(registry=kept) as lab:
        with pytest.raises(ConfigError, match=r"plugins\.store\.pg\.password has no value"):
            password(lab)
        assert dict(lab.parts("analyser")).keys() == {"perpetual-lab/rules", "acme/pg2"}
        assert doctor(lab)[0] is True


def test_a_reference_that_came_with_the_file_does_not_count(
    project: Path, kept: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file from elsewhere could have a plugin send any file of the user's to a server of its choice."""
    monkeypatch.setenv("THE_WORD", WORD)
    write(project, "plugins:\n  store: {pg: {password: 'env:THE_WORD'}}\n")
    with Lab.open(registry=kept) as lab:
        with pytest.raises(NotPermitted, match="not accepted"):
            password(lab).reveal()
        assert shown(lab)["plugins.pg.password"] == ("env:THE_WORD", "held")
        review = lab.trust.review()
        assert "config.plugins.store.pg.password" in [item.subject for item in review.held]
        assert lab.trust.changed_by_hand() == {"config.plugins.store.pg.password": "env:THE_WORD"}
        lab.trust.accept(review.digest)
        assert password(lab).reveal() == WORD
        lab.settings.unset_config("plugins.pg.password")
    write(project, "plugins:\n  store: {pg: {password: 'env:THE_WORD'}}\n")
    # What was unset is accepted no longer.
    with Lab.open(registry=kept) as lab, pytest.raises(NotPermitted, match="not accepted"):
        password(lab).reveal()
    user_writes("plugins:\n  store: {pg: {password: 'env:THE_WORD'}}\n")
    with Lab.open(registry=kept) as lab:
        assert password(lab).reveal() == WORD
        secret = password(lab)
        trust_record.remove(str(project))
        lab.config.reload()
        with pytest.raises(NotPermitted, match="held"):
            secret.reveal()


# --- guarded options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section",
    ["mcp: {hosts: [evil]}", "mcp: {mcp: {hosts: [evil]}}", "mcp: {perpetual-lab/mcp: {hosts: [evil]}}",
     "perpetual-lab/mcp: {hosts: [evil]}", "mcp: {hosts: [fine], mcp: {hosts: [evil]}}"],
)  # fmt: skip
def test_a_guarded_option_is_held_in_every_form(project: Path, section: str) -> None:
    with Lab.open() as lab:
        lab.settings.set_config("plugins.mcp.hosts", "fine")
    write(project, f"plugins:\n  {section}\n")
    with Lab.open() as lab:
        assert lab.options_of(lab.registry.choose("mcp", "mcp")) == {"hosts": ["fine"]}
        assert lab.config.weakening() == {"config.plugins.mcp.hosts": ["evil"]}
        assert shown(lab)["plugins.mcp.hosts"] == (["fine"], "held")


@pytest.mark.parametrize("key", ["plugins.mcp.hosts", "plugins.mcp.mcp.hosts", "plugins.mcp.perpetual-lab/mcp.hosts"])
def test_a_guarded_option_counts_where_its_user_sets_it(project: Path, key: str) -> None:
    with Lab.open() as lab:
        lab.settings.set_config(key, "lab.example")
        assert lab.config.weakening() == {}
    with Lab.open() as lab:
        assert lab.options_of(lab.registry.choose("mcp", "mcp")) == {"hosts": ["lab.example"]}
        assert lab.settings.unset_config(key).value == []
    write(project, "plugins:\n  mcp: {hosts: [lab.example]}\n")
    with Lab.open() as lab:
        assert lab.options_of(lab.registry.choose("mcp", "mcp")) == {"hosts": []}


# --- options of plugins themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["plugins.bell.channel", "plugins.plugin.bell.channel"])
def test_a_plugin_without_a_provider_has_options(project: Path, key: str) -> None:
    found = registry(("acme", "bell", plugin({"channel": Option("str", "#lab", "where it rings")})))
    with Lab.open(registry=found) as lab:
        assert lab.options("bell") == lab.options("acme/bell") == {"channel": "#lab"}
        assert lab.options("git") == {}
        lab.settings.set_config(key, "#else")
        assert lab.options("bell") == {"channel": "#else"}
        assert shown(lab)["plugins.bell.channel"] == ("#else", "project")
        document = lab.inventory().plugin("bell")
        assert [line["key"] for line in document["options"]] == ["channel"]
        with pytest.raises(NotFound):
            lab.options("bel")


def test_an_observer_gets_its_options(project: Path) -> None:
    heard: list[tuple[str, object]] = []
    load = plugin(
        {"channel": Option("str", "#lab", "where it rings"), "loud": Option("bool", False, "whether it hums")}
    )
    load().perpetual_event = hookimpl(  # type: ignore[attr-defined]
        lambda event, options: heard.append((event.kind, options["channel"]))
    )
    found = registry(("acme", "bell", load))
    write(project, "plugins:\n  bell: {loud: very}\n")
    with Lab.open(registry=found) as lab:
        assert "must be true or false" in lab.feed.deliver()["acme/bell"]
        assert heard == []
        lab.settings.unset_config("plugins.bell.loud")
        lab.settings.set_config("plugins.bell.channel", "#else")
        assert lab.feed.deliver() == {}
        assert {channel for _, channel in heard} == {"#else"}


def test_a_plugin_whose_options_are_none_is_named(project: Path) -> None:
    found = registry(("acme", "bell", plugin({"channel": 3})))  # type: ignore[dict-item]
    info = next(info for info in found.plugins if info.name == "bell")
    assert (info.state, "perpetual_options" in str(info.reason)) == ("failed", True)


# --- what nothing reads -----------------------------------------------------------------------------------------------


def test_dead_sections_are_named_and_harm_nothing(project: Path, one: Registry) -> None:
    write(project, "plugins:\n  pii: {words: [a]}\n  gate:\n    pii: {words: [a]}\n  tinydb: {lock_timeout_s: 2}\n")
    with Lab.open(registry=one) as lab:
        assert lab.status()
        ok, detail, hint = doctor(lab)
        assert ok is None
        assert "plugins.pii is not used: no provider or plugin pii is loaded" in detail
        assert "plugins.gate.pii is not used: no gate pii is loaded" in detail
        assert hint == "perpetual config unset plugins.pii"
        items = {item.key: item for item in lab.settings.config()}
        assert (items["plugins.pii"].origin, items["plugins.pii"].value) == ("project", None)
        assert items["plugins.pii"].meaning.startswith("Not used")
        for key in ("plugins.pii", "plugins.gate.pii.words"):
            lab.settings.unset_config(key)
        assert doctor(lab)[0] is True
    assert Config(project).sections["project"] == {"tinydb": {"lock_timeout_s": 2}}


def test_a_key_that_its_provider_has_no_longer_harms_it_alone(project: Path) -> None:
    found = registry(("acme", "acme", plugin(analyser={"acme": {"speed": SPEED}})))
    write(project, "plugins:\n  acme: {spede: 2}\n")
    with Lab.open(registry=found) as lab:
        assert dict(lab.parts("analyser")).keys() == {"perpetual-lab/rules", "acme/acme"}
        ok, detail, hint = doctor(lab)
        assert (ok, hint) == (False, "take it out: perpetual config unset plugins.acme.spede")
        assert "did you mean speed" in detail
        lab.settings.unset_config("plugins.acme.spede")
        assert doctor(lab)[0] is True


# --- unset ------------------------------------------------------------------------------------------------------------

COMMENTED = """\
# ours
format: 1
project: lab  # beside
project_id: '00ff'
# of the GPUs
gpus: none  # the cluster has none
# of the marks
agent_marks:
  # one of them
  - ACME
  # and
  - OTHER

# of the slots
slots: {critic: mild}
# of plugins
plugins:
  # which are off
  disabled: []
  # of tinydb
  tinydb:
    # seconds
    lock_timeout_s: 3  # three
  # of local
  local: {max_log_bytes: 1000000}
# below
"""


@pytest.fixture
def commented(project: Path) -> Iterator[Lab]:
    project_id = Config(project).project_id
    (project / CONFIG).write_text(COMMENTED.replace("00ff", project_id), "utf-8")
    with Lab.open() as lab:
        yield lab


@pytest.mark.parametrize(
    ("key", "gone", "value"),
    [
        ("gpus", "gpus: none  # the cluster has none\n", "nvml"),
        ("agent_marks", "agent_marks:\n  # one of them\n  - ACME\n  # and\n  - OTHER\n", None),
        ("slots.critic", "slots: {critic: mild}\n", None),
        ("plugins.disabled", "  disabled: []\n", []),
        ("plugins.tinydb.lock_timeout_s", "  tinydb:\n    # seconds\n    lock_timeout_s: 3  # three\n", 30.0),
        ("plugins.local.max_log_bytes", "  local: {max_log_bytes: 1000000}\n", 100_000_000),
        ("plugins.tinydb", "  tinydb:\n    # seconds\n    lock_timeout_s: 3  # three\n", None),
    ],
)
def test_a_key_is_unset_and_every_other_line_stays(commented: Lab, key: str, gone: str, value: object) -> None:
    file = commented.config.path
    before = file.read_text("utf-8")
    assert gone in before
    item = commented.settings.unset_config(key)
    assert file.read_text("utf-8") == before.replace(gone, "")
    assert (item.key, item.origin) == (key, "default" if key != "agent_marks" else item.origin)
    if value is not None:
        assert item.value == value
    if not key.startswith(("slots.", "plugins.tinydb")) or key.endswith("_s"):
        assert commented.settings.unset_config(key).origin == item.origin  # twice is once
    commented.config.reload()


def test_a_key_in_braces_is_unset(project: Path) -> None:
    write(project, "plugins: {tinydb: {lock_timeout_s: 3}, local: {max_log_bytes: 1000000}}  # both\n")
    with Lab.open() as lab:
        lab.settings.unset_config("plugins.tinydb.lock_timeout_s")
    assert Config(project).sections["project"] == {"local": {"max_log_bytes": 1000000}}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("stoer", "did you mean store"),
        ("format", "written once"),
        ("project_id", "written once"),
        ("plugins", "unknown key"),
        ("plugins.nobody", "unknown key"),
        ("plugins.tinydb.lock_timeout", "did you mean plugins.tinydb.lock_timeout_s"),
        ("slots.critic", "unknown key"),
    ],
)
def test_unset_refuses_an_unknown_key(project: Path, key: str, words: str) -> None:
    before = (project / CONFIG).read_bytes()
    with Lab.open() as lab, pytest.raises(UsageError, match=words.replace(".", r"\.")):
        lab.settings.unset_config(key)
    assert (project / CONFIG).read_bytes() == before


def test_an_agent_unsets_what_it_may_set(project: Path) -> None:
    with Lab.open(actor="mcp:someone/1") as lab:
        for key in ("plugins.disabled", "plugins.tinydb.lock_timeout_s", "store", "slots.critic"):
            with pytest.raises(NotPermitted):
                lab.settings.unset_config(key)
        assert lab.settings.unset_config("project").value == ""


def test_a_store_that_holds_the_record_is_not_unset(project: Path) -> None:
    user_writes("store: sqlite\n")
    with Lab.open() as lab:
        lab.hypotheses.add("m grows")
        with pytest.raises(Exception, match="holds this project's record"):
            lab.settings.unset_config("store")


def test_a_key_of_the_methodology_is_unset_with_an_event(project: Path) -> None:
    file = project / ".perpetual" / "methodology.yaml"
    text = "# ours\nalpha: 0.05  # strict\n# of proposals\nproposal_batch_size: 5\n"
    with Lab.open() as lab:
        file.write_text(text, "utf-8")
        assert lab.settings.unset_methodology("alpha").value is None
        assert file.read_text("utf-8") == text.replace("alpha: 0.05  # strict\n", "")
        event = lab.events()[-1]
        assert (event.kind, event.subject, dict(event.payload)) == (
            "methodology_set", "alpha", {"value": None, "was": 0.05},
        )  # fmt: skip
        with pytest.raises(UsageError, match="did you mean alpha"):
            lab.settings.unset_methodology("alhpa")
    with Lab.open(actor="mcp:someone/1") as lab:
        with pytest.raises(NotPermitted):
            lab.settings.unset_methodology("required_gates")
        assert lab.settings.unset_methodology("proposal_batch_size").value == 3


# --- names that belong to Perpetual -----------------------------------------------------------------------------------


def test_a_distribution_that_offers_bundled_names_changes_no_project(project: Path) -> None:
    found = registry(
        (
            "acme",
            "acme",
            plugin(scorer={"greedy": {}}, store={"tinydb": {}}, scheduler={"local": {}}, memory={"git": {}}),
        )
    )
    with Lab.open(registry=found) as lab:
        chosen = [found.choose(slot, name) for slot, name in
                  [("scorer", "greedy"), ("store", "tinydb"), ("scheduler", "local"), ("memory", "git")]]  # fmt: skip
        assert all(offer.is_bundled for offer in chosen)
        assert lab.settings.set_methodology("exploration_strategy", "greedy").value == "greedy"
        assert lab.status()
        assert lab.memory.write("a.md", "a note")


def test_required_gates_are_kept_by_qualified_names(project: Path) -> None:
    """Another distribution that brings a gate of the same bare name must not pass for the one that was meant."""
    gates: dict[str, Spec] = {"pii": {}, "immune": {}}
    found = registry(("acme", "acme", plugin(gate=gates)))
    with Lab.open(registry=found) as lab:
        assert lab.settings.set_methodology("required_gates", "immune, pii").value == ["immune", "acme/pii"]
        assert lab.settings.set_methodology("required_gates", "acme/pii,acme/immune").value == [
            "acme/pii", "acme/immune",
        ]  # fmt: skip
        with pytest.raises(UsageError, match="pij"):
            lab.settings.set_methodology("required_gates", "pij")
    both = registry(("acme", "acme", plugin(gate=gates)), ("beta", "beta", plugin(gate=gates)))
    with Lab.open(registry=both) as lab:
        with pytest.raises(UsageError, match="offered by"):
            lab.settings.set_methodology("required_gates", "pii")
        assert lab.settings.set_methodology("required_gates", "beta/pii").value == ["beta/pii"]


def test_a_secret_reaches_the_helper_process_and_stays_one() -> None:
    """Gates and observers of other distributions are called there, and questions to it are JSON."""
    options = {"a": 1, "pool": {"password": Secret("plugins.gate.pii.password", lambda: WORD)}, "list": [1]}
    sent = json.loads(json.dumps(carried(options)))
    found: Any = uncarried(sent)
    assert WORD not in repr(found)
    assert found["pool"]["password"].reveal() == WORD
    assert (found["a"], found["list"]) == (1, [1])


# --- options that an experiment gives, rather than a file ----------------------------------------------------------

_ENGINE = {
    "partition": Option("str", "short", "the queue", choices=("short", "long")),
    "account": Option("str", None, "who pays"),
    "priority": Option("int", None, "the higher starts first", nullable=True, minimum=0),
    "gres": Option("section", None, "devices", fields={"count": Option("int", 0, "how many")}),
    "reservation": Option("section", None, "time", nullable=True, fields={"name": Option("str", "a", "its name")}),
}


def test_an_experiment_s_engine_option_is_read_as_its_type() -> None:
    given = {"account": "ml", "priority": "3", "gres.count": "2", "reservation": {"name": "b"}}
    assert asked(_ENGINE, given, "option") == {
        "account": "ml", "priority": 3, "gres": {"count": 2}, "reservation": {"name": "b"},
    }  # fmt: skip
    nulls = {"priority": None, "reservation": None}
    assert asked(_ENGINE, nulls, "option") == nulls


def test_an_omitted_engine_option_has_its_default() -> None:
    whole = {"partition": "short", "account": "ml", "priority": None, "gres": {"count": 0}, "reservation": None}
    assert with_defaults(_ENGINE, {"account": "ml"}, "option") == whole
    with pytest.raises(UsageError, match="option: account has no value"):
        with_defaults(_ENGINE, {}, "option")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"partion": "long"}, "unknown option 'partion': did you mean partition"),
        ({"partition.x": "long"}, "unknown option 'partition.x'"),
        ({"gres": {"cuont": 1}}, "unknown option 'gres.cuont'"),
        ({"gres": 3}, "option: gres must hold keys with values"),
        ({"partition": 3}, "option: partition must be text"),
        ({"priority": "high"}, "priority must be a whole number or null"),
        ({"priority": -1}, "priority must be at least 0"),
    ],
)
def test_an_engine_option_that_cannot_be_asked_for_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked(_ENGINE, given, "option")
