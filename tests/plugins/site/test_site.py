"""The site: what is on its pages, what never is, and that files are written whole, once, and inside the folder."""

from __future__ import annotations

import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual.toolkit.atomic import write_atomic
from perpetual_report.site_check import verify
from perpetual_site import output
from perpetual_site.build import build
from perpetual_site.notes import html_of
from perpetual_site.output import MANIFEST

_VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """The tags of a page, and its words; a tag that is left open fails."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.words += data


def pages_of(folder: Path) -> dict[str, str]:
    """The pages by their path."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.html"))}


@pytest.fixture(scope="module")
def made(campaign: Path, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path) -> Path:
    """The site of the record."""
    folder = tmp_path_factory.mktemp("made") / "site"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
        with Lab.open(campaign) as lab:
            build({}).write(lab, folder)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "site")


def test_pages_run_nothing_fetch_nothing_and_link_to_each_other(made: Path) -> None:
    pages = pages_of(made)
    wanted = {"index.html", "experiments.html", "logbook/index.html", "logbook/1.html", "h/h1.html", "h/h2.html"}
    assert {*pages} == wanted | {"e/e1.html"}
    parsed = {name: Page(text) for name, text in pages.items()}
    for name, page in parsed.items():
        policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert {"script", "img", "link", "iframe", "form", "base"}.isdisjoint(tag for tag, _ in page.tags)
        for _, attributes in page.tags:
            assert not any(key.startswith("on") for key in attributes)
            href = attributes.get("href", "#main")
            if href.startswith("https://"):
                assert attributes["rel"] == "nofollow noopener noreferrer ugc"
                continue
            path, _, anchor = href.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            assert target in parsed, (name, href)
            assert not anchor or any(a.get("id") == anchor for _, a in parsed[target].tags), (name, href)


def test_foreign_text_is_text_and_a_note_is_tame(made: Path) -> None:
    pages = pages_of(made)
    assert "\u202e" not in "".join(pages.values())
    assert "\x1b" not in "".join(pages.values())
    assert '<script>alert(1)</script> "quoted" & `code` \\u202eturned' in Page(pages["h/h1.html"]).words
    logbook = pages["logbook/1.html"]
    assert '<a href="https://example.org/a?b=1" rel=' in logbook
    assert "<h4>What helps</h4>" in logbook
    assert "a paper <img src=x> says so" in Page(logbook).words


@pytest.mark.parametrize(
    "text",
    [
        "a [trap](javascript:alert(1))", "a [trap](JaVaScRiPt:alert(1))", "[x](data:text/html,y)",
        "<javascript:alert(1)>",
        "<b onclick=x>bold</b>", "<script>alert(1)</script>", "[x](vbscript:y)", "[x](&#106;avascript:alert(1))",
        "![pic](javascript:x)", "[x](//elsewhere.example)", "[x](../../../etc/passwd)", "```<script>\n<script>\n```",
        "[x]: javascript:alert(1)\n\n[x]", "\u202e[x](https:\u202e//y)", "x" * 30_000, "[" * 5_000, "> " * 2_000 + "x",
    ],
)  # fmt: skip
def test_a_note_makes_no_tag_that_runs_or_fetches(text: str) -> None:
    made = html_of(text)
    page = Page(made)
    assert {tag for tag, _ in page.tags} <= {"p", "a", "em", "code", "pre", "blockquote", "strong"}
    for tag, attributes in page.tags:
        assert attributes.keys() <= {"href", "rel", "class"}, tag
        assert attributes.get("href", "https://").startswith(("http://", "https://", "mailto:"))
    assert "\u202e" not in made


def test_a_cell_marks_its_actor(made: Path) -> None:
    logbook = (made / "logbook" / "1.html").read_text()
    newest = logbook.index('<article class="cell agent"')
    assert "an agent says so" in logbook[newest:].partition("</article>")[0]
    assert '<span class="kind">agent</span> <bdi>codex/1.2</bdi>' in logbook
    assert logbook.count('<article class="cell person"') >= 4
    assert newest < logbook.index('<article class="cell person"')  # newest first


def test_what_must_not_leave_does_not(made: Path) -> None:
    text = "".join(pages_of(made).values()) + (made / MANIFEST).read_text()
    assert "zelda" not in text
    assert "baseline of &lt;user&gt;" in text
    assert "~/data" in text
    for hidden in ("waits.md", "Not yet seen", "gone.md", "Was wrong", "wrong after all"):
        assert hidden not in text


