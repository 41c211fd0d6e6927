"""Ceilings: what the user's own configuration lets rights do at most; nothing where it says nothing.

    plugins:
      autonomy:
        claim-run: {run_hours: 2, run_hours_per_day: 8, proposers: [agent:claude-code]}

A project's file may come from elsewhere, and an agent may write it. So what it says here never counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import ConfigError, unknown
from perpetual_autonomy.history import ACTIONS

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Ceiling", "ceilings", "ignored"]

NAME = "autonomy"
_INCIDENT_RATE = 0.1
_LOWEST_RATE, _HIGHEST_RATE = 0.01, 0.3
_MOST_HOURS = 10_000.0
_KEYS = ("run_hours", "run_hours_per_day", "proposers", "incident_rate", "code")
_FORMS = (("plugin", f"perpetual-lab/{NAME}"), ("plugin", NAME), (f"perpetual-lab/{NAME}",), (NAME,))


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What rights of one class of action may do at most.

    - `run_hours`: that a replicate may take, by its wall limit and GPUs.
    - `run_hours_per_day`: that are approved on one day, for all proposers together.
    - `proposers`: by their whole names; no other can have the right.
    - `incident_rate`: below which the share of experiments with an incident must be shown to lie.
    - `code`: `same` (what a person has approved) or `any`.
    """

    action: str
    run_hours: float
    run_hours_per_day: float
    proposers: tuple[str, ...]
    incident_rate: float = _INCIDENT_RATE
    code: str = "same"


def ceilings(lab: Lab) -> dict[str, Ceiling]:
    """Returns the ceilings of the user's own configuration, by class of action.

    Raises:
        ConfigError: for a class or a key that there is not, and a value that does not fit.
    """
    section = _section(lab, "user")
    for name in section:
        if name not in ACTIONS:
            raise ConfigError("your own configuration: " + unknown("class of action", str(name), ACTIONS))
    return {name: _ceiling(name, section[name]) for name in ACTIONS if section.get(name) is not None}


def ignored(lab: Lab) -> bool:
    """Returns whether the project's file has ceilings, which do not count."""
    return bool(_section(lab, "project"))


def _section(lab: Lab, origin: str) -> Mapping[str, object]:
    """Returns what a file says of this plugin, in any form that names it."""
    found: dict[str, object] = {}
    for form in reversed(_FORMS):
        place: object = lab.config.sections.get(origin, {})
        for key in form:
            place = place.get(key) if isinstance(place, dict) else None
        if isinstance(place, dict):
            found |= place
    return found


def _ceiling(action: str, value: object) -> Ceiling:
    where = f"your own configuration: plugins.{NAME}.{action}"
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must hold keys with values", hint=", ".join(_KEYS))
    for key in value:
        if key not in _KEYS:
            raise ConfigError(f"{where}: " + unknown("key", str(key), _KEYS))
    hours = _number(where, value, "run_hours", None, 0.0, _MOST_HOURS)
    per_day = _number(where, value, "run_hours_per_day", None, 0.0, _MOST_HOURS)
    rate = _number(where, value, "incident_rate", _INCIDENT_RATE, _LOWEST_RATE, _HIGHEST_RATE)
    proposers = value.get("proposers", [])
    if not isinstance(proposers, list) or not all(isinstance(one, str) and one.strip() for one in proposers):
        raise ConfigError(
            f"{where}.proposers must be a list of names", hint="as agent:claude-code; see perpetual rights"
        )
    code = value.get("code", "same")
    if code not in ("same", "any"):
        raise ConfigError(f"{where}.code must be same or any, not {code!r}")
    return Ceiling(action, hours, per_day, tuple(proposers), rate, str(code))


def _number(where: str, value: Mapping[str, object], key: str, default: float | None, low: float, high: float) -> float:
    found = value.get(key, default)
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    if not is_number or not isinstance(found, int | float) or not low <= found <= high:
        raise ConfigError(f"{where}.{key} must be a number from {low:g} to {high:g}, not {found!r}")
    return float(found)
