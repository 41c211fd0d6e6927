"""Harnesses that are data: what a folder of `perpetual_templates` lists, as file plans.

Only the factories are imported from outside. The templates are read through `importlib.resources`, so they may lie in
a zip file.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from perpetual.api import FilePlan, Harness, ListCommand, PluginError, Scaffold

if TYPE_CHECKING:
    from perpetual_harnesses.dispatch.base import Row

__all__ = [
    "PrintingScaffold",
    "Snippet",
    "TemplateHarness",
    "amp",
    "antigravity",
    "claude_code",
    "cline",
    "codex",
    "continue_",
    "copilot",
    "cursor",
    "droid",
    "gemini",
    "goose",
    "kilo",
    "mcp",
    "opencode",
    "qwen",
    "vscode",
    "windsurf",
    "zed",
]

_PACKAGE = "perpetual_templates"


@dataclass(frozen=True, slots=True)
class Snippet:
    """What a person puts into a file outside of the project: init prints it and writes nothing there."""

    path: str
    what: str
    value: object  # with {{folder}} for the project's folder
    form: str = "json"  # or yaml

    def text(self, folder: Path) -> str:
        """Returns the whole of what the file holds where nothing else is in it."""
        value = _replaced(self.value, {"{{folder}}": str(folder)})
        if self.form == "json":
            return json.dumps(value, indent=2, ensure_ascii=False)
        from ruamel.yaml import YAML

        stream = StringIO()
        writer = YAML(typ="safe", pure=True)
        writer.default_flow_style = False
        writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        writer.dump(value, stream)
        return stream.getvalue().rstrip("\n")


@dataclass(frozen=True, slots=True)
class PrintingScaffold(Scaffold):
    """A scaffold of a harness whose configuration is outside of projects: what a person puts there is printed."""

    snippets: tuple[Snippet, ...] = ()


class _Snippet(TypedDict):
    path: str
    what: str
    form: str
    value: object


class _File(TypedDict):
    """One file of a template: a `FilePlan`, its text in pieces."""

    path: str
    how: str
    instead: NotRequired[list[str]]
    head: NotRequired[str]
    source: NotRequired[list[str]]
    tail: NotRequired[str]
    fill: NotRequired[dict[str, str]]  # text of the pieces -> its replacement
    keys: NotRequired[list[str]]
    value: NotRequired[object]
    existing_only: NotRequired[bool]
    comments: NotRequired[bool]


class _Listing(TypedDict):
    command: list[str]
    accepted: str
    waiting: NotRequired[str]


class _Dispatch(TypedDict, total=False):
    """How the harness is driven and handed over to; the fields of a `Row`."""

    acp: list[str]
    argv: list[str]
    resume: list[str]
    parser: str
    model: list[str]
    mode: str
    agent: str
    drops: list[str]
    sets: dict[str, str]
    asks: dict[str, list[str]]
    asks_by: str
    usage: str
    install: str
    login: list[str]
    status: list[str]
    signed_in: str
    variables: list[str]
    chat: list[str]


class _Template(TypedDict):
    """A `template.yaml`."""

    detect: list[str | list[str]]
    files: list[_File]
    trust: list[str]
    doctor: NotRequired[list[str]]
    snippets: NotRequired[list[_Snippet]]
    files_of: NotRequired[str]  # another template beside it, whose files come first
    renames: NotRequired[dict[str, str]]  # beginnings of the paths of those, and what takes their place
    program: NotRequired[str]
    listing: NotRequired[_Listing]
    dispatch: NotRequired[_Dispatch]


class TemplateHarness(Harness):
    """The harness of one template folder, `NAME/template.yaml` and the texts that it names.

    A plugin's own agent needs only `TemplateHarness("NAME", importlib.resources.files("its_package"))`.

    Args:
        name: the folder's name.
        root: holds the folder; by default the templates of Perpetual do. Texts and templates that are not there are
            those of Perpetual: `common/agents.md`, `common/method.md`, `common/commands/auto.md` and so on.
    """

    def __init__(self, name: str, root: Traversable | None = None) -> None:
        self._name = name
        self._root = files(_PACKAGE) if root is None else root

    @cached_property
    def _template(self) -> _Template:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        place = f"{self._name}/template.yaml"
        try:
            template: _Template = YAML(typ="safe", pure=True).load(self._read(place))
        except YAMLError as problem:
            raise PluginError(f"{place}: {' '.join(str(problem).split())[:300]}") from problem
        if not isinstance(template, dict):
            raise PluginError(f"{place}: it is no mapping")
        strange = sorted(map(str, set(template) - _Template.__annotations__.keys()))
        missing = sorted({"detect", "files", "trust"} - set(template))
        if strange or missing:
            raise PluginError(f"{place}: unknown key {strange[0]!r}" if strange else f"{place}: no {missing[0]!r}")
        return template

    def _read(self, path: str) -> str:
        parts = path.split("/")
        try:
            found = self._root.joinpath(*parts)
            if not found.is_file():
                found = files(_PACKAGE).joinpath(*parts)
            return found.read_text(encoding="utf-8")
        except (OSError, KeyError, UnicodeDecodeError) as problem:  # KeyError: a zip file's
            raise PluginError(
                f"the template {path} cannot be read: {problem}", hint="reinstall the distribution that offers it"
            ) from problem

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        """Returns the files of the template, with the command filled in."""
        plans = [self._plan(item, command) for item in self._template["files"]]
        base = self._template.get("files_of")
        if base is not None:
            asked = TemplateHarness(base, self._root).scaffold(project=project, command=command)
            plans = [*map(self._renamed, asked.files), *plans]
        trust = tuple(self._template["trust"])
        found = self._template.get("snippets")
        if found is None:
            return Scaffold(tuple(plans), trust)
        snippets = [Snippet(one["path"], one["what"], _filled(one["value"], command), one["form"]) for one in found]
        return PrintingScaffold(tuple(plans), trust, tuple(snippets))

    def _renamed(self, plan: FilePlan) -> FilePlan:
        def renamed(path: str) -> str:
            for start, other in self._template.get("renames", {}).items():
                if path.startswith(start):
                    return other + path.removeprefix(start)
            return path

        return replace(plan, path=renamed(plan.path), instead=tuple(map(renamed, plan.instead)))

    def _plan(self, item: _File, command: tuple[str, ...]) -> FilePlan:
        strange = sorted(set(item) - _File.__annotations__.keys())
        if strange:
            raise PluginError(f"{self._name}/template.yaml: {item.get('path')}: unknown key {strange[0]!r}")
        return FilePlan(
            path=item["path"],
            how=item["how"],
            text=self._text(item).replace("{{command}}", json.dumps(command)),
            keys=tuple(item.get("keys", ())),
            value=_filled(item.get("value"), command),
            existing_only=item.get("existing_only", False),
            comments=item.get("comments", False),
            instead=tuple(item.get("instead", ())),
        )

    def _text(self, item: _File) -> str:
        parts = [item.get("head", ""), *map(self._read, item.get("source", ())), item.get("tail", "")]
        text = "".join(parts)
        for name, value in item.get("fill", {}).items():
            if name not in text:
                raise PluginError(f"{self._name}/template.yaml: {item['path']}: there is no {name!r} to fill")
            text = text.replace(name, value)
        return text

    def detect(self, folder: Path) -> bool:
        """Returns whether the files are there by which the template recognises its harness."""
        signs = [[sign] if isinstance(sign, str) else sign for sign in self._template["detect"]]
        return any(all((folder / name).exists() for name in sign) for sign in signs)

    def program(self) -> str | None:
        """Returns the harness's program; None for a template of no harness in particular."""
        return self._template.get("program")

    def listing(self) -> ListCommand | None:
        """Returns the command of the template, where the harness has one that costs little."""
        item = self._template.get("listing")
        return None if item is None else ListCommand(tuple(item["command"]), item["accepted"], item.get("waiting", ""))

    def checks(self) -> tuple[str, ...]:
        """Returns the names of the doctor's further looks at this harness.

        Raises:
            PluginError: for a look that there is not.
        """
        from perpetual_harnesses.harness_checks import CHECKS

        names = tuple(self._template.get("doctor", ()))
        strange = sorted({*names} - CHECKS.keys())
        if strange:
            raise PluginError(f"{self._name}/template.yaml: doctor: {strange[0]!r} is none of {', '.join(CHECKS)}")
        return names

    def driving(self) -> Row | None:
        """Returns how the harness is driven, None where the template does not say.

        Raises:
            PluginError: for a key that there is not.
        """
        from perpetual_harnesses.dispatch.base import Row
        from perpetual_harnesses.dispatch.permission import kind_of

        found = self._template.get("dispatch")
        if found is None:
            return None
        strange = sorted(set(found) - _Dispatch.__annotations__.keys())
        if strange:
            raise PluginError(f"{self._name}/template.yaml: dispatch: unknown key {strange[0]!r}")
        asks = {kind_of(kind): tuple(names) for kind, names in found.get("asks", {}).items()}
        return Row(
            self._name, acp=tuple(found.get("acp", ())), argv=tuple(found.get("argv", ())),
            resume=tuple(found.get("resume", ())), parser=found.get("parser", "text"),
            model=tuple(found.get("model", ())), mode=found.get("mode", ""), agent=found.get("agent", ""),
            drops=tuple(found.get("drops", ())), sets=found.get("sets", {}), asks=asks,
            asks_by=found.get("asks_by", ""), usage=found.get("usage", "prompt"), install=found.get("install", ""),
            login=tuple(found.get("login", ())), status=tuple(found.get("status", ())),
            signed_in=found.get("signed_in", ""), variables=tuple(found.get("variables", ())),
            chat=tuple(found.get("chat", ())),
        )  # fmt: skip


