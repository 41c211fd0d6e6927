"""Specification of a proposed experiment: one value from the interfaces down to the record.

Used by the rows of experiments, and by the operations that propose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields

__all__ = ["Specification"]

# What an extension says of itself; everything else it takes over from the experiment that it extends.
_OF_AN_EXTENSION = frozenset({"extends", "title", "notes", "tags", "priority", "replicates"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """As it was asked for; what is left out comes from the hypothesis's prediction and the methodology.

    With a metric, a direction, an mde and a baseline the experiment makes a claim and its runs become evidence;
    without a claim it is a baseline or an exploration.
    """

    command: str | None = None
    title: str | None = None
    config: Mapping[str, object] | None = None
    notes: str = ""
    cwd: str | None = None  # inside the project
    env: Mapping[str, str] | None = None
    tags: Sequence[str] = ()
    priority: int = 0
    metric: str | None = None
    direction: str | None = None  # max or min
    mde: float | None = None  # the smallest effect worth having, in the metric's units
    noise: float | None = None  # sd between replicates, in the metric's units
    tau: float | None = None  # sd between implementations of one idea, in the metric's units
    baseline: float | str | None = None  # a number, or an experiment's id
    paired: bool = False
    kind: str = "gaussian"  # or binary: the metric is 1 or 0, and a baseline is the rate that the mde is added to
    claim: str | None = None  # at_least (by default, with an mde), value, any (some effect, without an mde) or none
    on_crash: str | None = None  # of a binary claim that it runs at all: a failed run `supports` or `refutes` it
    confirmation: bool = False  # on data that no earlier experiment has looked at; see `require_confirmation`
    proxy: Mapping[str, object] | None = None  # a cheaper stand-in: {"args": more words, "cost_run_hours", "tau"}
    proxy_of: str | None = None  # the experiment that this one is a proxy of
    changes: str | None = None  # code, data or environment, where that difference from the baseline is the treatment
    extends: str | None = None  # the experiment of which this is more replicates
    replicates: int = 1
    cost_run_hours: float | None = None
    gpus: int = 0
    gpu_memory_bytes: int | None = None
    cpus: int | None = None
    wall_s: float | None = None  # by default 1.5 times the cost, at least 60 s, or `default_wall_s`
    no_output_s: float | None = None  # a run that writes nothing for so long is ended
    memory_bytes: int | None = None  # main memory, on each node
    nodes: int | None = None
    scheduler: str | None = None  # that starts its runs, by its provider's name; by default the configured one
    engine: Mapping[str, object] | None = None  # options of that scheduler; see `Scheduler.engine_options`

    def beside_extension(self) -> list[str]:
        """Returns what is given although more replicates of another experiment take it over from that one."""
        return [
            field.name
            for field in fields(self)
            if field.name not in _OF_AN_EXTENSION
            and field.default is not MISSING
            and getattr(self, field.name) != field.default
        ]
