"""The cell magic `%%perpetual`: a notebook's cell as a supervised run.

    %load_ext perpetual

    %%perpetual --metric val_loss --direction min --replicates 3
    import os, random
    random.seed(int(os.environ["PERPETUAL_SEED"]))
    print("val_loss:", 2.3 + random.gauss(0, 0.01))

The cell is a program of its own: it sees no variable of the notebook. Its text becomes a file of the project, named by
its content. Running the cell proposes that program and approves it in the name of the person at the notebook.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from perpetual import Lab
from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, Run, UsageError, json_object, printable
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.units import seconds_of

if TYPE_CHECKING:
    from perpetual.api import Experiment

__all__ = ["CELLS", "Shell", "load_ipython_extension", "run_cell"]

CELLS = "perpetual_cells"  # folder of the project, for git to keep
_LOOK_S = 0.3
_SHOWN_LINES = 20  # of what a failed run wrote to standard error


class Shell(Protocol):
    """What is used of IPython's shell."""

    user_ns: dict[str, object]

    def register_magic_function(self, func: object, magic_kind: str, magic_name: str) -> None:
        """Makes a function a magic."""


class CellError(Exception):
    """An error of a cell that is shown in one line or two, and stops the notebook."""

    def __init__(self, problem: PerpetualError) -> None:
        super().__init__(f"{problem.message}" + (f"\nhint: {problem.hint}" if problem.hint else ""))
        self.problem = problem

    def _render_traceback_(self) -> list[str]:
        """Returns what IPython shows instead of a traceback."""
        return [f"error: {printable(self)}"]


class CellRuns(list[Run]):
    """The runs of a cell, shown as a table."""

    def _repr_html_(self) -> str:
        from perpetual_export.html import html_of

        return html_of(self)


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raises instead of ending the program."""
        raise UsageError(f"%%perpetual: {message}", hint=self.format_usage().strip())


def load_ipython_extension(ipython: Shell) -> None:
    """Registers `%%perpetual`; called by `%load_ext perpetual`."""

    def perpetual(line: str, cell: str | None = None) -> CellRuns | None:
        """Runs the cell as a supervised run; `%perpetual` lists the options."""
        try:
            return run_cell(line if cell is not None else "--help", cell or "", ipython.user_ns)
        except PerpetualError as problem:
            raise CellError(problem) from None

    ipython.register_magic_function(perpetual, "line_cell", "perpetual")


def _parser() -> _Options:
    parser = _Options(prog="%%perpetual", add_help=False, allow_abbrev=False, description="Run the cell as a run.")
    add = parser.add_argument
    add("--title", help="what the experiment is called")
    add("-h", "--hypothesis", metavar="ID", help="the hypothesis that it is about")
    add("--metric", help="what is measured")
    add("--direction", choices=("max", "min"), help="which way is better")
    add("--baseline", "--against", dest="baseline", metavar="ID", help="what it is compared with")
    add("--mde", type=float, help="smallest effect worth having")
    add(
        "-c", "--config", metavar="NAME", help="a dict of the notebook, or JSON; the run reads it from PERPETUAL_CONFIG"
    )
    add("--replicates", type=int, default=1, metavar="N", help="runs, each with its own seed")
    add("--wall", metavar="TIME", help="longest time of a run, such as 90s or 2h")
    add("--gpus", type=int, default=0, metavar="N", help="GPUs of a run")
    add("--project", metavar="DIR", help="the project's folder")
    add("--no-wait", action="store_true", help="answer at once")
    add("--help", action="store_true", help="show this")
    return parser


def run_cell(line: str, cell: str, names: Mapping[str, object]) -> CellRuns | None:
    """Runs a cell as the magic does: writes, proposes, approves, runs, waits and shows its output.

    Args:
        names: the notebook's variables, for `--config NAME`.

    Returns:
        Its runs; None where a person has yet to approve them, and for `--help`.

    Raises:
        UsageError: for a bad option, and for a cell that is no plain Python.
        PerpetualError: as proposing, approving and launching do.
    """
    parser = _parser()
    try:
        options = parser.parse_args(shlex.split(line))
    except ValueError as problem:
        raise UsageError(f"%%perpetual: {problem}", hint="close the quote") from problem
    if options.help:
        print(parser.format_help())  # noqa: T201 - a cell's answer
        return None
    _check(cell)
    with Lab.open(options.project) as lab:
        lab.trust.require("running a cell")
        experiment = _proposed(lab, options, cell, names)
        print(f"{experiment.id}: {printable(experiment.command)}")  # noqa: T201
        try:
            if experiment.status == "proposed":
                experiment = lab.experiments.approve(experiment.id)
        except NotPermitted:
            print(f"{experiment.id} is proposed and waits for a person's approval")  # noqa: T201
            return None
        started = lab.runs.launch(experiment.id, every=True)
        if options.no_wait:
            return CellRuns(started)
        return _waited(lab, [run.id for run in started])


def _check(cell: str) -> None:
    """Raises UsageError for what only a notebook understands, before anything is written."""
    try:
        ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        place = f" at line {problem.lineno} of the cell" if isinstance(problem, SyntaxError) else ""
        raise UsageError(
            f"the cell is no plain Python{place}: {getattr(problem, 'msg', problem)}",
            hint="magics and lines with ! run in the notebook alone",
        ) from problem


def _proposed(lab: Lab, options: argparse.Namespace, cell: str, names: Mapping[str, object]) -> Experiment:
    """Returns the experiment of a cell: the same cell with the same options is the same one, with more replicates."""
    text = cell if cell.endswith("\n") else cell + "\n"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    path = f"{CELLS}/cell_{digest[:12]}.py"
    config = _config(options.config, names)
    wanted = {name: value for name, value in vars(options).items() if name not in ("replicates", "no_wait", "project")}
    identity = json.dumps([digest, wanted, config], sort_keys=True, default=str)
    key = f"cell:{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}"
    folder = lab.root / CELLS
    folder.mkdir(exist_ok=True)
    write_atomic(lab.root / path, text.encode("utf-8", "surrogatepass"), mode=0o644, durable=False)
    found = lab.experiments.propose(
        options.hypothesis,
        command=shlex.join([_python(), path]),
        title=options.title or _title(cell),
        config=config,
        metric=options.metric,
        direction=options.direction,
        baseline=options.baseline,
        mde=options.mde,
        replicates=options.replicates,
        wall_s=None if options.wall is None else seconds_of(options.wall, "--wall"),
        gpus=options.gpus,
        tags=("notebook",),
        idempotency_key=key,
    )
    found = lab.experiments.get(found.id)
    if sum(found.runs.values()) < found.design.replicates or found.status in ("proposed", "rejected", "expired"):
        return found
    return lab.experiments.propose(extends=found.id, replicates=options.replicates)


def _title(cell: str) -> str:
    lines = [line.strip() for line in cell.splitlines() if line.strip()]
    return lines[0].lstrip("# ")[:80] if lines and lines[0].startswith("#") else "a notebook's cell"


def _python() -> str:
    """Returns `python` where that is the notebook's interpreter, else its path."""
    import shutil

    found = shutil.which("python")
    is_same = found is not None and os.path.realpath(found) == os.path.realpath(sys.executable)
    # Two virtual environments link to one interpreter: the folder says which it is.
    return (
        "python" if found and is_same and os.path.dirname(found) == os.path.dirname(sys.executable) else sys.executable
    )


