"""The documentation cannot drift: its blocks are executed, its generated pages are fresh, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import click
import pytest

from perpetual.registry import Registry

_HERE = Path(__file__).parent
ROOT = _HERE.parents[1]


def load(path: Path) -> ModuleType:
    """A module by its file: neither tools/ nor this folder is a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


BLOCKS = load(_HERE / "blocks.py")
MAKE_DOCS = load(ROOT / "tools" / "make_docs.py")
MAKE_PICTURES = load(ROOT / "tools" / "make_pictures.py")
HOOKS = {
    name: value
    for name, value in vars(importlib.import_module("perpetual.hookspecs")).items()
    if name.startswith("perpetual_") and inspect.isfunction(value)
}


# --- blocks ---------------------------------------------------------------------------------------------------------


# What a newcomer reads first runs in the default lane, the rest in the slow one.
FIRST = ("README.md",)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in FIRST else pytest.mark.slow) for page in BLOCKS.PAGES]
)
def test_every_block_of_a_page_is_executed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERPETUAL_STATE_DIR")  # a reader's state is in the home, and the SDK's client hands no other on
    monkeypatch.delenv("PERPETUAL_QUEUE_MOVES")
    folder = tmp_path / Path(page).stem
    folder.mkdir()
    BLOCKS.run_page(page, folder)


def test_exceptions_are_few_and_used() -> None:
    texts = {block.text for page in BLOCKS.PAGES for block in BLOCKS.blocks(page)}
    assert len(BLOCKS.EXCEPTIONS) <= 5
    assert set(BLOCKS.EXCEPTIONS) <= texts
    assert all(BLOCKS.EXCEPTIONS.values())


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ false\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ true  # exit 3\n```\n",
        "```console\nno prompt\n```\n",
        "```python\nraise SystemExit(1)\n```\n",
        "```python\nprint(1)  # 2\n```\n",
        '```yaml title="config.yaml"\nstoer: tinydb\n```\n',
        '```yaml title="methodology.yaml"\nmax_run_hours: many\n```\n',
        "```json\n{]\n```\n",
        "```toml\n= 1\n```\n",
        "```\nunnamed\n```\n",
        "```sh\ntrue\n```\n",
        "```text\n$ true\n```\n",
        "```console\n$ true\n",
    ],
)
def test_a_block_that_does_not_work_is_noticed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tomllib import TOMLDecodeError

    from perpetual.errors import ConfigError

    (tmp_path / "page.md").write_text(text)
    (tmp_path / "page").mkdir()
    monkeypatch.setattr(BLOCKS, "ROOT", tmp_path)
    with pytest.raises((AssertionError, ConfigError, ValueError, TOMLDecodeError)):
        BLOCKS.run_page("page.md", tmp_path / "page")


# --- generated pages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["api.md", "cli.md", "hooks.md", "config.md", "index.md", "llms.txt"])
def test_generated_pages_are_fresh(page: str) -> None:
    assert (ROOT / "docs" / page).read_text() == MAKE_DOCS.pages()[page], "stale: make docs"


def test_every_page_is_in_the_navigation() -> None:
    docs = ROOT / "docs"
    assert sorted(MAKE_DOCS.navigation()) == sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))


@pytest.mark.parametrize("picture", sorted(MAKE_PICTURES.FLOWS))
def test_flow_pictures_are_fresh(picture: str) -> None:
    drawn = MAKE_PICTURES.FLOWS[picture]()
    assert (ROOT / "docs" / "pictures" / picture).read_text() == drawn, "stale: python tools/make_pictures.py"


def test_pictures_are_small_and_fetch_nothing() -> None:
    pictures = sorted((ROOT / "docs" / "pictures").iterdir())
    assert {"demo.svg", "report.png", *MAKE_PICTURES.FLOWS} == {path.name for path in pictures}
    for path in pictures:
        assert path.stat().st_size < 300_000, path.name
        if path.suffix == ".svg":
            assert not re.search(r"@font-face|url\(http|href=|<script", path.read_text()), path.name


def test_rich_s_fonts_are_taken_out() -> None:
    from io import StringIO

    from rich.console import Console

    console = Console(record=True, file=StringIO())
    console.print("word")
    svg = console.export_svg()
    assert "@font-face" in svg
    assert "@font-face" not in MAKE_PICTURES.without_fonts(svg)
    assert "word" in MAKE_PICTURES.without_fonts(svg)


