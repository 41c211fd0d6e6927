"""Which paths a note may have."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual_git.paths import PathRefused, check_path

ACCEPTED = {
    "adam.md": "adam.md",
    "adam": "adam.md",
    "notes/adam": "notes/adam.md",
    "cases/2026-11/17 lr sweep.md": "cases/2026-11/17 lr sweep.md",
    ".hidden": ".hidden.md",
    "a/b/c/d/e/f/g/h.md": "a/b/c/d/e/f/g/h.md",
    "cafe\u0301.md": "caf\u00e9.md",
    "größe/µ-param.md": "größe/µ-param.md",
    "研究/メモ.md": "研究/メモ.md",
    "v1.2/notes.md": "v1.2/notes.md",
    "100% done.md": "100% done.md",
    "github.md": "github.md",
    "digit.md": "digit.md",
    "git.md": "git.md",
    "console.md": "console.md",
    "com10.md": "com10.md",
    ".md": ".md.md",
    "x" * 197 + ".md": "x" * 197 + ".md",
}

REFUSED = {
    "": "empty",
    "/etc/passwd": "absolute",
    "//server/share.md": "absolute",
    "C:/notes.md": "allows no :",
    "a\\b.md": "backslash",
    "..\\..\\x.md": "backslash",
    "nul\0.md": "U+0000",
    "tab\t.md": "U+0009",
    "line\nbreak.md": "U+000A",
    "escape\x1b[31m.md": "U+001B",
    "rtl\u202e.md": "U+202E",
    "zero\u200bwidth.md": "U+200B",
    "lone\udcff.md": "U+DCFF",
    "separator\u2028.md": "U+2028",
    "..": "segment ..",
    ".": "segment .",
    "../x.md": "segment ..",
    "../../etc/passwd": "segment ..",
    "a/../../x.md": "segment ..",
    "a/./b.md": "segment .",
    "a//b.md": "empty segment",
    "a/": "empty segment",
    ".git": "git's own",
    ".git/config": "git's own",
    "a/.git/hooks/post-commit.md": "git's own",
    ".GIT/config.md": "git's own",
    ".Git.md": "git's own",
    ".git /x.md": "git's own",
    ".git./x.md": "git's own",
    ".gitmodules": "git's own",
    ".gitattributes.md": "git's own",
    "GIT~1/config.md": "git's own",
    ".g\u200cit/config.md": "U+200C",
    "\ufeff.git/config.md": "U+FEFF",
    ".git::$INDEX_ALLOCATION/x.md": "allows no :",
    " lead.md": "blank",
    "trail.md ": "blank",
    "\u00a0x.md": "blank",
    "a /b.md": "blank",
    "a/ b.md": "blank",
    "a./b.md": "ends with a dot",
    "x.": "ends with a dot",
    "con.md": "device",
    "a/CON/b.md": "device",
    "Aux.notes.md": "device",
    "nul": "device",
    "LPT1.md": "device",
    "com\u00b9.md": "device",
    "con .md": "device",
    "what?.md": "allows no ?",
    "a<b.md": "allows no <",
    "a|b.md": "allows no |",
    "%2e%2e%2fetc.md": "percent-encoded",
    "a%00.md": "percent-encoded",
    "script.py": "ends in .md",
    "NOTE.MD": "ends in .md",
    "adam.v2": "ends in .md",
    "x" * 198 + ".md": "longer than 200",
    "x" * 198: "longer than 200",
    "a.md/b.md": "folder may not end in .md",
    "a/.md/b": "folder may not end in .md",
    "a/b/c/d/e/f/g/h/i.md": "more than 8",
    "語" * 100 + ".md": "longer than 255 bytes",
}


@pytest.mark.parametrize(("path", "normal"), ACCEPTED.items(), ids=ascii)
def test_a_path_is_accepted_in_its_normal_form(path: str, normal: str) -> None:
    assert check_path(path) == normal


@pytest.mark.parametrize(("path", "why"), REFUSED.items(), ids=ascii)
def test_a_path_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(PathRefused) as refused:
        check_path(path)
    assert why in refused.value.why
    assert refused.value.path == path


HOSTILE = st.text(alphabet="./\\ .gitGIT~1:%2eaé\u0301\u200b\u202e\0\ud800\u212aco nmd", max_size=24)


@settings(max_examples=60, deadline=None)
@given(st.one_of(HOSTILE, HOSTILE.map(lambda text: f"{text}.md"), st.text(max_size=12)))
def test_an_accepted_path_is_safe_and_in_normal_form(path: str) -> None:
    try:
        note = check_path(path)
    except PathRefused:
        return
    assert check_path(note) == note == unicodedata.normalize("NFC", note)
    assert note.endswith(".md")
    assert len(note) <= 200
    for segment in note.split("/"):
        assert segment.strip(". ") != ""
        assert not segment.lower().startswith(".git")
        assert {unicodedata.category(character) for character in segment}.isdisjoint({"Cc", "Cf", "Cs"})
