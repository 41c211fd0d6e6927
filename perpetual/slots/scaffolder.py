"""The scaffolder slot: writes what harnesses ask for into a project's files, and takes it out again.

The contract
------------
*View.* A scaffolder sees a `ScaffoldView` and nothing else of the lab. It works before there is a project: the folder
may be empty, and `folder` may be missing. A harness is built only where it is asked for.

*Chosen.* Names are harnesses, bare or qualified, each answered once, in order and bare; `all` means every one that is
offered, `none` no one, and `none` goes with no other name. A name that is not offered raises `UsageError` and names the
nearest; one that two distributions offer raises what `view.choose` raises. No names mean the harnesses of the last
call, else those whose files stand in the folder, else one of the scaffolder's choice.

*Scaffold.* The plans of `perpetual.slots.harness` are carried out as that module says. What others have in a file
stays. A second call changes nothing. `remove` gives the bytes back that stood there before; from a file that a person
edited since, only what Perpetual put there is taken out, and a generated file that a person edited is neither replaced
nor removed without `force`. A file that cannot be merged is a `conflict` and stands as it was, and so is a plan for a
path outside of the project, in its repository's own folder or in the lab's; a harness that fails is a `conflict` under
its name. Neither keeps the other files or harnesses from being served. With `dry_run` nothing is written, and each file
has its `diff`.

*Command.* Agents start Perpetual by `command`, else as at the last call, else by `view.accepted`, else by `perpetual`.
What came with a project, from another user, says nothing of what stood in a file before and starts nothing.

*Examine.* One finding for each harness that was scaffolded here, none for others; nothing is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from perpetual.slots.harness import Harness
from perpetual.slots.sections import Finding

__all__ = ["OfferedHarness", "ScaffoldAnswer", "ScaffoldView", "ScaffoldedFile", "Scaffolder"]


@dataclass(frozen=True, slots=True)
class OfferedHarness:
    """A harness that can serve; `build` answers it with its options and raises PerpetualError where it cannot."""

    name: str
    qualified_name: str
    build: Callable[[], Harness]


@dataclass(frozen=True, slots=True)
class ScaffoldView:
    """What a scaffolder sees.

    - `root`, `folder`: the project's folder and its `.perpetual`.
    - `project`: the project's name.
    - `harnesses`: those that can serve, in the order of `perpetual plugins list`.
    - `choose`: the one that a name means, bare or qualified; raises PluginError for none or two.
    - `accepted`: the start command that a person has accepted; () where none was.
    """

    root: Path
    folder: Path
    project: str
    harnesses: tuple[OfferedHarness, ...]
    choose: Callable[[str], OfferedHarness]
    accepted: tuple[str, ...] = ()


class ScaffoldedFile(TypedDict):
    """What was done to a file; `action` is created, merged, unchanged, removed or conflict."""

    path: str
    action: str
    reason: str | None
    diff: NotRequired[str]  # with `dry_run`


class ScaffoldAnswer(TypedDict):
    """What a call did: the harnesses that are scaffolded now, their start command, and what a person must still do."""

    harnesses: list[str]
    command: list[str]
    files: list[ScaffoldedFile]
    trust: list[str]
    snippets: NotRequired[list[dict[str, str]]]  # harness, path, what, text: for a person to put outside of the project


class Scaffolder(ABC):
    """Base of every scaffolder; see the contract at the top of this module."""

    @abstractmethod
    def chosen(self, view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
        """Returns the harnesses that a call means; raises UsageError and PluginError as the contract says."""

    @abstractmethod
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
        """Writes what these harnesses ask for, and takes out what the `remove`d ones asked for.

        Args:
            names: harnesses; none named are those of `chosen`, and with `remove` given none at all.
            remove: harnesses; `all` means those of the last calls, or without any all that are offered.
            command: how agents start Perpetual.
            dry_run: writes nothing and gives each file its `diff`.
            force: replaces and removes generated files that a person edited.

        Raises:
            UsageError: for a name in both lists, or one that is not offered.
            CorruptData: if what stood there before cannot be read.
            PerpetualError: if the project's folder cannot be written.
        """

    @abstractmethod
    def examine(self, view: ScaffoldView) -> list[tuple[str, Finding]]:
        """Returns a finding, with its check's name, for each harness that was scaffolded here; changes nothing."""