def _config(text: str | None, names: Mapping[str, object]) -> dict[str, object] | None:
    """Returns the configuration that `--config` names: a variable that holds a dict, or JSON."""
    if text is None:
        return None
    if not text.isidentifier():
        return json_object(text, "--config")
    if text not in names:
        raise UsageError(f"--config {text}: the notebook has no variable of that name", hint="or give JSON")
    found = names[text]
    if not isinstance(found, Mapping):
        raise UsageError(f"--config {text} is {type(found).__name__}, not a dict", hint=f"{text} = {{...}}")
    return {str(name): value for name, value in found.items()}


def _waited(lab: Lab, ids: Sequence[str]) -> CellRuns:
    """Shows the output of the first run as it comes, waits for all, and names what failed."""
    try:
        _show(lab, ids[0])
        lab.wait(ids, say=lambda words: print(printable(words)))  # noqa: T201
    except KeyboardInterrupt:
        print(f"{', '.join(ids)} goes on: perpetual wait {ids[0]} waits for it, perpetual kill {ids[0]} ends it")  # noqa: T201
        raise
    found = CellRuns(lab.runs.named(ids))
    for run in found:
        if run.status == "done":
            continue
        print(f"{run.id} {run.status}: {printable(run.reason or 'no reason recorded')}")  # noqa: T201
        try:
            print(printable(lab.runs.logs(run.id, stderr=True, tail=_SHOWN_LINES)["text"]), end="")  # noqa: T201
        except NotFound:
            continue
    return found


def _show(lab: Lab, id: str) -> None:
    while lab.runs.look(id)[0] in ("queued", "launching"):
        lab.wait([id], timeout_s=_LOOK_S)
    try:
        for piece in lab.runs.stream(id, follow=True):
            print(printable(piece), end="", flush=True)  # noqa: T201
    except (NotFound, Conflict):
        return  # it never started
