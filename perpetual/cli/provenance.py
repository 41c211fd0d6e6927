"""A run's provenance in words. Used by the command `runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perpetual.commands import printable
from perpetual.errors import CorruptData, NotFound

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.records import Run

__all__ = ["provenance_lines", "provenance_text"]

Json = dict[str, Any]
_SHAPELESS = (KeyError, TypeError, ValueError, AttributeError, IndexError)  # of a document of another shape


def provenance_lines(lab: Lab, run: Run) -> list[str]:
    """What a run's own text says of it: its code and its packages, in two lines at most."""
    try:
        kept = lab.runs.provenance(run.id)
    except (NotFound, CorruptData):
        commit = run.git.commit
        return [f"  code: {commit}{' with changes' if run.git.dirty else ''}"] if commit else []
    try:
        lines = [f"  code: {_code(kept['git'])}"] if kept["git"]["commit"] else []
        packages = kept["interpreter"]["packages"]
        if packages is not None:
            lines.append(f"  Python {kept['interpreter']['version'] or '?'} with {len(packages)} packages")
    except _SHAPELESS:
        return ["  provenance: ALTERED since the start, it does not hold what was written"]
    return lines


def provenance_text(kept: Json) -> str:
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


def _text(kept: Json) -> str:
    git, python, machine, protected = kept["git"], kept["interpreter"], kept["machine"], kept["protected"]
    altered = {None: "", True: ", as it was written at the start", False: ", ALTERED since the start"}[kept["intact"]]
    files = [entry for entry in git["untracked"] if entry["kept"]]
    lines = [
        f"{kept['run']} of {kept['experiment']}, seed {kept['seed']}, captured {kept['captured_at']}{altered}",
        f"  command: {_joined(kept['argv'])}",
        f"  in {kept['cwd']}",
        f"  code: {_code(git)}",
    ]
    lines += [f"  remote: {git['remote']}"] if git["remote"] else []
    if git["untracked"] or git["untracked_left_out"]:
        count = len(git["untracked"]) + git["untracked_left_out"]
        lines.append(f"  untracked: {_files(count)}, {len(files)} of them kept")
    if python["path"]:
        count = f", {len(python['packages'])} packages" if python["packages"] is not None else ""
        lines.append(f"  Python {python['version'] or '?'} at {python['path']}{count}")
    if python["why"]:
        lines.append(f"  Python: {python['why']}")
    named = sum(value is not None for value in kept["environment"].values())
    lines.append(f"  environment: {len(kept['environment'])} variables, the values of {named} kept")
    lines.append(f"  machine: {machine['host']}, {machine['os']}, {machine['kernel']}, {machine['cpus']} CPUs"
                 + (f", {machine['memory_bytes'] / 2**30:.1f} GiB" if machine["memory_bytes"] else ""))  # fmt: skip
    lines += [f"  GPUs: {', '.join(kept['gpus'])}"] if kept["gpus"] else []
    if protected["patterns"]:
        lines.append(f"  protected: {_files(len(protected['files']))} of {', '.join(protected['patterns'])}")
    known = kept.get("versions")
    if known is not None:
        lines.append("  versions: " + ", ".join(f"{name} {_version(value)}" for name, value in known.items()))
    lines += [f"  not to be had: {problem}" for problem in kept["problems"]]
    return "\n".join(printable(line) for line in lines)


def _code(git: Json) -> str:
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


def _version(value: Any) -> str:
    """A version for people: hashes that are the same are the same version."""
    if isinstance(value, dict):
        programs = [f"{path} {digest[:7]}" for path, digest in value["programs"].items()]
        value = (value["tree"] or "")[:7] or ", ".join(programs) or None
    return "unknown" if value is None else str(value).rpartition(":")[2][:30]


def _files(count: int, kind: str = "") -> str:
    return f"{count} {kind}file{'s' if count != 1 else ''}"


def _joined(words: list[str]) -> str:
    import shlex

    return shlex.join(words)
