"""Specification of a proposed experiment: one value from the interfaces down to the record.

Used by the rows of experiments, and by the operations that propose.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields

from perpetual.errors import UsageError, unknown
from perpetual.toolkit.limits import LONGEST_COMMAND, fits, fits_tags, fits_text
from perpetual.toolkit.units import LONGEST_S, bounded, finite

__all__ = ["HIGHEST_PRIORITY", "LONGEST_GIVEN_TITLE", "MOST_RUN_HOURS", "Specification"]

_KINDS = ("gaussian", "binary")
_CLAIMS = ("improves", "at_least", "value", "any", "none")
_OUTCOMES = ("supports", "refutes")
LONGEST_GIVEN_TITLE = 500
_LONGEST_NOTES = 16_000
_LONGEST_PATH = 1_000
_LARGEST_CONFIG = 256 * 1024  # bytes of JSON
_LARGEST_ENV = 64 * 1024
# By the first word of a field's annotation, which is a text in this module: what its value must be, and in words.
_TYPES = {"str": (str, "a text"), "Mapping": (Mapping, "a table of names"), "Sequence": (Collection, "a list of texts")}
_ANY = (object, "")
# Beyond these a number is a slip of the keyboard.
MOST_RUN_HOURS = 1e6
_MOST_REPLICATES = 10_000
_SET_BY_LAB = ("ARTIFACTS", "CHECKPOINT_DIR", "CONFIG", "METRICS", "NEEDS", "PROJECT", "RUN", "RUN_DIR",
               "RUN_NONCE", "SEED")  # fmt: skip
_MOST_ITEMS = 1_000_000_000
_MOST_GPUS = 10_000
_MOST_CPUS = 100_000
_MOST_NODES = 100_000
_MOST_BYTES = 2**60
HIGHEST_PRIORITY = 1_000_000_000  # and the lowest below 0: every reader of the record takes it as a number

# What an extension says of itself; everything else it takes over from the experiment that it extends.
_OF_AN_EXTENSION = frozenset({"extends", "title", "notes", "tags", "priority", "replicates"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """As it was asked for; what is left out comes from the hypothesis's prediction and the methodology.

    With a metric, a direction, an mde and a baseline the experiment makes a claim and its runs become evidence;
    without a claim it is a baseline or an exploration. It checks itself when it is built: a UsageError names what no
    project takes. What depends on the project is checked when it is proposed.
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
    paired: bool | None = None  # whether it shares the seeds of its baseline; None where that is an experiment
    items: int | None = None  # test items behind each value of a rate: their luck counts
    baseline_runs: int | None = None  # runs that a number as baseline was measured with
    # `wall` or `exit:CODE`: a run that ends so counts at its last value, in both arms; by default the baseline's
    stop_rule: str | None = None
    runs_of: str | None = None  # the experiment whose runs it is judged by, which has none yet
    guards: Sequence[str] = ()  # METRIC:max|min:MARGIN each: what may not get worse by more than that
    kind: str = "gaussian"  # or binary: the metric is 1 or 0, and a baseline is the rate that the mde is added to
    claim: str | None = None  # improves (by default, with an mde), at_least, value, any (some effect) or none
    on_crash: str | None = None  # of a binary claim that it runs at all: a failed run `supports` or `refutes` it
    confirmation: bool = False  # on data that no earlier experiment has looked at; see `require_confirmation`
    proxy: Mapping[str, object] | None = None  # a cheaper stand-in: {"args": more words, "cost_run_hours", "tau"}
    proxy_of: str | None = None  # the experiment that this one is a proxy of
    changes: str | None = None  # code, data or environment, where that difference from the baseline is the treatment
    underpowered: bool = False  # proposed although it is known to decide nothing
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
    isolate: bool | None = None  # runs start in a copy of the approved code; by default as the methodology says
    needs_artifacts: Sequence[str] = ()  # `e3/model.pt`: files that runs of experiments leave, which it starts from

    def __post_init__(self) -> None:
        """Raises UsageError for a word, a number or a size that no project takes."""
        self._check_sizes()
        self._check_words()
        self._check_numbers()

    def _check_sizes(self) -> None:
        for each in fields(self):
            value, (kind, words) = getattr(self, each.name), _TYPES.get(str(each.type).split("[")[0].split()[0], _ANY)
            if not isinstance(value, kind) and (value is not None or "None" not in str(each.type)):
                # The value stays out of the message: it may be a secret.
                raise UsageError(f"{each.name} must be {words}, not {type(value).__name__}")
        bounded(self.title or "", "the title", LONGEST_GIVEN_TITLE)
        bounded(self.notes, "the text of the notes", _LONGEST_NOTES)
        fits_text(self.command, "the command", LONGEST_COMMAND)
        fits_text(self.cwd, "the working directory", _LONGEST_PATH)
        fits_tags(self.tags)
        fits(self.config, "config", _LARGEST_CONFIG)
        fits([*self.needs_artifacts], "the list of artifacts that are needed", _LARGEST_ENV)
        for name in ("env", "engine", "proxy"):
            fits(getattr(self, name), name, _LARGEST_ENV)

    def _check_words(self) -> None:
        if self.kind not in _KINDS:
            raise UsageError(unknown("kind of metric", self.kind, _KINDS))
        if self.claim is not None and self.claim not in _CLAIMS:
            raise UsageError(unknown("claim", self.claim, _CLAIMS))
        if self.on_crash is not None and self.on_crash not in _OUTCOMES:
            raise UsageError(unknown("outcome of a crash", self.on_crash, _OUTCOMES))
        cwd = self.cwd
        if cwd is not None and (cwd.startswith(("/", "~")) or ".." in cwd.split("/")):
            raise UsageError(f"the working directory must lie inside the project, not {cwd}", hint="a relative path")
        for need in self.needs_artifacts:
            parts = need.split("/")
            if len(parts) < 2 or {"", ".", ".."} & {*parts} or not need.isprintable() or len(need) > _LONGEST_PATH:
                raise UsageError(f"an artifact that is needed is named as e3/model.pt, not {need!r}")
        for name, value in (self.env or {}).items():
            if not name or "=" in name or "\0" in name + value:
                # The value stays out of the message: it may be a secret.
                raise UsageError(f"{name!r} cannot be set as a variable of the environment", hint="as in LR=0.1")
            if name.startswith("PERPETUAL_") and name.removeprefix("PERPETUAL_") in _SET_BY_LAB:
                raise UsageError(f"{name} is set by the lab for each run", hint="for a seed: perpetual run ID --seed N")

    def _check_numbers(self) -> None:
        for name, number, above, least, most in (
            ("mde", self.mde, 0.0, None, None), ("noise", self.noise, None, 0.0, None),
            ("tau", self.tau, None, 0.0, None), ("the cost", self.cost_run_hours, None, 0.0, MOST_RUN_HOURS),
            ("the wall limit", self.wall_s, 0.0, None, LONGEST_S),
            ("the time without output", self.no_output_s, None, 1.0, LONGEST_S),
        ):  # fmt: skip
            if number is not None:
                finite(number, name, above=above, minimum=least, maximum=most)
        if self.noise == 0:
            raise UsageError("noise 0 declares that seeds make no difference", hint="without --noise the runs show it")
        whole: Sequence[tuple[str, object, int, int]] = (
            ("replicates", self.replicates, 1, _MOST_REPLICATES), ("--gpus", self.gpus, 0, _MOST_GPUS),
            ("--cpus", self.cpus, 0, _MOST_CPUS), ("--memory", self.memory_bytes, 1, _MOST_BYTES),
            ("--nodes", self.nodes, 1, _MOST_NODES), ("priority", self.priority, -HIGHEST_PRIORITY, HIGHEST_PRIORITY),
            ("--items", self.items, 2, _MOST_ITEMS), ("--baseline-runs", self.baseline_runs, 1, _MOST_ITEMS),
        )  # fmt: skip
        for what, value, lowest, highest in whole:
            if value is not None and not (isinstance(value, int) and lowest <= finite(value, what) <= highest):
                raise UsageError(f"{what} must be a whole number from {lowest:,} to {highest:,}, not {value}")

    def beside_extension(self) -> list[str]:
        """Returns what is given although more replicates of another experiment take it over from that one."""
        return [
            field.name
            for field in fields(self)
            if field.name not in _OF_AN_EXTENSION
            and field.default is not MISSING
            and getattr(self, field.name) != field.default
        ]
