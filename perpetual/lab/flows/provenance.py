"""Provenance: what a run was started from, written into its folder before its process starts.

`provenance.json` answers, for one run and for ever: which command, in which folder, with which environment and seed, by
which Python with which packages, on which machine, from which code; and how the protected paths looked. Its sha256
stands in the run's record, so that a later change is seen. What cannot be had is a sentence in `problems`: no launch
fails for want of it. Used by `start` (which captures), `reconcile` (which judges) and `lab.runs.provenance`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from perpetual import __version__
from perpetual.errors import CorruptData, NotFound
from perpetual.lab.flows import Desks
from perpetual.lab.flows.code_version import CodeReader
from perpetual.lab.flows.codestate import capture_code
from perpetual.lab.flows.interpreter import interpreter_of
from perpetual.lab.flows.protected import Change, look_at, unlike
from perpetual.lab.flows.versions import version_of
from perpetual.records import GitState, to_json
from perpetual.slots.scheduler import LaunchSpec
from perpetual.slots.store import Document
from perpetual.toolkit.atomic import read_file, write_atomic
from perpetual.toolkit.foreign import DEEPEST, parse_json
from perpetual.toolkit.platform import available_cpus
from perpetual.toolkit.redact import redact_setting, redact_words

__all__ = ["FILE", "Kept", "capture", "kept_of", "provenance", "taint_of"]

FILE = "provenance.json"
SCHEMA = "perpetual.provenance/1"

_MOST_SHOWN = 10
_DEEPEST = 2 * DEEPEST  # levels of what is read back: what a specification may hold, and its place in the document
# Variables that say how something is computed. Of all others only the name is kept.
_TELLING = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|CUBLAS|CUDNN|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB|PYTHON|PYTORCH|TORCH|TF|XLA|JAX|HF"
    r"|TRANSFORMERS|TOKENIZERS|TRITON|ROCM|ROCR|HIP|HSA|UCX|GLOO|OMPI|SLURM|LC|CONDA|PERPETUAL|MALLOC|TCMALLOC|NUMBA"
    r"|ACCELERATE|DS|WANDB)_\w*"
    r"|PYTHON\w*|\w*PATH|LD_PRELOAD|LANG|LANGUAGE|TZ|VIRTUAL_ENV|VIRTUAL_ENV_PROMPT|SHELL|HOME|PWD|TMPDIR|UMASK|NPROC"
    r"|RANK|LOCAL_RANK|GROUP_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|NODE_RANK|TERM|DISPLAY"
)


class Kept(NamedTuple):
    """What the run's record holds of its provenance."""

    git: GitState
    sha256: str | None  # of provenance.json
    unmatched: tuple[str, ...] = ()  # patterns of `protected_paths` that match nothing
    versions: Mapping[str, Any] | None = None  # of code, data and environment

    def noted(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a run's body, given as it stands; none where nothing was kept."""
        if self.sha256 is None:
            return {}
        told = [
            {
                "kind": "protected",
                "text": f"{pattern!r} of protected_paths matches nothing",
                "source": "methodology.yaml",
            }
            for pattern in self.unmatched
        ]
        known = [*run.get("annotations", ())]
        return {
            "git": to_json(self.git),
            "provenance_sha256": self.sha256,
            **({"versions": {**self.versions}} if self.versions else {}),
            "annotations": [*known, *(item for item in told if item not in known)],
        }


def capture(desks: Desks, run: Document, experiment: Document, spec: LaunchSpec) -> Kept:
    """Writes the provenance of a run that is about to start; the folder is the run's, and is there.

    Raises:
        OSError: if the folder cannot be written.
    """
    ctx = desks.ctx
    methodology = ctx.config.methodology
    code = capture_code(ctx.config.root, spec.log_dir)
    counted = CodeReader(ctx.config.root, methodology["code_ignore"]).of(spec.argv, experiment.body["cwd"])
    if counted.dirty is not None:
        # What git does not track, and what `code_ignore` names, is kept beside the run and makes its code no other.
        code.document["dirty"] = counted.dirty
    guarded = look_at(ctx.config.root, methodology["protected_paths"])
    interpreter = interpreter_of(spec.argv, spec.cwd, spec.env)
    versions = version_of(counted, guarded, interpreter)
    document = {
        "schema": SCHEMA,
        "run": run.id,
        "experiment": experiment.id,
        "spec_hash": experiment.body["spec_hash"],
        "seed": run.body["seed"],
        "argv": redact_words(spec.argv),
        "cwd": str(spec.cwd),
        "git": code.document,
        "versions": versions,
        "environment": _environment(spec.env, experiment.body["env"]),
        "interpreter": interpreter,
        "machine": _machine(),
        "gpus": list(run.body["gpus"]),
        "protected": guarded,
        "perpetual": __version__,
        "captured_at": ctx.now(),
        "problems": [*code.problems, *guarded["problems"]],
    }
    # Names of files and variables may be any bytes; escaped, they are JSON that every reader takes. A line a key: who
    # looks at the file finds his way, and indenting all of it would cost a millisecond.
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items()]
    data = ("{" + ",\n ".join(lines) + "}\n").encode("ascii")
    write_atomic(spec.log_dir / FILE, data)
    state = GitState(code.document["commit"], code.document["dirty"])
    return Kept(state, sha256(data).hexdigest(), tuple(guarded["unmatched"]), versions)


