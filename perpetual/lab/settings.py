"""`lab.settings`: every key of configuration, methodology and plugins' sections, shown and set.

Most keys are for a person to set, like an approval: `perpetual.lab.protected_keys` has the few that an agent
may set. Setting a methodology key is an event, because what the record decides afterwards depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perpetual.config import CHOICES, DISABLED, PLUGINS
from perpetual.config import KEYS as CONFIG_KEYS
from perpetual.errors import Conflict, NotFound, PluginError, UnknownPlugin, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.kinds import EVENT
from perpetual.lab.methodology import DECIDING, KEYS, STRATEGY_SCORERS, Methodology
from perpetual.lab.permissions import person_only, withholds
from perpetual.lab.protected_keys import is_free
from perpetual.slots.table import SLOTS
from perpetual.toolkit.config_keys import Item, parse_text, texts

if TYPE_CHECKING:
    from perpetual.documents.ledger import Refolded
    from perpetual.lab.options.edit import Change

__all__ = ["Settings"]

_OPTIONS = f"{PLUGINS}."
_DISABLED = f"{PLUGINS}.disabled"


class Settings:
    """The keys of config.yaml and methodology.yaml, and the options of plugins.

    Attributes:
        moved: the hypotheses that the last setting moved, as `lab.evidence.refold` answers them.
    """

    moved: Sequence[Refolded] = ()

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    @property
    def withholds(self) -> bool:
        """Returns whether an agent reads the lab's answers, which then name no command or key for people."""
        return withholds(self._ctx)

    def config(self) -> list[Item]:
        """Returns every key of the configuration with value, origin and meaning; every option of a plugin included."""
        from perpetual.lab.options.edit import items

        return [*self._ctx.config.items(), *items(self._ctx.options)]

    def methodology(self) -> list[Item]:
        """Returns every key of the methodology with value, origin and meaning.

        Agents are not shown the one that frees them.
        """
        return self._shown(self._ctx.config.methodology)

    def _shown(self, methodology: Methodology) -> list[Item]:
        hidden = {"agents_may_approve"} if self.withholds else set()
        return [item for item in methodology.items() if item.key not in hidden]

    def methodology_at(self, seq: int) -> dict[str, object]:
        """Returns every key's value after the event `seq`: today's thresholds would turn an earlier verdict.

        Events of old records do not tell what a key `was`; then it is what it had been set to before, or its default.
        """
        later: dict[str, object] = {}  # values of then, of the keys that were set later
        before = {name: key.default for name, key in KEYS.items()}
        for row in self._ctx.store.find(EVENT, kind="methodology_set"):
            name, payload = row.body["subject"], row.body["payload"]
            if name in KEYS:
                if row.number > seq:
                    later.setdefault(name, payload.get("was", before[name]))
                before[name] = payload["value"]
        return {name: later.get(name, self._ctx.config.methodology[name]) for name in KEYS}

    def set_config(self, name: str, text: str) -> Item:
        """Writes one key into the project's config.yaml and answers it as it is in force.

        Raises:
            UsageError: for an unknown key (with the nearest), or a provider or plugin that is not there.
            ConfigError: for a value that does not fit.
            NotPermitted: where an agent asks for it, but for the keys of `protected_keys.AGENTS_MAY_SET`.
        """
        self._check_right(name)
        own = [slot.name for slot in SLOTS.values() if slot.selection == "one" and slot.key == name]
        brought = name.removeprefix(CHOICES) if name.startswith(CHOICES) else None
        if brought is not None:
            self._ctx.config.check_choice(self._ctx.registry.slot(brought))
        for slot in [*own, *([brought] if brought else [])]:
            try:
                self._ctx.registry.choose(slot, text)
            except PluginError as problem:
                raise UsageError(problem.message, hint=problem.hint, code=problem.code) from problem
        if name == "store":
            self._check_empty(text)
        if name == _DISABLED:
            self._check_plugins(text)
        elif name.startswith(_OPTIONS):
            from perpetual.lab.options.edit import set_option

            return self._changed(set_option(self._ctx.options, name, text))
        self._ctx.config.set(name, text)
        self._trust_anew(f"config.{name}")
        return self._ctx.config.item(name)

    def unset_config(self, name: str) -> Item:
        """Takes one key out of the project's config.yaml and answers it as it is in force then.

        A section or key that nothing reads any more can be taken out too.

        Raises:
            UsageError: for a key that does not exist, or one that only `init` writes.
            NotPermitted: where an agent asks for it, as for `set_config`.
            Conflict: for a store that would leave the record behind.
        """
        self._check_right(name)
        if name.startswith(_OPTIONS) and name != _DISABLED:
            from perpetual.lab.options.edit import unset_option

            return self._changed(unset_option(self._ctx.options, name))
        if name == "store":
            self._check_empty(str(self._ctx.config.without(name)))
        self._ctx.config.unset(name)
        self._trust_anew(f"config.{name}")
        return self._ctx.config.item(name)

    def _check_plugins(self, text: str) -> None:
        """Raises UsageError for the name of a plugin that is not installed; one that fails to load may be named."""
        for plugin in texts(parse_text(DISABLED, text, _DISABLED)):
            try:
                self._ctx.registry.named(plugin)
            except NotFound as problem:
                raise UsageError(problem.message, hint=problem.hint) from problem

    def _changed(self, change: Change) -> Item:
        """Records what this user has accepted by a change of an option."""
        record = self._ctx.trust.record
        known = {} if record is None else record.values
        accepted = {key: value for key, value in change.accepted.items() if value or key in known}
        if accepted:
            self._ctx.trust.accept(accepted)
            self._ctx.config.refresh()
        return change.look()

    def _check_right(self, name: str) -> None:
        """Raises NotPermitted where an agent may not set the key, and in a held project."""
        is_known = name in CONFIG_KEYS or name.startswith((_OPTIONS, CHOICES))  # another is refused by name later
        if is_known and not is_free("config", name):
            person_only(self._ctx, "setting this key of the configuration")
        self._ctx.trust.require("setting a key of the configuration")

    def _trust_anew(self, key: str) -> None:
        """Records the present value of a key that protects: it was set here, by this user."""
        found = {**self._ctx.config.protections(), **self._ctx.config.weakening()}
        if key in found:
            self._ctx.trust.accept({key: found[key]})
            self._ctx.config.refresh()

    def _check_empty(self, wanted: str) -> None:
        """Refuses another store where the present one holds a record, which would be left behind."""
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

        Where the key says when a hypothesis is decided, every hypothesis is folded anew.

        Raises:
            UsageError: for an unknown key (with the nearest), or a scorer that is not there.
            ConfigError: for a value that does not fit.
            NotPermitted: where an agent asks for it, but for the keys of `perpetual.lab.protected_keys.AGENTS_MAY_SET`.
        """
        self._check_methodology_right(name)
        if name == "exploration_strategy" and text not in STRATEGY_SCORERS:
            try:
                self._ctx.registry.choose("scorer", text)
            except UnknownPlugin as problem:
                if problem.code == "plugin_ambiguous":
                    raise UsageError(problem.message, hint=problem.hint, code=problem.code) from problem
                known = [*STRATEGY_SCORERS, *(offer.name for offer in self._ctx.registry.serving("scorer"))]
                raise UsageError(unknown("scorer", text, known), hint="perpetual plugins list") from problem
            except PluginError as problem:
                raise UsageError(problem.message, hint=problem.hint, code=problem.code) from problem
        if name == "required_gates":
            text = self._gates(text)
        return self._refolded(self._change_methodology(name, lambda methodology: methodology.set(name, text)))

    def unset_methodology(self, name: str) -> Item:
        """Takes one key out of the project's methodology.yaml and answers it as it is in force then.

        Raises:
            UsageError: for an unknown key (with the nearest), or where the value that is then in force does not fit.
            NotPermitted: where an agent asks for it, as for `set_methodology`.
        """
        self._check_methodology_right(name)
        return self._refolded(self._change_methodology(name, lambda methodology: methodology.unset(name)))

    def _refolded(self, item: Item) -> Item:
        from perpetual.lab.evidence import manual

        self.moved = manual.refold_all(self._ctx) if item.key in DECIDING else []
        return item

    def _check_methodology_right(self, name: str) -> None:
        if self._ctx.config.methodology.knows(name) and not is_free("methodology", name):
            person_only(self._ctx, "setting this key of the methodology")

    def _change_methodology(self, name: str, change: Callable[[Methodology], None]) -> Item:
        with self._ctx.store.transaction() as tx:  # the feed tells in which order keys were set, and what each was
            self._ctx.config.refresh()
            methodology = self._ctx.config.methodology
            before = methodology[name] if methodology.knows(name) else None  # an unknown key is refused by name below
            change(methodology)
            self._ctx.config.refresh()
            self._trust_anew(f"methodology.{name}")
            item = self._ctx.config.methodology.item(name)
            self._ctx.emit(tx, "methodology_set", name, {"value": item.value, "was": before})
        return item

    def _gates(self, text: str) -> str:
        """Returns a list of gates as it is stored: bundled ones by their bare names, others by their qualified ones.

        Raises:
            UsageError: for a gate that no plugin offers, or whose bare name two distributions offer.
        """
        registry, names = self._ctx.registry, []
        for name in texts(parse_text(KEYS["required_gates"], text, "required_gates")):
            try:
                found = registry.choose("gate", registry.qualified("gate", name))
            except PluginError as problem:
                raise UsageError(problem.message, hint=problem.hint, code=problem.code) from problem
            names.append(found.name if found.is_bundled else found.qualified_name)
        return ",".join(names)

    def init_methodology(self) -> list[Item]:
        """Writes a methodology.yaml with every key at its default, for a project that has none.

        Raises:
            Conflict: if there is one; it is left as it is.
        """
        self._ctx.trust.require("writing methodology.yaml")
        methodology = self._ctx.config.methodology
        if methodology.exists:
            raise Conflict(f"{methodology.path} exists already", hint="perpetual methodology set KEY VALUE")
        Methodology.write_default(methodology.path)
        return self._shown(Methodology(methodology.path))
