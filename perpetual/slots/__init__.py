"""Floor 1: what a plugin may fill.

`table` holds every slot; the abstract base of each, its contract in prose first, is in the module beside this file
that has its name. This file holds `Provider` and `Option`, by which plugins offer parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perpetual.toolkit.config_keys import Key

__all__ = ["ADAPTERS", "API", "OPTION_TYPES", "SERVED", "Option", "Provider", "key_of_option", "thaw_option"]

API = 1  # the newest plugin interface that this kernel speaks; a provider that states a newer number is refused
SERVED = (1,)  # the numbers that are served side by side
# (number, slot) -> `module:callable(part)`, by which a part that was written for an older number serves
ADAPTERS: dict[tuple[int, str], str] = {}
OPTION_TYPES = ("int", "float", "bool", "str", "list", "section")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a provider or a plugin, read from config.yaml.

    - `type`: `int`, `float`, `bool`, `str`, `list` or `section`.
    - `default`: None without `nullable` makes the option compulsory.
    - `meaning`: one sentence, with the unit.
    - `choices`, `minimum`, `maximum`: the values that fit; of a list, each of its items.
    - `nullable`: whether null is a value.
    - `items`: the type of a list's items: `str`, `int`, `float`, `bool` or `section`.
    - `fields`: the options inside a section, or inside each item of a list of sections.
    - `secret`: the file holds a reference (`env:NAME`, `file:PATH`, `keyring:SERVICE/USER`), and the factory gets a
      `Secret`. Its type is `str`, its default None or a reference.
    - `variable`: an environment variable whose text wins over the files.
    """

    type: str
    default: object
    meaning: str
    choices: tuple[str, ...] = field(default=(), kw_only=True)
    minimum: float | None = field(default=None, kw_only=True)
    maximum: float | None = field(default=None, kw_only=True)
    nullable: bool = field(default=False, kw_only=True)
    items: str = field(default="str", kw_only=True)
    fields: dict[str, Option] | None = field(default=None, kw_only=True)
    secret: bool = field(default=False, kw_only=True)
    variable: str | None = field(default=None, kw_only=True)


def key_of_option(name: str, option: Option) -> Key:
    """Returns the key of a configuration file that an option is."""
    from perpetual.toolkit.config_keys import Key

    return Key(name, option.type, option.default, option.meaning, option.choices, option.minimum, option.maximum,
               option.nullable, items=option.items)  # fmt: skip


def thaw_option(data: Mapping[str, Any]) -> Option:
    """Returns the option that `dataclasses.asdict` made this mapping of; lists stand for tuples, as in JSON."""
    choices, fields = tuple(data.get("choices", ())), data.get("fields")
    inside = None if fields is None else {key: thaw_option(option) for key, option in fields.items()}
    return Option(**{**data, "choices": choices, "fields": inside})


@dataclass(frozen=True, slots=True)
class Provider:
    """An offer to fill a slot. Light: nothing is imported or built until the kernel chooses it.

    - `slot`: the name of a slot of `perpetual.slots.table`, or of one that a plugin brings with `perpetual_slots`.
    - `name`: what the configuration writes; unique per distribution and slot.
    - `factory`: `module:callable`, imported only when chosen and called with `(options)`; a store also gets
      `path=`, the folder it may use.
    - `summary`: one line for `plugins list`.
    - `options`: its options by key, read from `plugins: <slot>: <name>:`, or from `plugins: <name>:` for short.
    - `requires`: names of plugins that must be active.
    - `api`: the `API` number it was written for; one that says none was written for 1.
    - `order`: where several serve side by side, the smaller runs first.
    - `topic`: commands only: the topic of `perpetual help` that lists it, as `results`; by default `more`.
    - `head`: stores only: `module:callable(path) -> str` in a light module, an opaque token that changes with
      every committed write, taken from `os.stat` or a few bytes.
    """

    slot: str
    name: str
    factory: str
    summary: str = ""
    options: dict[str, Option] | None = None
    requires: tuple[str, ...] = ()
    api: int = 1
    order: int = 100
    head: str | None = None
    topic: str = ""
