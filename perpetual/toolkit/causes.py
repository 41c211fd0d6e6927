"""Why a run ended without a result, in one line: what its annotations name, before what else was remarked of it.

Imported by the command line, the status and plugins, so that all of them name the same cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["CAUSES", "ERROR", "KEPT_BY_NAME", "cause_of", "reason_with_cause"]

ERROR = "error"  # the kind of the annotation that holds the last error line
# Kinds of annotations that name a cause, the most telling first.
CAUSES = (ERROR, "oom", "shm", "disk", "import", "nccl", "cuda", "crash", "killed", "nan")

KEPT_BY_NAME = "kept by name only"  # in the reason of a run that waits for a secret of its environment


def cause_of(annotations: Sequence[Mapping[str, object]]) -> Mapping[str, object] | None:
    """Returns the annotation that names the cause; None where only other things were remarked."""
    for kind in CAUSES:
        for item in annotations:
            if item.get("kind") == kind:
                return item
    return None


def reason_with_cause(reason: str | None, annotations: Sequence[Mapping[str, object]]) -> str | None:
    """Returns the reason of a run's end with the line that names its cause."""
    cause = cause_of(annotations)
    text = "" if cause is None else str(cause["text"])
    if cause is None or text in (reason or ""):
        return reason
    return f"{reason}: {text}" if reason else text
