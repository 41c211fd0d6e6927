"""The settings department: every key of configuration, methodology and plugins' sections, shown and set.

A key that widens what agents may do alone, or that says when a claim is decided, is for a person to set, like an
approval. Setting a methodology key is told in the feed, because what the record decides afterwards depends on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from perpetual.errors import Conflict, PluginError, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.rights import require_person
from perpetual.methodology import KEYS, STRATEGY_SCORERS, Methodology
from perpetual.schema import Item
from perpetual.slots import SLOTS, Option

__all__ = ["PastMethodology", "Settings"]

_FOR_PERSONS = frozenset(
    {
        "agents_may_approve",
        "alpha",
        "auto_approve",
        "auto_approve_max_run_hours",
        "confidence_refute_threshold",
        "confidence_support_threshold",
        "max_run_hours",
        "min_replicates",
        "on_overrun",
        "protected_paths",
        "require_confirmation",
        "required_gates",
    }
)


class PastMethodology:
    """The methodology as it stood after the event `at`, from what the feed says of keys that were set since.

    What a verdict of an earlier time rested on: today's thresholds would turn it. Events of old records do not tell
    what a key `was`; then it is what it had been set to before, or its default.
    """

    def __init__(self, live: Methodology, events: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        self.at = 0
        self._live = live
        self._set: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
        for number, event in events:
            if event["kind"] == "methodology_set":
                self._set.setdefault(event["subject"], []).append((number, event["payload"]))

    def __getitem__(self, name: str) -> Any:
        value = KEYS[name].default
        for number, payload in self._set.get(name, ()):
            if number > self.at:
                return payload.get("was", value)
            value = payload["value"]
        return self._live[name]


class Settings:
    """`lab.settings`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def config(self) -> list[Item]:
        """Every key of the configuration with value, origin and meaning; every option of a plugin included."""
        return self._ctx.config.items(self._options())

    def methodology(self) -> list[Item]:
        """Every key of the methodology with value, origin and meaning."""
        return self._ctx.config.methodology.items()

    def methodology_at(self, seq: int) -> dict[str, Any]:
        """Every key's value as it stood after the event `seq`."""
        rows = ((row.number, row.body) for row in self._ctx.store.rows("event"))
        past = PastMethodology(self._ctx.config.methodology, rows)
        past.at = seq
        return {name: past[name] for name in KEYS}

    def set_config(self, name: str, text: str) -> Item:
        """Writes one key into the project's config.yaml and answers it as it is in force.

        Raises:
            UsageError: for an unknown key (with the nearest), or a provider or plugin that is not there.
            ConfigError: for a value that does not fit.
        """
        if SLOTS.get(name) == name:
            try:
                self._ctx.registry.choose(name, text)
            except PluginError as problem:
                raise UsageError(problem.message, hint=problem.hint, code=problem.code) from problem
        if name == "store":
            self._check_empty(text)
        return self._ctx.config.set(name, text, self._options())

    def _check_empty(self, wanted: str) -> None:
        """Choosing another store leaves what the present one holds behind."""
        choose, present = self._ctx.registry.choose, self._ctx.config["store"]
        try:
            is_same = choose("store", wanted) is choose("store", present)
        except PluginError:
            return  # the present one is not to be had, and this is the way out
        if not is_same and self._ctx.store.seq():
            raise Conflict(
                f"the store {present} holds this project's record, which {wanted} would not see",
                hint=f"perpetual store migrate {wanted} takes it along",
            )

    def set_methodology(self, name: str, text: str) -> Item:
        """Writes one key into the project's methodology.yaml and answers it.

        Raises:
            UsageError: for an unknown key (with the nearest), or a scorer that is not there.
            ConfigError: for a value that does not fit.
            NotPermitted: under a coding agent's shell, for a key that widens its rights or says what decides.
        """
        methodology = self._ctx.config.methodology
        if name in _FOR_PERSONS:
            require_person(f"setting {name}", os.environ, methodology)
        if name == "exploration_strategy" and text not in STRATEGY_SCORERS:
            scorers = [offer.provider.name for offer in self._ctx.registry.serving("scorer")]
            if text.rpartition("/")[2] not in scorers:
                known = [*STRATEGY_SCORERS, *scorers]
                raise UsageError(unknown("scorer", text, known), hint="perpetual plugins list")
        with self._ctx.store.transaction() as tx:  # the feed tells in which order keys were set, and what each was
            self._ctx.config.refresh()
            methodology = self._ctx.config.methodology
            before = methodology[name] if name in KEYS else None  # an unknown key is refused by name below
            item = methodology.set(name, text)
            self._ctx.emit(tx, "methodology_set", name, {"value": item.value, "was": before})
        return item

    def init_methodology(self) -> list[Item]:
        """Writes a methodology.yaml with every key at its default, for a project that has none.

        Raises:
            Conflict: if there is one; it is left as it is.
        """
        methodology = self._ctx.config.methodology
        if methodology.exists:
            raise Conflict(f"{methodology.path} exists already", hint="perpetual methodology set KEY VALUE")
        Methodology.write_default(methodology.path)
        return Methodology(methodology.path).items()

    def _options(self) -> Mapping[str, Mapping[str, Option]]:
        """The options that a section of config.yaml may hold, by the provider that reads the section."""
        found: dict[str, dict[str, Any]] = {}
        for info in self._ctx.registry.plugins:
            for offer in info.offers:
                if offer.refused is None:
                    found.setdefault(offer.provider.name, {}).update(offer.provider.options or {})
        return found
