"""`perpetual.log`: a run's own metrics, one JSON line a call, appended to the file that PERPETUAL_METRICS names.

Imported by training scripts, so it imports almost nothing. Outside a run it does nothing.
"""

from __future__ import annotations

import json
import os

__all__ = ["log"]


def log(**values: object) -> None:
    """Appends a line such as `{"step": 3, "loss": 2.1}`; each line is whole even if the run is killed after it.

    A number that JSON cannot carry (NaN, infinity) is written as text, which the readers report as no number.

    Raises:
        TypeError: for a value that is no JSON.
    """
    path = os.environ.get("PERPETUAL_METRICS")
    if not path:
        return
    line = json.dumps({name: _plain(value) for name, value in values.items()}) + "\n"
    # One write on an append-only descriptor: lines of several processes do not mix.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode("utf-8"))
    finally:
        os.close(descriptor)


def _plain(value: object) -> object:
    if hasattr(value, "item"):
        value = value.item()  # a scalar of numpy or torch
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return repr(value)
    return value