# --- everything is documented ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_every_hook_is_documented_and_tested(hook: str) -> None:
    page = (ROOT / "docs" / "hooks.md").read_text()
    signature = str(inspect.signature(HOOKS[hook])).replace("'", '"')
    assert f"## {hook}\n\n```python\ndef {hook}{signature}: ...\n```" in page
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert any(re.search(rf"\b{hook}\b", path.read_text()) for path in tests), f"no test names {hook}"


def test_every_slot_of_a_bundled_plugin_is_documented() -> None:
    """So that another plugin's author learns which hook fills it, and what class to implement."""
    page = (ROOT / "docs" / "hooks.md").read_text()
    brought = [slot for info in Registry(safe=True).plugins for slot in info.slots]
    assert {"loop", "companion", "notifier", "approver", "stopper", "thinker"} <= {slot.name for slot in brought}
    for slot in brought:
        assert slot.base is not None
        module, _, name = slot.base.partition(":")
        assert inspect.isclass(getattr(importlib.import_module(module), name))
        (row,) = re.findall(rf"^\| `{slot.hook}` \| `{slot.name}`.*$", page, re.M)
        assert f"`{module}.{name}`" in row
        assert slot.suite is None or f"`{slot.suite.label}`" in row


def test_every_command_is_documented() -> None:
    from perpetual.cli.app import program

    def walk(path: str, command: click.Command) -> list[str]:
        found = [path]
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=path)
            for name in command.list_commands(context):
                sub = command.get_command(context, name)
                assert sub is not None, f"{path} {name} is listed and cannot be loaded"
                found += walk(f"{path} {name}", sub)
        return found

    headings = re.findall(r"^#{2,3} (perpetual .+)$", (ROOT / "docs" / "cli.md").read_text(), re.M)
    commands = walk("perpetual", program)[1:]
    assert sorted(headings) == sorted(commands)
    assert len(commands) > 40


def test_every_method_of_the_lab_is_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    headings = re.findall(r"^### ((?:Lab|lab)\..+)$", page, re.M)
    expected = [f"Lab.{name}" for name in MAKE_DOCS.members(importlib.import_module("perpetual").Lab)]
    for component, home in MAKE_DOCS.components().items():
        expected += [f"lab.{component}.{name}" for name in MAKE_DOCS.members(home) if name != "__call__"]
    assert set(expected) <= set(headings)
    assert len(headings) == len(set(headings))
    assert len(expected) > 120


def test_every_method_of_the_lab_says_what_it_does() -> None:
    homes = {"Lab": importlib.import_module("perpetual").Lab, **MAKE_DOCS.components()}
    for title, home in homes.items():
        for name, value in MAKE_DOCS.members(home).items():
            text = inspect.getdoc(value) or ""
            assert text, f"{title}.{name} has no docstring"
            assert "see `perpetual.lab." not in text.splitlines()[0], f"{title}.{name} sends its reader elsewhere"


def test_the_signature_on_the_page_is_the_source_s() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert "    idempotency_key: str | None = None,\n) -> Hypothesis: ..." in page
    assert "def transaction() -> AbstractContextManager[None]: ..." in page


# --- links and README -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", BLOCKS.PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


def test_readme_says_at_once_what_to_do() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    top = "\n".join(lines[:10])
    assert "make demo" in top
    assert "make test" in top
    assert "pip install" in top
    assert len(lines) <= 75


def test_the_demos_page_has_the_verdicts_of_the_campaign() -> None:
    from perpetual_demo.campaign import CAMPAIGN

    page = (ROOT / "docs" / "demo.md").read_text()
    for claim in CAMPAIGN:
        assert f"| {claim.statement} | {claim.mde:g} | {claim.expected} |" in page


# --- the site -------------------------------------------------------------------------------------------------------


class _Fetched(HTMLParser):
    """What a browser fetches for a page: the addresses of links to resources, scripts, pictures and frames."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.addresses.append(given.get("href") or "")
        elif tag in ("script", "img", "iframe", "source", "embed", "video", "audio"):
            self.addresses.append(given.get("src") or "")


@pytest.mark.slow
def test_the_site_is_built_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (site / "llms.txt").read_text() == (ROOT / "docs" / "llms.txt").read_text()
    for page in MAKE_DOCS.navigation():
        built = (site / page).with_suffix(".html")
        parser = _Fetched()
        parser.feed(built.read_text())
        assert parser.addresses, page
        assert [address for address in parser.addresses if re.match(r"(https?:)?//", address)] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", sheet.read_text()), sheet.name
