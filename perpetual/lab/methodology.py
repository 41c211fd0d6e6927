"""Methodology of a project: `methodology.yaml`, every key documented, every key read somewhere. Floor 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perpetual.config import GUARDS
from perpetual.errors import ConfigError, UsageError, unknown
from perpetual.toolkit import yamlfile
from perpetual.toolkit.config_keys import (
    ABSENT,
    Guarded,
    Item,
    Key,
    check,
    check_entry,
    check_names,
    false_is_weaker,
    fewer_is_weaker,
    guarded,
    higher_is_weaker,
    lower_is_weaker,
    more_is_weaker,
    order_is_weaker,
    parse_text,
    true_is_weaker,
)
from perpetual.toolkit.quiet import fewer_are_weaker, minutes_of

__all__ = ["DAILY_CAPS", "DECIDING", "FILE", "KEYS", "STRATEGY_SCORERS", "Methodology"]

_THRESHOLDS = ("confidence_refute_threshold", "confidence_support_threshold")

FILE = "methodology.yaml"

# Strategies whose scorer has another name.
STRATEGY_SCORERS = {
    "hypothesis_driven": "information-gain",
    "information_gain": "information-gain",
    "round_robin": "round-robin",
}

# The keys of the methodology by which a hypothesis is decided.
DECIDING = (
    "confidence_support_threshold",
    "confidence_refute_threshold",
    "min_replicates",
    "require_confirmation",
    "alpha",
)
# What has a cap for each day -> its key.
DAILY_CAPS = {name: f"max_{name}_per_day" for name in ("run_hours", "calls", "tokens", "usd")}

CODE_IGNORE = ("*.md", "docs/**", "LICENSE*", "report.html", ".agents/**", ".claude/**", ".codex/**", ".cursor/**",
               ".opencode/**", ".mcp.json", "opencode.json")  # fmt: skip
_COMMON_ALPHA = 0.05
_DEAD = "No active plugin brings this key."


def _looser_alpha(value: Any, base: object) -> bool:
    """Returns a label that is given more easily; none at all claims nothing."""
    return value is not None and value > (_COMMON_ALPHA if base is None else base)


def _later_code(value: object, base: object) -> bool:
    """Returns null asks the queue and agents, and warns persons: weaker than `ask`, and stricter than `warn`."""
    order = ("ask", None, "warn", "allow")
    return order.index(value) > order.index(base)


# Keys that protect: the rule by which a value is weaker than another one.
_WEAKER: dict[str, Callable[[object, object], bool]] = {
    "agents_may_approve": true_is_weaker,
    "alpha": _looser_alpha,
    "auto_approve": true_is_weaker,
    "auto_approve_max_run_hours": higher_is_weaker,
    "code_changes": _later_code,
    "code_ignore": more_is_weaker,
    "confidence_refute_threshold": higher_is_weaker,
    "confidence_support_threshold": lower_is_weaker,
    **dict.fromkeys(("max_run_hours", *DAILY_CAPS.values()), higher_is_weaker),
    "memory_exposure": order_is_weaker("promoted", "scanned"),
    "min_replicates": lower_is_weaker,
    "on_overrun": order_is_weaker("kill", "warn"),
    "protected_paths": fewer_is_weaker,
    "quiet_hours": fewer_are_weaker,
    "require_confirmation": false_is_weaker,
    "required_gates": fewer_is_weaker,
}

KEYS: dict[str, Key] = {
    key.name: key._replace(weaker=_WEAKER.get(key.name))
    for key in (
        Key("exploration_strategy", "str", "hypothesis_driven",
            "Which scorer ranks candidates: hypothesis_driven (information gain per run-hour), decisive, greedy, "
            "thompson, random, round_robin, or any scorer's name."),
        Key("proposal_batch_size", "int", 3, "How many open proposals the loop keeps at most.", minimum=1),
        Key("confidence_support_threshold", "float", 0.8,
            "At or above this confidence a hypothesis counts as supported.", minimum=0.5, maximum=0.9999),
        Key("confidence_refute_threshold", "float", 0.2,
            "At or below this confidence a hypothesis counts as refuted.", minimum=0.0001, maximum=0.5),
        Key("prior", "str", "even",
            "How likely a claim is beforehand where nothing is said: even (0.5), or empirical: the share of the tested "
            "claims that seem true, once ten are decided, from 0.25 to 0.75.", choices=("even", "empirical")),
        Key("min_replicates", "int", 2, "Measured runs a hypothesis needs before it can be decided.", minimum=1),
        Key("require_confirmation", "bool", False,
            "Whether a hypothesis is supported only once an experiment proposed as --confirmation speaks for it too."),
        Key("min_information_gain_bits", "float", 0.01,
            "A candidate whose expected gain is below this many bits is not worth a run.", minimum=0.0),
        Key("explore_fraction", "float", 0.0,
            "Share of the launches that are drawn at random among what is worth a run.", minimum=0.0, maximum=1.0),
        Key("cost_exponent", "float", 1.0,
            "What a candidate is worth is divided by its run-hours to this power; 0 ignores what it costs.",
            minimum=0.0, maximum=2.0),
        Key("alpha", "float", None,
            "Label a decided hypothesis established when also its e-value is at least 1/alpha, e.g. 0.05.",
            minimum=0.0001, maximum=0.5, nullable=True),
        Key("auto_approve", "bool", False, "Whether the loop approves proposals by itself, inside the budget."),
        Key("auto_approve_max_run_hours", "float", None,
            "The loop approves by itself only experiments whose declared cost is at most this many run-hours.",
            minimum=0.0, nullable=True),
        Key("agents_may_approve", "bool", False,
            "Whether agents may do what is for persons: approve, promote notes, set the budget, decide by hand, take "
            "back what was measured (a guard rail)."),
        Key("auto_propose", "bool", True, "Whether the loop asks the proposers for new experiments."),
        Key("auto_analyze", "bool", True, "Whether the loop has finished runs put into words by the analysers."),
        Key("memory_write_on_completion", "bool", True,
            "Whether a verdict and a failed run are written to memory as notes."),
        Key("memory_exposure", "str", "scanned",
            "Which notes agents are shown: scanned (plain notes that passed the gates) or promoted.",
            choices=("scanned", "promoted")),
        Key("required_gates", "list", [*GUARDS], "Gates without which no note is written."),
        Key("max_concurrent_runs", "int", 4, "How many runs may be live at once.", minimum=1),
        Key("max_run_hours", "float", None,
            "Total run-hours (wall hours x max(1, GPUs)) that the project may use; null is unlimited.",
            minimum=0.0, nullable=True),
        Key("max_run_hours_per_day", "float", None,
            "Run-hours that may be used on one calendar day of this machine; null is unlimited. A run counts on the "
            "day of its end, and on each before with all that it may still use.",
            minimum=0.0, nullable=True),
        Key("max_calls_per_day", "int", None,
            "Requests to models that may be made on one calendar day; null is unlimited.", minimum=0, nullable=True),
        Key("max_tokens_per_day", "int", None,
            "Tokens that requests to models may use on one calendar day; null is unlimited.", minimum=0,
            nullable=True),
        Key("max_usd_per_day", "float", None,
            "US dollars that requests to models may cost on one calendar day; null is unlimited.", minimum=0.0,
            nullable=True),
        Key("quiet_hours", "texts", None,
            "When the loop launches nothing, in local time: 22:00-07:00, or mon-fri 09:00-17:00, or a list of such. "
            "Runs that are live go on.",
            nullable=True, form=minutes_of),
        Key("report_interval_hours", "float", None,
            "How often the loop has a digest made, in hours; null is never.", minimum=0.01, nullable=True),
        Key("default_cost_run_hours", "float", 1.0,
            "Assumed cost of one replicate, in run-hours, where an experiment declares none.", minimum=0.0),
        Key("default_wall_s", "float", 86400.0,
            "Wall limit of a run, in seconds, where neither a limit nor a cost is declared.", minimum=1.0),
        Key("no_output_s", "float", None,
            "A run that writes nothing for so many seconds is ended, unless its experiment says otherwise.",
            minimum=1.0, nullable=True),
        Key("on_overrun", "str", "kill",
            "What becomes of a run at its wall limit: kill, or warn: it goes on, and what it reserves grows with it.",
            choices=("kill", "warn")),
        Key("auto_retry", "list", [],
            "Causes for which an ended run is tried again by itself: lost (its end is unknown), oom (out of memory), "
            "preempted (ended from outside).",
            choices=("lost", "oom", "preempted")),
        Key("max_attempts", "int", 2, "How many attempts a replicate gets at most by itself.", minimum=1),
        Key("protected_paths", "list", [],
            "Files and folders (or patterns) that a run may not change: one that did is tainted and weighs nothing."),
        # Keys that weaken: `allow` and `warn`, and every glob, let more code run than what was approved.
        Key("code_changes", "str", None,
            "Where the code was changed since the approval: ask (not started until it is approved again), warn, or "
            "allow; null: warn where a person launches, ask for the queue, the loop and agents.",
            choices=("ask", "warn", "allow"), nullable=True),
        Key("code_ignore", "list", list(CODE_IGNORE),
            "Tracked files (globs) whose change makes no other code: texts, reports, settings of coding agents."),
        Key("isolate", "bool", False,
            "Whether runs start in a copy of the code that was approved, unless their experiment says otherwise."),
        Key("kill_grace_s", "float", 10.0, "Seconds between TERM and KILL when a run is ended.", minimum=0.0),
    )
}  # fmt: skip


class Methodology:
    """The keys in force. Values are attributes by `methodology["max_concurrent_runs"]`.

    A value of the file that weakens protection counts only as far as the user's own configuration or the user's trust
    in this project reaches; `held` names the others, with what the file says.

    Args:
        user: values of the user's own configuration.
        accepted: values that the user has trusted in this project; None puts the file in force as it is.
        brought: the keys that plugins bring, by full name (`PLUGIN.KEY`); asked only where one is looked at.

    Raises:
        ConfigError: for a broken file, an unknown key (with the nearest name) or a wrong value (with its line).
    """

    def __init__(
        self,
        path: Path,
        *,
        user: Mapping[str, object] | None = None,
        accepted: Mapping[str, object] | None = None,
        brought: Callable[[], Mapping[str, Key]] = dict,
    ) -> None:
        self.path, self._brought_keys = path, brought
        self._user = {name: check(KEYS[name], value, "methodology") for name, value in (user or {}).items()}
        self._accepted = accepted
        self._read()

    def _read(self) -> None:
        found = yamlfile.read_yaml(self.path)
        self.exists, data = found is not None, found or {}
        self.held: dict[str, object] = {}
        self._values: dict[str, object] = {}
        self._origins: dict[str, str] = {}
        self._brought = {name: value for name, value in data.items() if "." in name}  # checked where they are used
        for name in data:
            if name not in KEYS and name not in self._brought:
                check_names({name: 0}, KEYS, yamlfile.place_of(self.path, name))
        for name, key in KEYS.items():
            if name in data:
                self._weigh(key, check_entry(key, data[name], self.path, name))
            elif name in self._user:
                self._values[name], self._origins[name] = self._user[name], "user"
            else:
                self._weigh(key, key.default)
                self._origins[name] = "held" if name in self.held else "default"
        if self["confidence_refute_threshold"] >= self["confidence_support_threshold"]:
            place = yamlfile.place_of(self.path, "confidence_refute_threshold")
            high = self["confidence_support_threshold"]
            raise ConfigError(f"{place}: the refute threshold must lie below the support threshold ({high:g})")

    def _weigh(self, key: Key, value: object) -> None:
        """Puts a value of the file in force, or keeps the one that it would weaken."""
        found = Guarded(value, False)
        if self._accepted is not None:
            user, accepted = self._user.get(key.name, ABSENT), self._accepted.get(key.name, ABSENT)
            found = guarded(key, value, user=user, accepted=accepted)
        self._values[key.name] = found.value
        self._origins[key.name] = "held" if found.held else "project"
        if found.held:
            self.held[key.name] = value

    def __getitem__(self, name: str) -> Any:
        if "." not in name:
            return self._values[name]
        key = self._key(name)
        return check_entry(key, self._brought[name], self.path, name) if name in self._brought else key.default

    def knows(self, name: str) -> bool:
        """Returns whether there is a key of that name: Perpetual's own, or one of an active plugin."""
        return name in KEYS or name in self._brought_keys()

    def dead(self) -> list[str]:
        """Returns the keys of the file that no active plugin brings."""
        return [name for name in self._brought if name not in self._brought_keys()]

    def protections(self) -> dict[str, object]:
        """Returns the values in force of the keys that protect: what trust in the project as it is covers."""
        return {name: self._values[name] for name, key in KEYS.items() if key.weaker is not None}

    @property
    def scorer(self) -> str:
        """Returns the scorer that `exploration_strategy` names."""
        name: str = self["exploration_strategy"]
        return STRATEGY_SCORERS.get(name, name)

    def items(self) -> list[Item]:
        """Returns every key with its value, where it comes from and what it means; those of plugins too."""
        own = [Item(name, self._values[name], self._origins[name], key.meaning) for name, key in KEYS.items()]
        brought = [self._item(key) for key in self._brought_keys().values()]
        return [*own, *brought, *(Item(name, self._brought[name], "project", _DEAD) for name in self.dead())]

    def _item(self, key: Key) -> Item:
        return Item(key.name, self[key.name], "project" if key.name in self._brought else "default", key.meaning)

    def item(self, name: str) -> Item:
        """Returns one of the `items`; a key of the file that no plugin brings any more has no value once it is gone."""
        return next((item for item in self.items() if item.key == name), Item(name, None, "default", _DEAD))

    def _key(self, name: str) -> Key:
        key = KEYS.get(name) or self._brought_keys().get(name)
        if key is None:
            raise UsageError(unknown("key of the methodology", name, [*KEYS, *self._brought_keys()]))
        return key

    def set(self, name: str, text: str) -> None:
        """Writes one key, given as text, into the file, comments kept.

        Raises:
            UsageError: for an unknown key.
            ConfigError: for a value that does not fit.
        """
        value = parse_text(self._key(name), text, FILE)
        self._pair(name, value)
        yamlfile.set_value(self.path, (name,), value)
        self._read()

    def unset(self, name: str) -> None:
        """Takes one key out of the file, comments kept.

        Raises:
            UsageError: for an unknown key.
        """
        if name not in self._brought:
            self._pair(name, self._user.get(name, self._key(name).default))
        yamlfile.remove_value(self.path, (name,))
        self._read()

    def _pair(self, name: str, value: object) -> None:
        values: dict[str, Any] = {key: value if name == key else self[key] for key in _THRESHOLDS}
        low, high = (values[key] for key in _THRESHOLDS)
        if low >= high:
            raise UsageError(f"the refute threshold ({low:g}) must lie below the support threshold ({high:g})")

    @staticmethod
    def write_default(path: Path, overrides: Mapping[str, object] | None = None) -> None:
        """Writes a file with every key, its default (or override) and its meaning as a comment."""
        chosen = overrides or {}
        entries = [(name, chosen.get(name, key.default), key.meaning) for name, key in KEYS.items()]
        yamlfile.write_document(path, entries, title="How research is done in this project.")