def kept_of(log_dir: Path) -> Kept:
    """What stands in a run's folder, of a launcher that died before it could note it; empty if nothing does."""
    try:
        data = read_file(log_dir / FILE)
        document = parse_json(data, deepest=_DEEPEST)
        git, guarded = document["git"], document["protected"]
        state = GitState(git["commit"], git["dirty"])
        unmatched = tuple(guarded["unmatched"])
        return Kept(state, sha256(data).hexdigest(), unmatched, document.get("versions"))
    except (OSError, ValueError, KeyError, TypeError):
        return Kept(GitState(), None)


def provenance(desks: Desks, run_id: str) -> dict[str, Any]:
    """A run's provenance, with `intact`: whether it is what was written at its start (None where that is not known).

    Raises:
        NotFound: if the run has none, saying why.
        CorruptData: if it is there and no JSON.
    """
    run = desks.ctx.need("run", run_id)
    path = desks.runs.log_dir(run.id) / FILE
    noted = run.body.get("provenance_sha256")
    try:
        data = read_file(path)
    except FileNotFoundError:
        if noted is not None:
            why = f"{path} was removed"
        elif run.body["status"] == "queued":
            why = "it has not started yet"
        else:
            why = "it was never started, or by a version that kept none"
        raise NotFound(f"{run.id} has no provenance: {why}", hint=f"perpetual runs {run.id}") from None
    except (OSError, ValueError) as problem:
        raise CorruptData(
            f"{run.id}'s provenance cannot be read: {problem}", hint="something has changed it since the run started"
        ) from problem
    try:
        document = parse_json(data, deepest=_DEEPEST)
    except ValueError as problem:
        raise CorruptData(
            f"{path}: not a JSON document: {problem}", hint="something has changed it since the run started"
        ) from problem
    if not isinstance(document, dict) or not isinstance(document.get("git"), dict):
        raise CorruptData(
            f"{path}: it does not hold what is written at a start",
            hint="something has changed it since the run started",
        )
    found: dict[str, Any] = _as_text(
        {**document, "intact": None if noted is None else sha256(data).hexdigest() == noted}
    )
    return found


def _as_text(value: Any) -> Any:
    """Texts that can be shown and sent: a name of any bytes has its odd ones escaped."""
    if isinstance(value, dict):
        return {_as_text(name): _as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def taint_of(desks: Desks, run: Document) -> Change:
    """Why an ended run is tainted, if it is, and what else is to be told of its protected paths.

    A run is tainted if a protected path is not what it was at its start, whoever changed it, or if that can no longer
    be told.
    """
    noted = run.body.get("provenance_sha256")
    path = desks.runs.log_dir(run.id) / FILE
    try:
        data = read_file(path)
    except FileNotFoundError:
        # Without a hash it never started, or by a version that kept no provenance.
        return Change([] if noted is None else [f"{FILE} was removed during the run"], [])
    except OSError as problem:
        return Change([f"{FILE} cannot be read any more: {problem.strerror}"], [])
    except ValueError:
        return Change([f"{FILE} was replaced by what is no file"], [])
    if noted is not None and sha256(data).hexdigest() != noted:
        return Change([f"{FILE} was altered during the run"], [])
    try:
        guarded = parse_json(data, deepest=_DEEPEST)["protected"]
    except (ValueError, KeyError, TypeError):
        return Change([f"{FILE} was altered during the run"], [])
    return unlike(desks.ctx.config.root, guarded, most=_MOST_SHOWN)


# --- what is written ------------------------------------------------------------------------------------------------


def _environment(env: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, str | None]:
    """Every variable's name; the value of those that tell about the computation, secrets taken out."""
    return {
        name: redact_setting(name, env[name]) if name in own or _TELLING.fullmatch(name) else None
        for name in sorted(env)
    }


def _machine() -> dict[str, Any]:
    if not hasattr(os, "uname"):
        import platform

        return {"host": platform.node(), "os": platform.system(), "kernel": platform.version(), "cpus": os.cpu_count(),
                "memory_bytes": None}  # fmt: skip
    system = os.uname()
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = -1
    return {
        "host": system.nodename,
        "os": f"{_distribution() or system.sysname} ({system.machine})",
        "kernel": f"{system.sysname} {system.release}",
        "cpus": available_cpus(),  # that this process may use, of which the run inherits as many
        "memory_bytes": memory if memory > 0 else None,
    }


def _distribution() -> str | None:
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
            lines = file.read(10_000).splitlines()
    except OSError:
        return None
    names = [line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")]
    return names[0] if names else None
