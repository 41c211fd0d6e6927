"""The capture of code, environment, packages, machine and protected paths: five facts of every run's provenance.json.

What cannot be had is a sentence in the run's `problems`: no launch fails for want of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TypedDict

from perpetual.api import Capture, CodeReader, Isolation, Redactor, RunChanges, RunEnd, RunFacts, RunStart
from perpetual.toolkit.platform import available_cpus, memory_bytes
from perpetual_provenance.code_version import Reader
from perpetual_provenance.git_snapshot import capture_code
from perpetual_provenance.protected_paths import is_known, look_at, unlike
from perpetual_provenance.python_env import interpreter_of
from perpetual_provenance.versions import version_of

__all__ = ["ProvenanceCapture", "build"]

_MOST_SHOWN = 10
# Variables that say how something is computed. Of all others only the name is kept.
_TELLING = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|CUBLAS|CUDNN|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB|PYTHON|PYTORCH|TORCH|TF|XLA|JAX|HF"
    r"|TRANSFORMERS|TOKENIZERS|TRITON|ROCM|ROCR|HIP|HSA|UCX|GLOO|OMPI|SLURM|LC|CONDA|PERPETUAL|MALLOC|TCMALLOC|NUMBA"
    r"|ACCELERATE|DS|WANDB)_\w*"
    r"|PYTHON\w*|\w*PATH|LD_PRELOAD|LANG|LANGUAGE|TZ|VIRTUAL_ENV|VIRTUAL_ENV_PROMPT|SHELL|HOME|PWD|TMPDIR|UMASK|NPROC"
    r"|RANK|LOCAL_RANK|GROUP_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|NODE_RANK|TERM|DISPLAY"
)


class ProvenanceCapture(Capture):
    """Answers the facts `git`, `environment`, `interpreter`, `machine` and `protected`, and compares the last one."""

    def before(self, start: RunStart) -> RunFacts:
        """Returns the facts; keeps the patch and the untracked files in the run's folder."""
        code = capture_code(start.root, start.folder, start.redactor)
        counted = Reader(start.root, start.code_ignore).read(start.argv, str(start.cwd))
        if counted.dirty is not None:
            # What git does not track, and what `code_ignore` names, is kept beside the run and makes its code no other.
            code.document["dirty"] = counted.dirty
        guarded = look_at(start.root, start.protected_paths)
        interpreter = interpreter_of(start.argv, start.cwd, start.env)
        facts = {
            "git": code.document,
            "environment": _environment(start.redactor, start.env, start.own_env),
            "interpreter": interpreter,
            "machine": _machine(),
            "protected": guarded,
        }
        problems = (*code.problems, *guarded["problems"])
        return RunFacts(facts, version_of(counted, guarded, interpreter), problems)

    def after(self, end: RunEnd) -> RunChanges:
        """Returns how the protected paths differ from what they were."""
        guarded = end.facts.get("protected")
        if not is_known(guarded):
            return RunChanges()
        change = unlike(end.root, guarded, most=_MOST_SHOWN)
        return RunChanges(tuple(change.taints), tuple(change.tells), compared_protected=True)

    def code_reader(self, root: Path, ignored: Sequence[str]) -> CodeReader:
        """Returns a reader of what git tracks and of the program files that a command names."""
        return Reader(root, ignored)

    def isolation(self, root: Path, place: Path) -> Isolation:
        """Returns what keeps copies of the code and makes folders for runs of it."""
        from perpetual_provenance.isolation import Copies

        return Copies(root, place)


def build(options: Mapping[str, object]) -> ProvenanceCapture:
    """Returns the capture; it has no options."""
    return ProvenanceCapture()


def _environment(redactor: Redactor, env: Mapping[str, str], own: Set[str]) -> dict[str, str | None]:
    """Returns every variable's name; the value of those that describe the computation, secrets taken out."""
    return {
        name: redactor.setting(name, env[name]) if name in own or _TELLING.fullmatch(name) else None
        for name in sorted(env)
    }


class _Machine(TypedDict):
    """The fact `machine`."""

    host: str
    os: str
    kernel: str
    cpus: int | None
    memory_bytes: int | None


def _machine() -> _Machine:
    if not hasattr(os, "uname"):
        import platform

        return {"host": platform.node(), "os": platform.system(), "kernel": platform.version(), "cpus": os.cpu_count(),
                "memory_bytes": None}  # fmt: skip
    system = os.uname()
    return {
        "host": system.nodename,
        "os": f"{_distribution() or system.sysname} ({system.machine})",
        "kernel": f"{system.sysname} {system.release}",
        "cpus": available_cpus(),  # that this process may use, of which the run inherits as many
        "memory_bytes": memory_bytes(),
    }


def _distribution() -> str | None:
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
            lines = file.read(10_000).splitlines()
    except OSError:
        return None
    names = [line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")]
    return names[0] if names else None