def test_the_same_record_gives_the_same_bytes_and_a_change_writes_its_pages(lab: Lab, site: Path) -> None:
    before = pages_of(site)
    again = build({}).write(lab, site)
    assert (again["written"], again["removed"], len(again["unchanged"])) == ([], [], len(before))
    other = site.with_name("other")
    build({}).write(lab, other)
    assert pages_of(other) == before
    lab.hypotheses.add("another one")
    made = build({}).write(lab, site)
    assert {*made["written"]} == {"index.html", "h/h3.html", "logbook/1.html", "logbook/index.html"}


def test_verify_holds_the_site_to_the_record(lab: Lab, site: Path) -> None:
    lab.hypotheses.add("later on")  # which does not matter
    found = verify(lab, site)
    assert (found["ok"], found["problems"], found["format"]) == (True, [], "site")
    assert found["checked"] > 20
    assert verify(lab, site / "index.html")["ok"]
    page = site / "h" / "h1.html"
    page.write_text(re.sub(r'(data-key="h1.prior"[^>]*>)0.5<', r"\g<1>0.9<", page.read_text()))
    found = verify(lab, site)
    assert [(item["number"], item["claimed"], item["found"]) for item in found["problems"]] == [
        ("h1.prior", "0.9", "0.5")
    ]
    assert not verify(lab, page)["ok"]
    page.unlink()
    assert [item["where"] for item in verify(lab, site)["problems"]] == ["h/h1.html"]


def test_the_folder_is_ours_or_empty(lab: Lab, tmp_path: Path) -> None:
    project = tmp_path / "project"
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for folder, error in (
        (full, Conflict), (link, UsageError), (project, UsageError), (project.parent, UsageError),
        (project / ".perpetual" / "site", UsageError), (full / "thesis.tex", UsageError),
    ):  # fmt: skip
        with pytest.raises(error):
            build({}).write(lab, folder)
    assert [path.name for path in full.iterdir()] == ["thesis.tex"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_a_link_inside_the_folder_is_not_followed(lab: Lab, site: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for page in (site / "h").iterdir():
        page.unlink()
    (site / "h").rmdir()
    (site / "h").symlink_to(outside)
    with pytest.raises(PerpetualError, match="it is a link"):
        build({}).write(lab, site)
    assert [*outside.iterdir()] == []


@pytest.mark.slow
def test_only_listed_files_are_removed_and_one_that_was_changed_is_left(lab: Lab, site: Path) -> None:
    listed = json.loads((site / MANIFEST).read_text())
    for name, text in (("h/h8.html", "old"), ("h/h9.html", "mine by now")):
        (site / name).write_text(text)
        listed["files"][name] = "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4"  # of "old"
    (site / MANIFEST).write_text(json.dumps(listed))
    (site / "CNAME").write_text("example.org")
    made = build({}).write(lab, site)
    assert (made["removed"], made["kept"]) == (["h/h8.html"], ["h/h9.html"])
    assert (site / "CNAME").exists()
    listed["files"] |= {"../../x.html": "", "h/../../x.html": ""}
    (site / MANIFEST).write_text(json.dumps(listed))
    with pytest.raises(UsageError, match="not the list of a site"):
        build({}).write(lab, site)


@pytest.mark.slow
def test_a_call_that_was_cut_off_is_completed(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real, left = tmp_path / "site", write_atomic, [3]

    def dies(path: Path, data: bytes | str, **options: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(path, data, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(output, "write_atomic", dies)
    with pytest.raises(KeyboardInterrupt):
        build({}).write(lab, folder)
    assert not (folder / "index.html").exists()  # the last one
    (folder / "e").mkdir(exist_ok=True)
    (folder / "e" / ".e1.html.0123456789ab.tmp").write_text("half a pa")
    monkeypatch.setattr(output, "write_atomic", real)
    build({}).write(lab, folder)
    assert verify(lab, folder)["ok"]
    assert [*folder.rglob("*.tmp")] == []


@pytest.mark.slow
def test_the_command_answers_pages_and_refuses_two_forms_at_once(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--site", "site", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "perpetual.site/1"
    assert "index.html" in answer["written"]
    assert run(["report", "--site", "site"]) == 0
    assert "wrote 0 pages (7 unchanged, 0 removed)" in capsys.readouterr().out
    assert run(["verify", "site"]) == 0
    assert "every one matches" in capsys.readouterr().out
    assert run(["report", "--site", "site", "--format", "html"]) == 2
