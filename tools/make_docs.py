"""`make docs`: writes the reference pages from the program itself, so that they cannot drift from it.

`docs/cli.md` from the click tree, `docs/hooks.md` from the hookspecs, `docs/config.md` from the two schemas,
`docs/index.md` from the first part of README.md, `docs/llms.txt` from the site's navigation and the first sentence of
each page. A test runs `pages()` and fails when a committed page differs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

DOCS = Path(__file__).parents[1] / "docs"
_NOTE = "<!-- written by `make docs`; change the program, not this page -->\n"


def _command(path: str, command: click.Command, parent: click.Context) -> list[str]:
    """A command's section, and those of its subcommands."""
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
    """Every command with its help."""
    from perpetual.cli.app import program

    context = click.Context(program, info_name="perpetual", max_content_width=100)
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
    """As `inspect` has it, its annotations in the quotes of the formatter."""
    return str(inspect.signature(hook)).replace("'", '"')


def hooks_page() -> str:
    """Every hook with its exact signature and its contract."""
    from perpetual import hookspecs

    lines = ["# Hooks", "", _NOTE, inspect.getdoc(hookspecs) or "", ""]
    for name, value in vars(hookspecs).items():
        if name.startswith("perpetual_") and callable(value):
            lines += [f"## {name}", "", "```python", f"def {name}{signature(value)}: ...", "```", ""]
            lines += [inspect.getdoc(value) or "", ""]
    return "\n".join(lines).rstrip() + "\n"


def config_page() -> str:
    """Every key of both files, and the options of the bundled plugins."""
    from perpetual.config import KEYS as CONFIG
    from perpetual.methodology import KEYS as METHODOLOGY
    from perpetual.registry import Registry

    lines = ["# Configuration and methodology", "", _NOTE]
    lines.append("Every key of both files and every option of the bundled plugins, with type, default and meaning.\n")
    lines.append(
        "Precedence: command line > environment (`PERPETUAL_<KEY>`) > project (`.perpetual/config.yaml`) > user "
        "(`~/.config/perpetual/config.yaml`) > default. An unknown key is an error that names the nearest one.\n"
    )
    for title, keys in (("config.yaml", CONFIG), ("methodology.yaml", METHODOLOGY)):
        lines += [f"## {title}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        for key in keys.values():
            default = "null" if key.default is None else str(key.default).lower() if key.type == "bool" else key.default
            lines.append(f"| `{key.name}` | {key.type} | `{default}` | {key.meaning} |")
        lines.append("")
    lines += ["## Options of plugins", "", "Written as `plugins: <name>: <option>: <value>` in config.yaml.", ""]
    lines += ["| plugin | option | type | default | meaning |", "|---|---|---|---|---|"]
    for info in Registry(safe=True).plugins:
        for offer in info.offers:
            for name, option in (offer.provider.options or {}).items():
                lines.append(
                    f"| `{offer.provider.name}` | `{name}` | {option.type} | `{option.default}` | {option.meaning} |"
                )
    return "\n".join(lines).rstrip() + "\n"


def navigation() -> list[str]:
    """The pages of the site in their order."""
    from ruamel.yaml import YAML

    def walk(node: Any) -> list[str]:
        if isinstance(node, str):
            return [node]
        return [page for part in (node.values() if isinstance(node, dict) else node) for page in walk(part)]

    return walk(YAML(typ="safe").load((DOCS / "site" / "mkdocs.yml").read_text())["nav"])


def _introduction() -> str:
    """README's first part, its links as seen from `docs/`."""
    readme = (DOCS.parent / "README.md").read_text().partition("\n## ")[0]
    return readme.replace("](docs/", "](").replace('src="docs/', 'src="')


def _gist(text: str) -> tuple[str, str]:
    """A page's title and the first sentence below it."""
    title, _, body = text.partition("\n")
    plain = [part for part in body.split("\n\n") if part.strip() and not re.match(r"\s*(<|!|```|#|\|)", part)]
    sentence = re.match(r".+?\.(?=\s|$)", " ".join(plain[0].split())) if plain else None
    assert sentence is not None, f"{title}: the page opens with no sentence"
    words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", sentence[0]).replace("**", "").rstrip(":.")
    return title.removeprefix("# "), words + "."


def _listed(known: dict[str, str]) -> list[str]:
    """One line for each page but the first."""
    lines = []
    for page in navigation():
        if page != "index.md":
            title, sentence = _gist(known.get(page) or (DOCS / page).read_text())
            lines.append(f"- [{title}]({page}): {sentence}")
    return lines


def index_page(known: dict[str, str]) -> str:
    """The site's first page: what Perpetual is, and where to read on."""
    title, _, rest = _introduction().partition("\n")
    return "\n".join([title, "", _NOTE.rstrip(), rest.rstrip(), "", "## Pages", "", *_listed(known)]) + "\n"


def llms_text(known: dict[str, str]) -> str:
    """The same list for language models, in the layout of llms.txt."""
    _, sentence = _gist(_introduction())
    return "\n".join(["# Perpetual", "", f"> {sentence}", "", "## Documentation", "", *_listed(known)]) + "\n"


def pages() -> dict[str, str]:
    """File name -> content of every generated page."""
    known = {"cli.md": cli_page(), "hooks.md": hooks_page(), "config.md": config_page()}
    return {**known, "index.md": index_page(known), "llms.txt": llms_text(known)}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
