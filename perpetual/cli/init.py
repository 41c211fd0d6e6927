"""The command init: creates the project of a folder and registers it with coding agents."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable
from perpetual.errors import Conflict, UsageError
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.readers import names_a_right
from perpetual.toolkit.status_file import FIRST_STEP
from perpetual.toolkit.units import hours_of

if TYPE_CHECKING:
    from perpetual.slots.scaffolder import ScaffoldAnswer

__all__ = ["init"]


@click.command()
@click.option("-p", "--name", metavar="NAME", help="The project's name; by default the folder's.")
@click.option("-H", "--harness", "harnesses", multiple=True, metavar="HARNESS", help="A coding agent, all or none.")
@click.option("-t", "--target", metavar="DIR", help="The folder; by default the working directory.")
@click.option("--budget", metavar="GPU_HOURS", help="Limit of GPU time, as in 20 or 90m; by default there is none.")
@click.option("--store", metavar="NAME", help="What keeps the record; by default tinydb.")
@click.option("--command", metavar="PATH", help="How agents start Perpetual, where `perpetual` is not on their PATH.")
@click.option("--remove", multiple=True, metavar="HARNESS", help="Take an agent's files out again, or all.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--force", is_flag=True, help="Replace generated files even if they were edited.")
@json_option
@pass_cli
def init(
    cli: CliContext, name: str | None, harnesses: tuple[str, ...], target: str | None, budget: str | None,
    store: str | None, command: str | None, remove: tuple[str, ...], dry_run: bool, force: bool,
) -> None:  # fmt: skip
    """Create a project here and register it with coding agents. A second run changes nothing."""
    folder = _folder(target or cli.project)
    wishes = {"name": name, "budget": None if budget is None else hours_of(budget, "--budget"), "store": store}
    asked = {"remove": remove, "command": _words(command), "force": force}
    work = _preview if dry_run else _create
    document = work(cli, folder, wishes, harnesses, asked)
    _tell(cli, document)


def _folder(target: str | None) -> Path:
    """Returns the folder of the project; one inside another project must be named."""
    from perpetual.config import FILE, FOLDER, foreign

    if target is not None:
        return named_path(target)
    here = Path.cwd()
    for above in here.parents:
        if not (here / FOLDER).exists() and (above / FOLDER / FILE).is_file() and not foreign(above):
            raise Conflict(
                f"{here} is inside the project {above}",
                hint=f"perpetual init -t {shlex.quote(str(above))} for that one; perpetual init -t . for one here",
            )
    return here


def _words(command: str | None) -> tuple[str, ...] | None:
    """Returns the command as words; an existing file is one word, whatever spaces are in its path."""
    if command is None:
        return None
    try:
        words = (command,) if Path(command).is_file() else tuple(shlex.split(command))
    except ValueError as problem:
        raise UsageError(f"--command: {command!r}: {problem}") from problem
    if not words:
        raise UsageError("--command must name a program")
    return words


def _create(
    cli: CliContext, folder: Path, wishes: dict[str, Any], harnesses: Sequence[str], asked: dict[str, Any]
) -> dict[str, object]:
    from perpetual.config import FILE, FOLDER, Config
    from perpetual.lab import Lab
    from perpetual.lab.create import check_place
    from perpetual.lab.scaffolding import chosen
    from perpetual.registry import Registry

    is_new = not (folder / FOLDER / FILE).is_file()
    if asked["remove"] and is_new:
        Lab.open(folder).close()  # says that there is no project
    check_place(folder)
    config = Config(folder)
    registry = Registry.of(config, safe=cli.safe)
    asks = not (harnesses or cli.as_json or cli.withholds) and sys.stdin.isatty() and sys.stdout.isatty()

    def known(answer: str) -> Sequence[str]:
        try:
            chosen(config, registry, names := answer.replace(",", " ").split())
        except UsageError as problem:  # click tells it, and asks again
            raise click.UsageError(printable(problem.message)) from problem
        return names

    if is_new and asks:
        question = f"coding agent ({', '.join(offer.name for offer in registry.serving('harness'))}, all or none)"
        harnesses = click.prompt(question, default=" ".join(chosen(config, registry)), value_proc=known)
    chosen(config, registry, harnesses)  # a harness that does not exist is said before anything is created
    with Lab.init(
        folder, name=wishes["name"], store=wishes["store"], budget_gpu_hours=wishes["budget"], safe=cli.safe
    ) as lab:
        written = lab.scaffold(harnesses, **asked)
        limit = lab.budget.totals()["limit_gpu_hours"]
        found = {"name": lab.config["project"], "budget": limit, "store": lab.config["store"]}
    return _document(folder, found, {} if is_new else wishes, written)


def _preview(
    cli: CliContext, folder: Path, wishes: dict[str, Any], harnesses: Sequence[str], asked: dict[str, Any]
) -> dict[str, object]:
    from perpetual.config import FILE, FOLDER, Config
    from perpetual.lab import Lab
    from perpetual.lab.create import check_place
    from perpetual.lab.scaffolding import scaffold
    from perpetual.registry import Registry

    check_place(folder)
    if (folder / FOLDER / FILE).is_file():
        with Lab.open(folder, safe=cli.safe) as lab:
            answer = lab.scaffold(harnesses, dry_run=True, **asked)
            limit = lab.budget.totals()["limit_gpu_hours"]
            found = {"name": lab.config["project"], "budget": limit, "store": lab.config["store"]}
        return {**_document(folder, found, wishes, answer), "dry_run": True}
    if asked["remove"]:
        Lab.open(folder).close()
    config = Config(folder)
    registry = Registry.of(config, safe=cli.safe)
    if wishes["store"] is not None:
        registry.choose("store", wishes["store"])
    answer = {**scaffold(config, registry, harnesses, dry_run=True, **asked)}
    found = {**wishes, "name": wishes["name"] or folder.name}
    return {**_document(folder, found, {}, answer), "dry_run": True}


def _document(
    folder: Path, found: dict[str, object], wishes: dict[str, object], answer: ScaffoldAnswer
) -> dict[str, Any]:
    """Returns the answer of init; `notes` tell what an existing project kept, and what will not work as it is."""
    notes = [
        f"the project exists and keeps its {key} {found[key]}; asked was {wish}"
        for key, wish in wishes.items()
        if wish is not None and wish != found[key]
    ]
    program = answer["command"][0]
    if answer["harnesses"] and shutil.which(program) is None:
        notes.append(f"there is no program {program} on the PATH, so agents may not find it: --command PATH names it")
    return {
        "project": found["name"], "path": str(folder), "files": answer["files"], "trust": answer["trust"],
        "snippets": answer.get("snippets", []), "budget": {"limit_gpu_hours": found["budget"]}, "notes": notes,
    }  # fmt: skip


def _tell(cli: CliContext, document: dict[str, Any]) -> None:
    """Shows the answer; a file that could not be merged is exit 6 after all else was done."""
    if cli.withholds:
        document = {**document, "trust": [step for step in document["trust"] if not names_a_right(step)]}
    failed = [item for item in document["files"] if item["action"] == "conflict"]
    if failed and cli.as_json:
        raise _conflict(failed, document)
    cli.answer("init", document, lambda: _text(document, is_agent=cli.withholds))
    if failed:
        raise _conflict(failed, document)


def _conflict(failed: list[dict[str, Any]], document: dict[str, object]) -> Conflict:
    return Conflict(
        "; ".join(item["reason"] for item in failed),
        hint="these files are unchanged; mend them and run init again",
        data={"schema": "perpetual.init/1", **document},
    )


def _text(document: dict[str, Any], *, is_agent: bool) -> str:
    limit = document["budget"]["limit_gpu_hours"]
    is_dry = document.get("dry_run", False)
    lines = [f"project {printable(document['project'])} in {printable(document['path'])}"]
    for item in document["files"]:
        reason = f"  ({printable(item['reason'])})" if item["reason"] else ""
        lines.append(f"  {item['action']:<10} {printable(item['path'])}{reason}")
    lines += [printable(item["diff"]) for item in document["files"] if item.get("diff")]
    lines.append(
        f"budget: unlimited GPU-hours{'' if is_agent else '; perpetual budget set GPU_HOURS limits it'}"
        if limit is None
        else f"budget: {limit:g} GPU-hours"
    )
    lines += [f"note: {printable(note)}" for note in document["notes"]]
    for one in document["snippets"]:
        lines.append(f"for {printable(one['path'])} ({printable(one['what'])}):\n{printable(one['text'])}")
    if document["trust"]:
        lines += ["what a person must do:", *(f"  - {printable(step)}" for step in document["trust"])]
    lines.append("nothing was written (--dry-run)" if is_dry else "next: " + FIRST_STEP)
    return "\n".join(lines)