def _filled(value: object, command: tuple[str, ...]) -> object:
    """Returns the value with program, arguments and shell command in place of their names."""
    if isinstance(value, Mapping):
        return {key: _filled(item, command) for key, item in value.items()}
    if isinstance(value, list):
        found: list[object] = []
        for item in value:
            found += command[1:] if item == "{{arguments}}" else [_filled(item, command)]
        return found
    if isinstance(value, str):
        return value.replace("{{program}}", command[0]).replace("{{shell}}", shlex.join(command))
    return value


def _replaced(value: object, names: Mapping[str, str]) -> object:
    """Returns the value with other texts in place of these names."""
    if isinstance(value, Mapping):
        return {key: _replaced(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(name, text)
    return value


def _factory(name: str) -> Callable[[Mapping[str, object]], TemplateHarness]:
    """Returns the factory of a bundled template's provider; it has no options."""

    def build(options: Mapping[str, object]) -> TemplateHarness:
        return TemplateHarness(name)

    return build


amp = _factory("amp")
antigravity = _factory("antigravity")
claude_code = _factory("claude-code")
cline = _factory("cline")
codex = _factory("codex")
continue_ = _factory("continue")
copilot = _factory("copilot")
cursor = _factory("cursor")
droid = _factory("droid")
gemini = _factory("gemini")
goose = _factory("goose")
kilo = _factory("kilo")
mcp = _factory("mcp")
opencode = _factory("opencode")
qwen = _factory("qwen")
vscode = _factory("vscode")
windsurf = _factory("windsurf")
zed = _factory("zed")
