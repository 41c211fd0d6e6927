"""Bodies of records change their shape with time: here stands how, and how a project is brought up to date.

A project keeps the version of each kind in the setting `kinds`. An older one is rewritten when it is next opened, with
the old store kept whole under `.perpetual/backups/`; a newer one is refused by name. Called by `Context`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perpetual.errors import ForeignProject
from perpetual.slots.store import KINDS, Row, StoreBase, StoreKind

__all__ = ["UPGRADES", "VERSIONS", "Upgrade", "changed", "outdated", "versions_of"]

Upgrade = Callable[[dict[str, object]], dict[str, object]]

VERSIONS = ("setting", "kinds")  # kind and id of the document that holds the versions

# (kind, version) -> what turns a body of that version into one of the next. A step stays for ever.
UPGRADES: dict[tuple[str, int], Upgrade] = {}


def versions_of(kinds: Mapping[str, StoreKind]) -> dict[str, int]:
    """Returns the version of each of Perpetual's own kinds as this program writes it; plugins' kinds keep their own."""
    return {name: kind.version for name, kind in sorted(kinds.items()) if name in KINDS}


def outdated(store: StoreBase) -> dict[str, int]:
    """Returns the kinds whose bodies are older than this program writes them, with their version in the store.

    Raises:
        ForeignProject: for a kind that a newer version wrote.
    """
    found = store.get(*VERSIONS)
    versions = found.body if found else {}
    older = {}
    for name, kind in store.kinds.items():
        if name not in KINDS:
            continue
        have = versions.get(name, 1)
        if have > kind.version:
            raise ForeignProject(
                f"the records {name!r} of this project have version {have}; this Perpetual knows {kind.version}",
                hint="upgrade perpetual-lab",
            )
        if have < kind.version:
            older[name] = have
    return older


def changed(kind: str, row: Row, have: int, want: int) -> Row:
    """Returns the row with its body brought from one version to another; its place in the record stays."""
    own = {key: value for key, value in row.items() if key[:1] == "_"}
    body = {key: value for key, value in row.items() if key[:1] != "_"}
    for version in range(have, want):
        body = UPGRADES[kind, version](body)
    return {**own, **body}
