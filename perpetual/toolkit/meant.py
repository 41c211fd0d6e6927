"""Commands that people of other tools look for, and what does the same here. Floor 0."""

from __future__ import annotations

__all__ = ["MEANT", "meant"]

# Words of other tools -> the command that is meant; `GROUP WORD` for a subcommand.
MEANT = {
    "add": "hypotheses add STATEMENT, or propose --command CMD", "new": "init, or hypotheses add STATEMENT",
    "show": "hypotheses show h1, experiments e1, or runs r1", "list": "hypotheses list, experiments, or runs",
    "ps": "runs", "top": "gpu-status", "start": "run e1", "exec": "run e1", "submit": "propose --command CMD",
    "stop": "kill r1", "cancel": "kill r1", "abort": "kill r1", "delete": "archive ID", "remove": "archive ID",
    "search": "find TEXT", "grep": "find TEXT", "log": "logs r1", "tail": "logs r1", "follow": "logs r1",
    "revert": "undo", "redo": "undo, which is taken back by doing the deed again", "update": "edit ID",
    "rename": "edit ID --title T", "diff": "compare e1 e2", "results": "experiments, or report", "note": "memory write",
    "hypothesis": "hypotheses", "experiment": "experiments", "settings": "config show", "version": "--version",
    "memory add": "memory write", "memory new": "memory write", "memory edit": "memory write",
    "memory get": "memory show", "memory cat": "memory show", "memory find": "memory search",
    "memory delete": "memory reject", "memory rm": "memory reject", "memory approve": "memory promote",
    "hypotheses new": "hypotheses add", "hypotheses edit": "edit h1", "hypotheses archive": "archive h1",
    "hypotheses delete": "archive h1", "hypotheses rm": "archive h1",
    "hypotheses park": "hypotheses update h1 --status parked",
    "evidence delete": "evidence retract", "evidence rm": "evidence retract", "config get": "config show",
    "methodology get": "methodology show", "budget show": "budget", "plugins add": "plugins install",
}  # fmt: skip


def meant(word: str, group: str | None = None) -> str | None:
    """Returns the hint for a command that is unknown, None where nothing like it is known."""
    found = MEANT.get(f"{group} {word}" if group else word)
    return None if found is None else f"did you mean perpetual {found}?"
