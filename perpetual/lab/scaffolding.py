"""The scaffolder in force, and what it sees: a configuration and a registry are enough, with a project or without.

Used by `Lab.scaffold`, `Lab.doctor` and the command `init`. `perpetual.slots.scaffolder` is the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from perpetual.catalogue import Offer
from perpetual.config import Config
from perpetual.errors import PerpetualError, PluginError
from perpetual.lab.options import PluginOptions
from perpetual.lab.trust_questions import DEFAULT_COMMAND, SCAFFOLD
from perpetual.registry import Registry
from perpetual.slots.harness import Harness
from perpetual.slots.scaffolder import OfferedHarness, ScaffoldAnswer, Scaffolder, ScaffoldView

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck

__all__ = ["chosen", "examine", "scaffold", "scaffolder_of", "view_of"]

_NO_ONE = "none"


def scaffolder_of(config: Config, registry: Registry) -> Scaffolder:
    """Returns the scaffolder that the configuration chooses.

    Raises:
        PluginError: if it cannot be chosen or built, with a way out.
    """
    try:
        offer = registry.choose("scaffolder", config.chosen(registry.slot("scaffolder")))
        built: Scaffolder = registry.build(offer, PluginOptions(config, registry).of(offer))
    except PluginError as problem:
        raise PluginError(
            f"no scaffolder is in force, and without one no file of an agent is written: {problem.message}",
            hint=f"perpetual init -H {_NO_ONE} registers no agent; {problem.hint or 'perpetual plugins list'}",
            code=problem.code,
        ) from problem
    return built


def view_of(config: Config, registry: Registry, accepted: Sequence[str] = ()) -> ScaffoldView:
    """Returns what a scaffolder sees; `accepted` is the start command that a person has accepted."""

    def offered(offer: Offer) -> OfferedHarness:
        return OfferedHarness(offer.name, offer.qualified_name, partial(_built, config, registry, offer))

    return ScaffoldView(
        root=config.root,
        folder=config.folder,
        project=config["project"] or config.root.name,
        harnesses=tuple(map(offered, registry.serving("harness"))),
        choose=lambda name: offered(registry.choose("harness", name)),
        accepted=tuple(accepted),
    )


def _built(config: Config, registry: Registry, offer: Offer) -> Harness:
    """Builds the harness of an offer, with its options from the configuration."""
    built: Harness = registry.build(offer, PluginOptions(config, registry).of(offer))
    return built


def chosen(config: Config, registry: Registry, names: Sequence[str] = ()) -> list[str]:
    """Returns the harnesses that a call means; `none` asks no scaffolder. Raises as `Scaffolder.chosen` does."""
    if {*names} == {_NO_ONE}:
        return []
    return scaffolder_of(config, registry).chosen(view_of(config, registry), names)


def scaffold(
    config: Config,
    registry: Registry,
    names: Sequence[str] = (),
    *,
    remove: Sequence[str] = (),
    command: Sequence[str] | None = None,
    accepted: Sequence[str] = (),
    dry_run: bool = False,
    force: bool = False,
) -> ScaffoldAnswer:
    """Has the scaffolder in force write and take out; see `Scaffolder.scaffold`.

    Where none is in force, `none` writes nothing, and everything else raises PluginError.
    """
    try:
        made = scaffolder_of(config, registry)
    except PluginError:
        if remove or {*names} != {_NO_ONE}:
            raise
        return {"harnesses": [], "command": list(command or accepted or DEFAULT_COMMAND), "files": [], "trust": []}
    view = view_of(config, registry, accepted)
    return made.scaffold(view, names, remove=remove, command=command, dry_run=dry_run, force=force)


def examine(config: Config, registry: Registry) -> list[DoctorCheck]:
    """Returns the doctor's findings `{check, ok, detail, hint}` about the entries in agents' files."""
    try:
        found = scaffolder_of(config, registry).examine(view_of(config, registry))
    except PerpetualError as problem:
        # A project that was never registered with an agent misses no scaffolder.
        if not (config.folder / SCAFFOLD).exists():
            return []
        return [{"check": "harnesses", "ok": None, "detail": problem.message, "hint": problem.hint}]
    except Exception as problem:  # noqa: BLE001 - a scaffolder's fault is a finding and never ends the doctor
        detail = f"the scaffolder failed: {type(problem).__name__}: {problem}"
        return [{"check": "harnesses", "ok": False, "detail": detail, "hint": "perpetual plugins list"}]
    return [{"check": name, "ok": item.ok, "detail": item.detail, "hint": item.hint} for name, item in found]
