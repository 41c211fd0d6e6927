"""The program that calls one part in a scratch lab: started by `scratch_calls`, in an empty folder.

Reads what to call from standard input, and writes `result.json`, so that what the part prints does not matter.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import click

from perpetual import Lab
from perpetual.api import CliContext, PerpetualError, to_json
from perpetual.toolkit.contained import contained
from perpetual_devkit.chaos import Target, run_chaos
from perpetual_devkit.chaos_writer import build_store
from perpetual_devkit.scratch_kinds import Wrong, try_kinds
from perpetual_devkit.wire import from_wire

__all__ = ["main"]

_KILLS, _WRITERS = 6, 3
_MOST_PROBLEMS = 3


class _Unclear(Exception):
    """Why the call has no verdict."""


def _scratch_lab() -> Lab:
    """Makes a project in this folder with something to show."""
    lab = Lab.init(Path("project"), name="scratch")
    first = lab.hypotheses.add("A longer warm-up lowers the loss.", prior=0.5)
    lab.hypotheses.add("Dropout does not matter here.", prior=0.3)
    lab.experiments.propose(first.id, command="true", metric="loss", direction="min")
    return lab


def _built(asked: Mapping[str, object]) -> object:
    factory = _imported(asked)
    if not callable(factory):
        raise Wrong(f"{asked['factory']} cannot be called")
    return factory(dict(asked["options"]))  # type: ignore[call-overload]


def _imported(asked: Mapping[str, object]) -> object:
    module, _, attribute = str(asked["factory"]).partition(":")
    return getattr(import_module(module), attribute)


def _store(asked: Mapping[str, object]) -> str:
    options = asked["options"]
    assert isinstance(options, dict)
    name, factory = str(asked["name"]), str(asked["factory"])
    probe = build_store(factory, options, Path("probe", "store"))
    probe.close()
    if not probe.capabilities.multiprocess:
        raise _Unclear("it takes one process: perpetual chaos kills that one")
    target = Target(name.rpartition("/")[2], name, factory, options)
    found = run_chaos(target, kills=_KILLS, writers=_WRITERS, folder=Path.cwd())
    if not found.ok:
        raise Wrong("; ".join(found.problems[:_MOST_PROBLEMS]))
    return f"{found.kills} kills of {found.writers} writers, {found.present} acknowledged transactions kept"


def _command(asked: Mapping[str, object]) -> str:
    command = _imported(asked)
    if not isinstance(command, click.Command):
        raise Wrong(f"{asked['factory']} is no click command")
    name = str(asked["name"]).rpartition("/")[2].replace(".", " ")
    _invoke(command, name, ["--help"])
    if isinstance(command, click.Group):
        raise _Unclear("its help is shown; its subcommands were not called")
    needed = [parameter.human_readable_name for parameter in command.params if parameter.required]
    if needed:
        raise _Unclear(f"its help is shown; it was not called, since it needs {', '.join(needed)}")
    _scratch_lab().close()
    words = ["--json"] if any("--json" in parameter.opts for parameter in command.params) else []
    try:
        shown = _invoke(command, name, words)
    except (PerpetualError, click.ClickException) as problem:
        return f"called without arguments, it refused: {problem}"
    except click.Abort:
        raise _Unclear("called without arguments, it asks a person") from None
    if words and shown:
        try:
            json.loads(shown)
        except ValueError:
            raise Wrong(f"with --json it wrote something else than one document: {shown[:80]!r}") from None
    return "called without arguments in a scratch lab"


def _invoke(command: click.Command, name: str, words: list[str]) -> str:
    """Returns what the command wrote."""
    cli = CliContext(as_json="--json" in words)
    cli.project = "project" if "--help" not in words else None
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            command.main(args=words, prog_name=f"perpetual {name}", standalone_mode=False, obj=cli)
    except SystemExit as problem:
        if problem.code not in (None, 0, 1, 2):
            raise Wrong(f"{name} {' '.join(words)}: it ended the process with {problem.code}") from problem
    finally:
        cli.close()
    return out.getvalue()


def _mcp_tool(asked: Mapping[str, object]) -> str:
    function = _called_with_lab(asked)
    if inspect.iscoroutinefunction(function):
        raise Wrong("it is a coroutine function; a tool is a plain function, which may block")
    lab, *others = inspect.signature(function).parameters.values()
    needed = [one.name for one in others if one.default is one.empty and one.kind in (one.KEYWORD_ONLY, lab.kind)]
    if needed:
        raise _Unclear(f"it was not called, since it needs {', '.join(needed)}")
    with _scratch_lab() as scratch:
        try:
            answer = function(scratch)
        except PerpetualError as problem:
            return f"called without arguments, it refused: {problem}"
    try:
        json.dumps(answer if isinstance(answer, (str, int, float, dict, list)) else to_json(answer))
    except (TypeError, ValueError) as problem:
        raise Wrong(f"its answer cannot be JSON: {problem}") from problem
    return "called without arguments in a scratch lab"


def _report_section(asked: Mapping[str, object]) -> str:
    function = _called_with_lab(asked)
    with _scratch_lab() as lab:
        text = function(lab)
    if not isinstance(text, str):
        raise Wrong(f"it answers a {type(text).__name__} instead of Markdown text")
    return f"{len(text)} characters of a scratch lab"


def _called_with_lab(asked: Mapping[str, object]) -> Callable[..., object]:
    function = _built(asked)
    if not callable(function):
        raise Wrong(f"the factory answers a {type(function).__name__}, which cannot be called with a lab")
    try:
        inspect.signature(function).bind_partial(object())
    except TypeError as problem:
        raise Wrong(f"it cannot be called with a lab: {problem}") from problem
    return function


def _observer(asked: Mapping[str, object]) -> str:
    with _scratch_lab() as lab:
        if asked["name"] not in lab.registry.implementers("perpetual_event"):
            raise _Unclear("a process of its own does not find the plugin")
        count = len(lab.events())
        wrong = lab.feed.deliver().get(str(asked["name"]))
    if wrong is not None:
        raise Wrong(wrong)
    return f"heard {count} events of a scratch lab"


def _kinds(asked: Mapping[str, object]) -> str:
    with _scratch_lab() as lab:
        (info,) = lab.inventory().found(str(asked["name"]))
        if info.state != "loaded":
            raise _Unclear("a process of its own does not find the plugin")
        tried, unclear = try_kinds(lab, info)
    if unclear:
        raise _Unclear("; ".join(filter(None, [tried, *unclear])))
    return tried


_CALLS = {
    "store": _store,
    "command": _command,
    "mcp_tool": _mcp_tool,
    "report_section": _report_section,
    "observer": _observer,
    "kinds": _kinds,
}


def main() -> int:
    """Calls what standard input names and writes what came of it."""
    asked = json.load(sys.stdin)
    asked["options"] = from_wire(asked["options"])
    ok: bool | None = True
    try:
        with contained():
            detail = _CALLS[asked["slot"]](asked)
    except _Unclear as reason:
        ok, detail = None, str(reason)
    except Wrong as problem:
        ok, detail = False, str(problem)
    except Exception as problem:  # noqa: BLE001 - a part may raise anything; it is this part's finding
        ok, detail = False, f"{type(problem).__name__}: {problem}"
    Path("result.json").write_text(json.dumps({"ok": ok, "detail": detail}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
