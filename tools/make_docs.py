"""`make docs`: writes the reference pages from the program itself, so that they cannot drift from it.

`docs/cli.md` from the click tree, `docs/hooks.md` from the hookspecs, `docs/config.md` from the two schemas,
`docs/mcp.md` from what the MCP server tells a client, `docs/api.md` from the signatures and docstrings of `Lab`,
`docs/index.md` from the first part of README.md, `docs/llms.txt` from the site's navigation and the first sentence of
each page. A test runs `pages()` and fails when a committed page differs.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click

DOCS = Path(__file__).parents[1] / "docs"
_NOTE = "<!-- written by `make docs`; change the program, not this page -->\n"


def _command(path: str, command: click.Command, parent: click.Context) -> list[str]:
    """Returns a command's section, and those of its subcommands."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, max_content_width=100)
    level = "##" if path.count(" ") == 1 else "###"
    lines = [f"{level} {path}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                lines += _command(f"{path} {name}", found, context)
    return lines


def cli_page() -> str:
    """Returns every command with its help."""
    from perpetual.cli.app import program

    context = click.Context(program, info_name="perpetual", **program.context_settings)
    lines = [
        "# Commands",
        "",
        _NOTE,
        "Every command with its help, as the program prints it.",
        "",
        "```text",
        program.get_help(context).rstrip(),
        "```",
        "",
    ]
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        if command is not None:
            lines += _command(f"perpetual {name}", command, context)
    return "\n".join(lines).rstrip() + "\n"


def signature(hook: Callable[..., Any]) -> str:
    """Returns the signature of `inspect`, its annotations in the quotes of the formatter."""
    return str(inspect.signature(hook)).replace("'", '"')


_KINDS_SHOWN = {  # hook -> the kind of plugin, its name, and the modules that are shown
    "perpetual_event": ("observer", "acme-news", ("plugin", "observer")),
    "perpetual_kinds": ("kinds", "acme-readings", ("plugin", "readings")),
    "perpetual_slots": ("family", "acme-remarks", ("plugin", "base", "words", "testing")),
}
_LONGEST_EXAMPLE = 130  # lines


def hooks_page() -> str:
    """Returns every hook with its exact signature, its contract and a worked example.

    What `plugins new` writes for it.
    """
    from perpetual import hookspecs

    lines = ["# Hooks", "", _NOTE, inspect.getdoc(hookspecs) or "", ""]
    for name, value in vars(hookspecs).items():
        if name.startswith("perpetual_") and inspect.isfunction(value):
            lines += [f"## {name}", "", "```python", f"def {name}{signature(value)}: ...", "```", ""]
            lines += [inspect.getdoc(value) or "", "", *_worked_example(name)]
    return "\n".join([*lines, *_slots_of_plugins()]).rstrip() + "\n"


_SLOTS_OF_PLUGINS = """\
## Slots of bundled plugins

Bundled plugins bring slots of their own (`perpetual_slots`), which any plugin fills: it implements the hook of the slot
with `@hookimpl(optionalhook=True)` and answers Providers of that slot. Their factories, called with the options, answer
the class of the table. Its docstring or its module says what it promises, and the contract suite checks that. Where one
provider serves, `perpetual config set slots.SLOT PROVIDER` chooses it. Where `plugins new` stands behind the slot,
`perpetual plugins new NAME --slot SLOT` writes a part with its tests.

Example::

    @hookimpl(optionalhook=True)
    def perpetual_companions() -> list[Provider]:
        return [Provider("companion", "bell", "acme_bell.companion:build", "rings", requires=("daemon",))]

| hook | slot | class to implement | serves | contract suite | brought by |
|---|---|---|---|---|---|
"""


def _slots_of_plugins() -> list[str]:
    """Returns the lines on the slots that bundled plugins bring, as the registry has them."""
    from perpetual.registry import Registry

    rows = []
    for info in Registry(safe=True).plugins:
        for slot in info.slots:
            base = f"`{slot.base.replace(':', '.')}`" if slot.base else ""
            serves = "any number" if slot.is_additive else f"one, `{slot.default}` by default"
            suite = f"`{slot.suite.label}`" if slot.suite else "none"
            name = f"`{slot.name}`" + (" (`plugins new`)" if slot.template else "")
            rows.append(f"| `{slot.hook}` | {name} | {base} | {serves} | {suite} | `{info.name}` |")
    return [*_SLOTS_OF_PLUGINS.splitlines(), *sorted(rows)]


def _worked_example(hook: str) -> list[str]:
    """Returns the lines of a hook's worked example; none for a hook that `plugins new` does not write."""
    from perpetual.slots.table import SLOTS
    from perpetual_devkit.authoring import rendered

    row = next((row for row in SLOTS.values() if row.hook == hook and row.template is not None), None)
    if row is None and hook not in _KINDS_SHOWN:
        return []
    kind, name, modules = ("", "acme", (row.name,)) if row is not None else _KINDS_SHOWN[hook]
    texts = rendered(name, kind or modules[0], row)
    package = "perpetual_" + name.replace("-", "_")
    option = f"--slot {row.name}" if row is not None else f"--kind {kind}"
    lines = [f"Worked example, as `perpetual plugins new {name} {option}` writes it with its tests:", ""]
    for module in modules:
        path = f"{package}/{module}.py"
        shown = texts[path]
        if len(shown.splitlines()) > _LONGEST_EXAMPLE:
            return [
                f"A worked example of {len(shown.splitlines())} lines: `perpetual plugins new {name} {option}`.",
                "",
            ]
        lines += [f'```python title="{path}"', shown.rstrip(), "```", ""]
    return lines


def _default(value: object) -> str:
    """Returns a default as YAML has it; a text that is empty is seen to be one."""
    return json.dumps(value) if value is None or isinstance(value, bool) or value == "" else str(value)


def config_page() -> str:
    """Returns every key of both files, and the options of the bundled plugins."""
    from perpetual.config import KEYS as CONFIG
    from perpetual.lab.methodology import KEYS as METHODOLOGY
    from perpetual.registry import Registry

    lines = ["# Configuration and methodology", "", _NOTE]
    lines.append("Every key of both files and every option of the bundled plugins, with type, default and meaning.\n")
    lines.append(
        "Precedence: environment (`PERPETUAL_<KEY>`) > project (`.perpetual/config.yaml`) > user "
        "(`~/.config/perpetual/config.yaml`) > default. An unknown key is an error that names the nearest one.\n"
    )
    for title, keys in (("config.yaml", CONFIG), ("methodology.yaml", METHODOLOGY)):
        lines += [f"## {title}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        for key in keys.values():
            lines.append(f"| `{key.name}` | {key.type} | `{_default(key.default)}` | {key.meaning} |")
        lines.append("")
    lines += [
        "## Options of plugins",
        "",
        "Written as `plugins: <slot>: <provider>: <option>: <value>` in config.yaml, or",
    ]
    lines += [
        "`plugins: <provider>: <option>: <value>`: [set the options of a plugin](how-to/options.md) says more.",
        "",
    ]
    lines += ["| slot | provider | option | type | default | meaning |", "|---|---|---|---|---|---|"]
    for info in Registry(safe=True).plugins:
        for offer in info.offers:
            for name, option in (offer.provider.options or {}).items():
                default, home = f"`{_default(option.default)}`", f"`{offer.provider.slot}` | `{offer.provider.name}`"
                lines.append(f"| {home} | `{name}` | {option.type} | {default} | {option.meaning} |")
    return "\n".join(lines).rstrip() + "\n"


_MCP_INTRODUCTION = """\
`perpetual mcp` gives a coding agent the lab over the Model Context Protocol: tools, resources and prompts, each a call
to the same `Lab` that the commands use. `perpetual init` writes it into an agent's configuration. This page is what the
server itself tells its clients.

Both eras of the protocol are served, `initialize` (2024-11-05 to 2025-11-25) and `server/discover` (2026-07-28), over
standard input and output, or over HTTP on a port of this machine: `perpetual mcp --http 127.0.0.1:8321` prints the
address and the token that clients must send. Where its output is no terminal, it names the token's file instead, which
lies in your own state folder; `PERPETUAL_MCP_TOKEN` gives another token.

An answer comes twice, as structured content and as text, in 2,000 tokens together; in 8,000 where more was asked for
(`detail`, `limit`, `tail`). `truncated` and `next_cursor` say what was left out. A refusal has `isError` and the
error document of the commands, with the same code, hint and exit. What people, runs and plugins wrote stands inside a
fence in text, and at the JSON pointers in `untrusted` in structured content:
[what an agent is shown](how-to/agents.md#what-an-agent-is-shown). Deeds are done in the client's name, as
`mcp:<client>/<version>`. Nothing runs that a person has not approved; `perpetual_approve` is offered only by
`perpetual mcp --allow-approve`, which takes a one-time token that a person prints in a terminal
(`perpetual approve --token`) from `PERPETUAL_APPROVE_TOKEN`.

The list of tools stays below 6,100 tokens, of which a model sees about 4,000. So a tool with many arguments shows the
common ones; the others are keys of `more`, or stand beside them by their own names, and are marked in the tables
below. For a model with a small window `perpetual mcp --tools core` (or `PERPETUAL_MCP_TOOLS=core` in the server's
environment) offers six tools in about 1,600 tokens: status, propose, run, wait, memory and hypotheses.

The instructions hold the state of the research at the moment of the connection. Where a hook or a plugin of the agent
brings it with each prompt, `--no-state` or `PERPETUAL_MCP_STATE=0` leaves that copy out: it would only grow old.

`perpetual_show` reads every kind of record and is marked as a tool that only reads, for clients that ask a person
before other tools. The reading actions of `perpetual_hypotheses`, `perpetual_evidence` and `perpetual_memory` stay.

Answers of `perpetual_propose` and `perpetual_run` warn in `warnings`: that no noise is declared and the replicates are
too few to show any, after how long a run is ended where no `wall` was given, and that the baseline is not measured yet.

## A client

```console
$ perpetual init -H mcp
```

```python title="client.py"
import asyncio

from mcp import StdioServerParameters
from mcp.client.client import Client


async def main() -> None:
    async with Client(StdioServerParameters(command="perpetual", args=["mcp"])) as client:
        claim = {"action": "add", "text": "warm-up lowers the loss", "metric": "val_loss", "direction": "min"}
        added = await client.call_tool("perpetual_hypotheses", claim)
        print(added.structured_content["hypothesis"]["id"])
        proposed = await client.call_tool("perpetual_propose", {"hypothesis": "h1", "command": "python train.py"})
        print(proposed.content[0].text)
        refused = await client.call_tool("perpetual_run", {"experiment": "e1"})
        print(refused.is_error, refused.content[0].text)


asyncio.run(main())
```

```console
$ python client.py
h1
e1 proposed
Waiting for a person: e1. You may propose more or end your turn.
True {"schema": "perpetual.error/1", "error": {"code": "not_approved"
```

## A warm start

A server imports for most of a second before it answers. On Linux, `perpetual services start mcp` keeps a process that
has all of it loaded, and every `perpetual mcp` in the project starts from that:

```console
$ perpetual services start mcp
mcp running
$ perpetual services
mcp
$ perpetual services stop mcp
```

Nothing else changes. Each client has a server process of its own, with the variables and the folder that it started
`perpetual mcp` with, under the configuration of that moment, and it ends when its client does. Where the service does
not run, or a start does not fit it (another user, login session, container, sandbox or limit, another interpreter or
locale, a terminal as its input, HTTP, `--allow-approve`, an agent that `perpetual ask` drives), the server starts
alone, as always. After an upgrade the service loads itself anew at the next start.

## Waiting for runs

`perpetual_wait` is one call, however long the runs last: a poll every few seconds would cost a turn of the model each
time. It answers when all of them have ended, and before that where a decision is due: a run failed, a verdict changed,
a run was seen to be in trouble, or something waits for a person. Meanwhile it records how runs end, and sends
`notifications/progress` about every five seconds (`r4 61% 12m left`) to a client that gave a `progressToken`.

```console
$ perpetual propose --command "echo val_loss=2.1" --metric val_loss --direction min
$ perpetual approve e2
```

```python title="wait.py"
import asyncio

from mcp import StdioServerParameters
from mcp.client.client import Client


async def shown(progress: float, total: float | None, message: str | None) -> None:
    print(message)


async def main() -> None:
    async with Client(StdioServerParameters(command="perpetual", args=["mcp"])) as client:
        await client.call_tool("perpetual_run", {"experiment": "e2"})
        asked = {"ids": ["e2"], "timeout": "2h"}
        waited = await client.call_tool("perpetual_wait", asked, progress_callback=shown)
        print(waited.structured_content["because"])
        print(waited.content[0].text)


asyncio.run(main())
```

```console
$ python wait.py
ended
all have ended
r1 done
no run is live
```

The news come from the feed, so it does not matter which process recorded them. `since` names the event after which
they begin, as the `seq` of an earlier answer; without it they begin after the last scan or wait that this client was
answered. A call that the client takes back loses none: the next scan or wait has its news.

A client that gives no `progressToken` is answered after 25 seconds, since it may give the call up soon after.
`PERPETUAL_MCP_MAX_WAIT` in the server's environment (`55s`, `2h`) sets another limit, for a client whose own limit
progress does not move.

A tool of a plugin may take long in the same way: a parameter that is annotated with `perpetual.api.ToolContext` is
given the call's, with `progress(done, total, message)` and `is_cancelled()`. It may be a coroutine function. Its
attributes `reads_only`, `destroys`, `repeatable`, `open_world` and `title` are what clients are shown of it.
"""


async def _answers_of_the_server() -> tuple[Any, ...]:
    """Tools, resources, templates and prompts, as a client of the bundled server sees them."""
    import tempfile

    from mcp.client.client import Client

    from perpetual import Lab
    from perpetual_mcp.server import Labs, make_server
    from perpetual_mcp.tools import whole_schemas

    with tempfile.TemporaryDirectory() as folder:
        Lab.init(folder, name="docs").close()
        labs = Labs(lambda actor: Lab.open(folder, actor=actor, safe=True))
        try:
            server = make_server(labs, allow_approve=True)
            async with Client(server) as client:
                return (
                    [(tool, whole_schemas(server, tool.name)) for tool in (await client.list_tools()).tools],
                    (await client.list_resources()).resources,
                    (await client.list_resource_templates()).resource_templates,
                    (await client.list_prompts()).prompts,
                )
        finally:
            labs.close()


def _values(schema: dict[str, Any]) -> str:
    """Returns what an argument may be, in words."""
    if "anyOf" in schema:
        return " or ".join(_values(part) for part in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def mcp_page() -> str:
    """Returns every tool, resource and prompt of the MCP server, and a client that was executed."""
    import asyncio

    tools, resources, templates, prompts = asyncio.run(_answers_of_the_server())
    lines = ["# The MCP server", "", _NOTE, _MCP_INTRODUCTION, "## Tools", ""]
    for tool, (whole, keys) in tools:
        hints = tool.annotations
        can = (
            "reads only"
            if hints.read_only_hint
            else "may end a run"
            if hints.destructive_hint
            else "changes the record"
        )
        lines += [f"### {tool.name}", "", f"{' '.join(tool.description.split())} ({can})", ""]
        shown = tool.input_schema["properties"]
        arguments = {**{name: item for name, item in shown.items() if name != "more"}}
        moved = {name: item for name, item in whole.items() if name not in shown}
        arguments |= moved
        if arguments:
            lines += ["| argument | value | default | meaning |", "|---|---|---|---|"]
        for name, schema in arguments.items():
            required = name in tool.input_schema.get("required", [])
            default = f"`{json.dumps(schema['default'])}`" if "default" in schema else "required" * required
            mark = ", in `more`" if name in moved else ""
            lines.append(f"| `{name}`{mark} | {_values(schema)} | {default} | {schema['description']} |")
        lines += [""] * bool(arguments)
        lines += [f"Answers {', '.join(f'`{key}`' for key in keys)}.", ""] * bool(keys)
    lines += ["## Resources", "", "| resource | is | holds |", "|---|---|---|"]
    lines += [f"| `{item.uri}` | {item.mime_type} | {item.description} |" for item in resources]
    lines += [f"| `{item.uri_template}` | {item.mime_type} | {item.description} |" for item in templates]
    lines += ["", "A client that subscribes to one is notified of every change, whichever process made it.", ""]
    lines += ["## Prompts", "", "| prompt | does | arguments |", "|---|---|---|"]
    for prompt in prompts:
        said = "; ".join(f"`{item.name}`: {item.description}" for item in prompt.arguments or [])
        lines.append(f"| `{prompt.name}` | {prompt.description} | {said} |")
    return "\n".join(lines).rstrip() + "\n"


_API_INTRODUCTION = """\
`Lab` is the door to a project for Python: the command line, the MCP server and plugins call the same methods.

```python
from perpetual import Lab

with Lab.init(".", name="warm-up") as lab:
    claim = lab.hypotheses.add("warm-up lowers val_loss", metric="val_loss", direction="min", mde=0.05, baseline=2.31)
    experiment = lab.experiments.propose(claim.id, command="python train.py --warmup 500", replicates=3)
    print(experiment.id, experiment.status)  # e1 proposed
    print(lab.hypotheses.get("h1").confidence)  # 0.5
```

- **Answers.** Methods return frozen records of `perpetual.records`, or documents: dicts with the keys under
  [Answers](#answers).
- **Pages.** `list` returns a `Listing`, which iterates over its records: `items`, at most `limit` of them, and
  `next_cursor`, the `cursor` of the next page. It is None on the last page. `all` yields the records of every page.
- **Notebooks.** Records and listings are shown as tables: [notebooks](how-to/notebooks.md).
- **Errors.** Every error is a `perpetual.errors.PerpetualError` with `code`, `message` and `hint`. Methods that read an
  id raise NotFound for an unknown one. Methods that write raise TransientError if the store's lock stays taken. In a
  project that is held ([untrusted projects](how-to/untrusted-projects.md)) they raise NotPermitted; `lab.runs.kill`
  ends a run that is supervised here all the same.
- **Units.** A name that ends in `_s` is seconds, in `_hours` hours, in `_bytes` bytes. Times are UTC, ISO 8601.
- **Idempotency.** A second call with the same `idempotency_key` returns the first call's answer and writes nothing.
- **Dry runs.** With `dry_run` nothing is written; the answer says what would be.
- **Threads.** One `Lab` may be used by several threads; processes share a project through its store.

What stays over releases: [stability](stability.md).
"""
# The components in the order of a user's work: what was claimed, tried, run, found, spent; then the project itself.
_COMPONENTS = (
    "hypotheses", "experiments", "proposals", "runs", "queue", "evidence", "budget", "memory", "feed", "records",
    "loop", "settings", "trust", "storage", "imports", "services",
)  # fmt: skip
_OF_PLUGINS = {"Services": "perpetual_supervisor.services"}
_MAKES = ("add", "propose", "launch", "write")
_WIDEST = 100  # characters of a signature on one line


def components() -> dict[str, type]:
    """Returns the class of each public component of `Lab`, in the order of the page."""
    from functools import cached_property

    from perpetual import Lab

    found = {
        name: _class_of(value)
        for name, value in vars(Lab).items()
        if isinstance(value, cached_property) and name[0] != "_"
    }
    assert sorted(found) == sorted(_COMPONENTS), "a component of Lab has no place in the order of the page"
    return {name: found[name] for name in _COMPONENTS}


def _class_of(component: Any) -> type:
    """Returns the class that a component's property makes: the name of its annotation, in the module it imports.

    What a plugin makes is in the plugin's module.
    """
    if (name := component.func.__annotations__["return"]) in _OF_PLUGINS:
        return _named(f"{_OF_PLUGINS[name]}:{name}")
    module = next(name for name in component.func.__code__.co_names if name.startswith("perpetual."))
    return _named(f"{module}:{component.func.__annotations__['return']}")


def _named(address: str) -> type:
    """Returns the class at `module:name`."""
    module, _, name = address.partition(":")
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, type)
    return found


def members(home: type) -> dict[str, Any]:
    """Returns the public methods and properties of a class by name: what makes records first, then as its source."""
    from perpetual.records import Paged

    kinds = (property, staticmethod, classmethod)
    found = {
        name: value
        for part in (home, *(Paged for base in home.__bases__ if base is Paged))
        for name, value in vars(part).items()
        if (name[0] != "_" or name == "__call__") and (inspect.isfunction(value) or isinstance(value, kinds))
    }
    return dict(sorted(found.items(), key=lambda item: item[0] not in _MAKES))


def _annotation(value: Any) -> str:
    return value if isinstance(value, str) else inspect.formatannotation(value)


def _parameter(one: inspect.Parameter) -> str:
    """Returns a parameter as its source has it; the default that is a function by its name."""
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    text = f"{stars}{one.name}: {_annotation(one.annotation)}"
    if one.default is one.empty:
        return text
    default = one.default.__name__ if inspect.isfunction(one.default) else repr(one.default).replace("'", '"')
    return f"{text} = {default}"


def _function(value: Any) -> Callable[..., Any]:
    """Returns the function behind a member of a class."""
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    assert inspect.isfunction(function)
    return function


def api_signature(name: str, value: Any) -> str:
    """Returns a method's signature as its source has it, a parameter on each line where it is long."""
    function = _function(value)
    if isinstance(value, property):
        return f"{name}: {_annotation(inspect.signature(function).return_annotation)}"
    known = inspect.signature(function)
    given = list(known.parameters.values())[0 if isinstance(value, staticmethod) else 1 :]
    words, is_keyword = [], False
    for one in given:
        if one.kind is one.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            words.append("*")
        words.append(_parameter(one))
    answer = _annotation(known.return_annotation)
    if hasattr(function, "__wrapped__"):  # made by `contextmanager`
        answer = re.sub(r"^Iterator\b", "AbstractContextManager", answer)
    line = f"def {name}({', '.join(words)}) -> {answer}: ..."
    if len(line) <= _WIDEST:
        return line
    return "\n".join([f"def {name}(", *(f"    {word}," for word in words), f") -> {answer}: ..."])


def api_text(home: Any) -> list[str]:
    """Returns a docstring as Markdown: what each part (`Args:`, `Raises:`) names as a list."""
    lines, part = [], ""
    for line in (inspect.getdoc(home) or "").splitlines():
        if re.fullmatch(r"(Args|Attributes|Raises|Returns|Yields):", line):
            part = line
            lines += [f"**{part}**", ""]
        elif not part or not line.startswith("    "):
            lines.append(line)
        elif part in ("Returns:", "Yields:") or line.startswith("     "):
            lines.append(f"{'' if part in ('Returns:', 'Yields:') else '  '}{line.strip()}")
        else:
            names, _, text = line.strip().partition(": ")
            lines.append(f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {text}")
    return [*lines, ""]


def _api_section(title: str, home: type) -> list[str]:
    """Returns the section of a class: what it is, and each of its methods."""
    lines = [f"## {title}", "", *api_text(home)]
    for name, value in members(home).items():
        shown = name if name != "__call__" else title.rpartition(".")[2]
        heading = f"{title}.{name}" if name != "__call__" else f"{title}(kind)"
        lines += [f"### {heading}", "", "```python", api_signature(shown, value), "```", "", *api_text(value)]
    return lines


def _api_record(record: type) -> list[str]:
    """Returns the section of a record: its fields as its source has them, with their comments."""
    module = inspect.getsource(importlib.import_module(record.__module__))
    (node,) = [node for node in ast.parse(module).body if record.__name__ in _defined(node)]
    source = (ast.get_source_segment(module, node) or "").partition("\n    def ")[0].partition("\n    @")[0]
    fields = (
        source.replace("(Shown)", "").replace("(Shown, ", "(").replace(f'    """{record.__doc__}"""\n\n', "").rstrip()
    )
    return [f"### {record.__name__}", "", *api_text(record), "```python", fields, "```", ""]


def _defined(node: ast.stmt) -> list[str]:
    """Returns the names that a statement of a module defines as classes, or by a call as `TypedDict` has it."""
    if isinstance(node, ast.ClassDef):
        return [node.name]
    return [one.id for one in node.targets if isinstance(one, ast.Name)] if isinstance(node, ast.Assign) else []


def api_page() -> str:
    """Returns `Lab` with its components, each public method with signature and docstring, and what they answer."""
    from perpetual import Lab
    from perpetual.lab.plugin_listing import Inventory
    from perpetual.lab.records import KindRecords

    lines = ["# The Python API", "", _NOTE, _API_INTRODUCTION, *_api_section("Lab", Lab)]
    for name, home in components().items():
        lines += _api_section(f"lab.{name}", home)
        if name == "records":
            lines += _api_section("lab.records(kind)", KindRecords)
    lines += [*_api_section("lab.inventory()", Inventory), "## Answers", ""]
    lines += [
        "What methods take and return, as its source declares it. `to_json(record)` of `perpetual.records` has the"
    ]
    lines += ["same keys as the record.", ""]
    for answer in _answers([Lab, *components().values(), KindRecords, Inventory]):
        lines += _api_record(answer)
    return "\n".join(lines).rstrip() + "\n"


def _answers(homes: Iterable[type]) -> list[type]:
    """Returns the records and documents that signatures of these classes name, and those that these name, by name."""
    found: dict[str, type] = {}
    left = [(home.__module__, str(text)) for home in homes for text in _annotations(home)]
    left.append(("perpetual.lab.experiments", "Specification"))  # which spells the arguments of `propose` out
    while left:
        module, text = left.pop()
        for home, name in re.findall(r"\b(?:(\w+)\.)?([A-Z]\w+)", text):
            known = _imported(module)
            value = getattr(known.get(home), name, None) if home else known.get(name)
            if not inspect.isclass(value) or not value.__module__.startswith("perpetual."):
                continue
            is_shown = is_dataclass(value) or hasattr(value, "__total__") or hasattr(value, "_fields")
            if is_shown and value not in found.values():
                found[value.__name__] = value
                left += [(value.__module__, str(one)) for one in value.__annotations__.values()]
    return [found[name] for name in sorted(found)]


def _annotations(home: type) -> Iterator[object]:
    """Yields the annotations of a class's public methods and properties."""
    for value in members(home).values():
        yield from inspect.signature(_function(value)).parameters.values()
        yield inspect.signature(_function(value)).return_annotation


def _named_in(module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        return importlib.import_module(f"{module.__name__}.{name}")


@cache
def _imported(module: str) -> dict[str, Any]:
    """Returns what a module's source names by its imports, also for types alone, and what it defines."""
    home = importlib.import_module(module)
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(home))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perpetual"):
            source = importlib.import_module(node.module or "")
            found |= {one.asname or one.name: _named_in(source, one.name) for one in node.names}
    return found | vars(home)


def navigation() -> list[str]:
    """Returns the pages of the site in their order."""
    from ruamel.yaml import YAML

    def walk(node: Any) -> list[str]:
        if isinstance(node, str):
            return [node]
        return [page for part in (node.values() if isinstance(node, dict) else node) for page in walk(part)]

    return walk(YAML(typ="safe").load((DOCS / "site" / "mkdocs.yml").read_text())["nav"])


def _introduction() -> str:
    """Returns README's first part, its links as seen from `docs/`."""
    readme = (DOCS.parent / "README.md").read_text().partition("\n## ")[0]
    return readme.replace("](docs/", "](").replace('src="docs/', 'src="')


def _gist(text: str) -> tuple[str, str]:
    """Returns a page's title and the first sentence below it."""
    title, _, body = text.partition("\n")
    plain = [part for part in body.split("\n\n") if part.strip() and not re.match(r"\s*(<|!|```|#|\|)", part)]
    sentence = re.match(r".+?\.(?=\s|$)", " ".join(plain[0].split())) if plain else None
    assert sentence is not None, f"{title}: the page opens with no sentence"
    words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", sentence[0]).replace("**", "").rstrip(":.")
    return title.removeprefix("# "), words + "."


def _listed(known: dict[str, str]) -> list[str]:
    """Returns one line for each page but the first."""
    lines = []
    for page in navigation():
        if page != "index.md":
            title, sentence = _gist(known.get(page) or (DOCS / page).read_text())
            lines.append(f"- [{title}]({page}): {sentence}")
    return lines


def index_page(known: dict[str, str]) -> str:
    """Returns the site's first page: what Perpetual is, and where to read on."""
    title, _, rest = _introduction().partition("\n")
    return "\n".join([title, "", _NOTE.rstrip(), rest.rstrip(), "", "## Pages", "", *_listed(known)]) + "\n"


def llms_text(known: dict[str, str]) -> str:
    """Returns the same list for language models, in the layout of llms.txt."""
    _, sentence = _gist(_introduction())
    return "\n".join(["# Perpetual", "", f"> {sentence}", "", "## Documentation", "", *_listed(known)]) + "\n"


def pages() -> dict[str, str]:
    """Returns file name -> content of every generated page."""
    known = {
        "cli.md": cli_page(),
        "hooks.md": hooks_page(),
        "config.md": config_page(),
        "mcp.md": mcp_page(),
        "api.md": api_page(),
    }
    return {**known, "index.md": index_page(known), "llms.txt": llms_text(known)}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
