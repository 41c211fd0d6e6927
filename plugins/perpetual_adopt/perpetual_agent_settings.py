"""perpetual-agent's methodology, key by key: which of it means the same here. Used by `perpetual_agent.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from perpetual_adopt.reading import line
from perpetual_adopt.source import Skipped

__all__ = ["methodology_of"]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10_000


def _is_word(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_SAME: dict[str, Callable[[object], bool]] = {
    "proposal_batch_size": _is_count,
    "max_concurrent_runs": _is_count,
    "confidence_support_threshold": lambda value: _is_number(value) and 0.5 <= value <= 0.9999,
    "confidence_refute_threshold": lambda value: _is_number(value) and 0.0001 <= value < 0.5,
    "auto_analyze": _is_word,
    "auto_propose": _is_word,
    "memory_write_on_completion": _is_word,
    "report_interval_hours": lambda value: _is_number(value) and value >= 0.01,
    "exploration_strategy": lambda value: value == "hypothesis_driven",
}
_OTHER = {
    "auto_approve": "there nothing read it; here it lets the loop run what it proposes, and a person sets it",
}


def methodology_of(found: Mapping[str, object]) -> tuple[dict[str, object], list[Skipped]]:
    """Returns the keys that mean the same here and have a possible value, and the others with why they are left."""
    taken: dict[str, object] = {}
    left: list[Skipped] = []
    for name, value in found.items():
        what = f"methodology {line(name, 60)}: {line(value, 60)}"
        fits = _SAME.get(str(name))
        if fits is not None and fits(value):
            taken[str(name)] = value
        elif name == "auto_approve" and value is False:
            taken["auto_approve"] = False
        elif name in _OTHER:
            left.append(Skipped(what, _OTHER[str(name)]))
        else:
            left.append(Skipped(what, "no value that this key can have here" if fits else "there is no such key here"))
    return taken, left
