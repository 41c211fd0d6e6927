"""The scaffolder `files`: writes what harnesses ask for into the project's files, each in its own format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpetual.api import Finding, ScaffoldAnswer, Scaffolder, ScaffoldView
from perpetual_harnesses.scaffold import chosen, scaffold

__all__ = ["build"]


def build(options: Mapping[str, object]) -> Scaffolder:
    """Returns the scaffolder; it has no options."""
    return _Files()


class _Files(Scaffolder):
    """Merges JSON, TOML and marked blocks, and keeps what stood there before in `.perpetual/scaffold.json`."""

    def chosen(self, view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
        return chosen(view, names)

    def scaffold(
        self,
        view: ScaffoldView,
        names: Sequence[str] = (),
        *,
        remove: Sequence[str] = (),
        command: Sequence[str] | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ScaffoldAnswer:
        return scaffold(view, names, remove=remove, command=command, dry_run=dry_run, force=force)

    def examine(self, view: ScaffoldView) -> list[tuple[str, Finding]]:
        from perpetual_harnesses.scaffold_check import examine

        return examine(view)
