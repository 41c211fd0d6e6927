"""A run's provenance in words. Used by the command `runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import CorruptData, NotFound, printable
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run
    from perpetual.documents.provenance import Interpreter, Provenance, ProvenanceCode

__all__ = ["provenance_lines", "provenance_text"]

Json = dict[str, object]
_UNSAID = "unknown: no capture looked at it"
_LONGEST_FACT = 200  # characters
_SHOWN = frozenset(
    {
        "schema",
        "run",
        "experiment",
        "spec_hash",
        "seed",
        "argv",
        "cwd",
        "git",
        "versions",
        "environment",
        "interpreter",
        "machine",
        "gpus",
        "protected",
        "perpetual",
        "captured_at",
        "problems",
        "intact",
    }
)
_SHAPELESS = (KeyError, TypeError, ValueError, AttributeError, IndexError)  # of a document of another shape


def provenance_lines(lab: Lab, run: Run) -> list[str]:
    """Returns what a run's own text says of it: its code and its packages, in two lines at most."""
    try:
        kept = lab.runs.provenance(run.id)
    except (NotFound, CorruptData):
        commit = run.git.commit
        return [f"  code: {commit}{' with changes' if run.git.dirty else ''}"] if commit else []
    try:
        git, python = kept["git"], kept["interpreter"]
        lines = [f"  code: {_code(git)}"] if git is not None and git["commit"] else []
        if python is not None and python["packages"] is not None:
            lines.append(f"  Python {python['version'] or '?'} with {counted(len(python['packages']), 'package')}")
    except _SHAPELESS:
        return ["  provenance: ALTERED since the start, it does not hold what was written"]
    return lines


def provenance_text(kept: Provenance) -> str:
    """Returns all of it that a person reads; the lists in full are in the JSON.

    Raises CorruptData if a run has replaced it by other JSON.
    """
    try:
        return _text(kept)
    except _SHAPELESS as problem:
        raise CorruptData(
            f"the provenance does not hold what was written at the start: {problem!r}",
            hint="something has changed it since; the run counts as tainted",
        ) from problem


def _text(kept: Provenance) -> str:
    git, python, machine, protected = kept["git"], kept["interpreter"], kept["machine"], kept["protected"]
    altered = {None: "", True: ", as it was written at the start", False: ", ALTERED since the start"}[kept["intact"]]
    lines = [
        f"{kept['run']} of {kept['experiment']}, seed {kept['seed']}, captured {kept['captured_at']}{altered}",
        f"  command: {_joined(kept['argv'])}",
        f"  in {kept['cwd']}",
        *(_of_code(git) if git is not None else [f"  code: {_UNSAID}"]),
        *(_of_python(python) if python is not None else [f"  Python: {_UNSAID}"]),
    ]
    if kept["environment"] is None:
        lines.append(f"  environment: {_UNSAID}")
    else:
        named = sum(value is not None for value in kept["environment"].values())
        lines.append(f"  environment: {len(kept['environment'])} variables, the values of {named} kept")
    if machine is None:
        lines.append(f"  machine: {_UNSAID}")
    else:
        lines.append(f"  machine: {machine['host']}, {machine['os']}, {machine['kernel']}, {machine['cpus']} CPUs"
                     + (f", {machine['memory_bytes'] / 2**30:.1f} GiB" if machine["memory_bytes"] else ""))  # fmt: skip
    lines += [f"  GPUs: {', '.join(kept['gpus'])}"] if kept["gpus"] else []
    if protected["patterns"]:
        patterns, listed = ", ".join(protected["patterns"]), protected["files"]
        looked = f"{patterns}, {_UNSAID}" if listed is None else f"{_files(len(listed))} of {patterns}"
        lines.append(f"  protected: {looked}")
    known = kept.get("versions")
    if known is not None:
        lines.append("  versions: " + ", ".join(f"{name} {_version(value)}" for name, value in known.items()))
    lines += [f"  {name}: {_shown(value)}" for name, value in kept.items() if name not in _SHOWN]
    lines += [f"  not to be had: {problem}" for problem in kept["problems"]]
    return "\n".join(printable(line) for line in lines)


def _of_code(git: ProvenanceCode) -> list[str]:
    files = [entry for entry in git["untracked"] if entry["kept"]]
    lines = [f"  code: {_code(git)}"]
    lines += [f"  remote: {git['remote']}"] if git["remote"] else []
    if git["untracked"] or git["untracked_left_out"]:
        count = len(git["untracked"]) + git["untracked_left_out"]
        lines.append(f"  untracked: {_files(count)}, {len(files)} of them kept")
    return lines


def _of_python(python: Interpreter) -> list[str]:
    lines = []
    if python["path"]:
        count = f", {counted(len(python['packages']), 'package')}" if python["packages"] is not None else ""
        lines.append(f"  Python {python['version'] or '?'} at {python['path']}{count}")
    if python["why"]:
        lines.append(f"  Python: {python['why']}")
    return lines


def _shown(value: object) -> str:
    """Returns a fact of a plugin's own, in one line."""
    import json

    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_FACT else f"{text[:_LONGEST_FACT]}... (in full with --json)"


def _code(git: ProvenanceCode) -> str:
    if git["commit"] is None:
        return f"unknown ({git['why']})" if git["why"] and not git["patch"] else "no commit yet"
    if git["dirty"] is None:
        return f"{git['commit']}, changes unknown"
    if not git["dirty"]:
        loose = len(git["untracked"]) + git["untracked_left_out"]  # which make the code no other
        return f"{git['commit']}, clean" + (f", and {_files(loose, 'untracked ')}" if loose else "")
    changes = []
    if git["patch_bytes"]:
        changes.append(f"a patch of {git['patch_bytes']} bytes" + ("" if git["patch"] else ", not kept"))
    if git["untracked"]:
        changes.append(_files(len(git["untracked"]) + git["untracked_left_out"], "untracked "))
    return f"{git['commit']} with {' and '.join(changes) or 'changes'}"


def _version(value: object) -> str:
    """Returns a version for people: hashes that are the same are the same version."""
    if isinstance(value, dict):
        programs = [f"{path} {digest[:7]}" for path, digest in value["programs"].items()]
        value = (value["tree"] or "")[:7] or ", ".join(programs) or None
    return "unknown" if value is None else str(value).rpartition(":")[2][:30]


def _files(count: int, kind: str = "") -> str:
    return f"{count} {kind}file{'s' if count != 1 else ''}"


def _joined(words: list[str]) -> str:
    import shlex

    return shlex.join(words)
