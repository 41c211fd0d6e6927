"""A note in a person's editor: what was typed is never lost, and nothing is written over another's change."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from perpetual.api import Conflict, PerpetualError, Refused, UsageError, printable
from perpetual.toolkit.confined import UnsafePath, read_bytes

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.memory import MemoryWrite

__all__ = ["change", "edited"]

A = TypeVar("A")
_LARGEST_BYTES = 4 * 1024 * 1024  # of what an editor left; a note is smaller, and says so itself


def change(lab: Lab, path: str, message: str | None) -> MemoryWrite | None:
    """Opens a note in the editor and writes what was saved; returns None if it was left as it is.

    Raises:
        NotFound: if there is no such note.
        Conflict: (changed) if another process has changed it meanwhile; the text is kept in a file.
        Refused: if a gate rejects it; the text is kept in a file.
    """
    note = lab.memory.get(path)
    before = lab.memory.read(note.path, exposed_only=False)

    def apply(text: str) -> MemoryWrite:
        if lab.memory.get(note.path).blob != note.blob:
            raise Conflict(f"{note.path} was changed while it was edited", hint=f"perpetual memory edit {note.path}",
                           code="changed")  # fmt: skip
        return lab.memory.write(note.path, text, type=note.type, message=message)

    return edited(before, apply, name=Path(note.path).name)


def edited(before: str, apply: Callable[[str], A], *, name: str) -> A | None:
    """Opens a text in the editor until it is taken or given up; returns the answer of `apply`, None if unchanged.

    Raises:
        UsageError: where the editor cannot be started, or the text is no UTF-8.
        PerpetualError: what `apply` raises and a person does not mend; the file with the text is named.
    """
    folder = Path(tempfile.mkdtemp(prefix="perpetual-note-"))  # for its owner alone
    path = folder / (name if name.endswith(".md") else f"{name}.md")
    path.write_text(before, "utf-8")
    try:
        answer = _until_taken(path, before, apply)
    except PerpetualError as problem:
        if _is_typed(path, before):
            raise _kept(problem, path) from problem
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except (click.Abort, KeyboardInterrupt):
        if _is_typed(path, before):
            click.echo(f"your text is kept in {path}", err=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)  # of the editor's backups too
    return answer


def _is_typed(path: Path, before: str) -> bool:
    """Returns whether there is a file that is not the text as it was."""
    try:
        return read_bytes(path, limit=_LARGEST_BYTES) != before.encode()
    except UnsafePath:
        return path.is_file()
    except OSError:
        return False


def _until_taken(path: Path, before: str, apply: Callable[[str], A]) -> A | None:
    while True:
        _open(path)
        text = _read(path)
        if text == before or not text.strip():
            return None
        try:
            return apply(text)
        except (Conflict, Refused):
            raise
        except PerpetualError as problem:
            click.echo(f"error: {printable(problem.message)}", err=True)
            if not click.confirm("edit it again?", default=True, err=True):
                raise


def _open(path: Path) -> None:
    try:
        click.edit(filename=str(path))
    except click.ClickException as problem:
        raise UsageError(problem.format_message(), hint="EDITOR=nano perpetual memory edit PATH") from problem


def _read(path: Path) -> str:
    try:
        text = read_bytes(path, limit=_LARGEST_BYTES).decode("utf-8").replace("\r\n", "\n")
    except OSError as problem:  # UnsafePath among them: a link, a folder, a pipe, or a file without an end
        raise UsageError(
            f"the editor left no text file at {path}: {problem.strerror}", hint="save it there"
        ) from problem
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path} cannot be read as UTF-8 text", hint="save it as UTF-8") from problem
    if "\0" in text:
        raise UsageError(f"{path} is no text: it has a null character", hint="save it as UTF-8 text")
    return text


def _kept(problem: PerpetualError, path: Path) -> PerpetualError:
    """Returns the error with the place where the text is kept."""
    kept = f"your text is kept in {path}"
    problem.hint = f"{problem.hint}; {kept}" if problem.hint else kept
    return problem
