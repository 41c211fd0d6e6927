"""Floor 1: what a plugin may fill. `table` holds every slot; the abstract base of each, its contract in prose first, is
in the module beside this file that has its name. This file holds `Provider` and `Option`, by which plugins offer parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["API", "Option", "Provider"]

API = 1  # the plugin interface that this kernel speaks; a provider that states a newer number is refused


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a provider's section in config.yaml.

    `type` is `int`, `float`, `bool`, `str` or `list`; `meaning` is one sentence with the unit.
    """

    type: str
    default: Any
    meaning: str


@dataclass(frozen=True, slots=True)
class Provider:
    """An offer to fill a slot. Light: nothing is imported or built until the kernel chooses it.

    - `slot`: the name of a slot of `perpetual.slots.table`, or of one that a plugin brings with `perpetual_slots`.
    - `name`: what the configuration writes; unique per distribution and slot.
    - `factory`: `module:callable`, imported only when chosen and called with `(options)`; a store also gets
      `path=`, the folder it may use.
    - `summary`: one line for `plugins list`.
    - `options`: the keys of `plugins: <name>:` with their types and defaults.
    - `requires`: names of plugins that must be active.
    - `api`: the `API` number it was written for.
    - `order`: where several serve side by side, the smaller runs first.
    - `head`: stores only: `module:callable(path) -> str` in a light module, an opaque token that changes with
      every committed write, taken from `os.stat` or a few bytes.
    """

    slot: str
    name: str
    factory: str
    summary: str = ""
    options: dict[str, Option] | None = None
    requires: tuple[str, ...] = ()
    api: int = API
    order: int = 100
    head: str | None = None
