"""The contract suite of the slot `note_form`: subclass it, and give the fixture `form`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pytest

from perpetual_notes.form import NoteForm
from perpetual_notes.front import front_of

__all__ = ["NoteFormContract"]

_LIMIT_S = 5.0
_SCOPE = {"tag": ["depth"], "tool": ["rm", "git push"]}
_TITLE = 'It\'s what "we" know: 100 % #1'


def _hostile() -> list[str]:
    many = "\n".join(f"k{n}: v" for n in range(5_000))
    return [
        "", "---", "---\n", "---\n---\n", "---\n\n---\ntext", "---\ntype\n---\nx", "---\n- a\n- b\n---\nx",
        "---\ntype: [\n---\nx", "---\ntype: !!python/object/apply:os.system [echo]\n---\nx",
        "---\na: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n---\nx", f"---\na: {'[' * 5_000}\n---\nx",
        f"---\n{many}\n---\nx", f"---\na: {'9' * 10_000}\n---\nx", "---\na: 1\na: 2\n---\nx",
        '---\ntype: "\\x69gnore"\n---\nx', "---\ntitle: \ud800\n---\nx", "---\n\0\n---\nx", "---\na: 0x" + "f" * 9_000,
        "---\n? [a, b]\n: c\n---\nx", "---\ntitle: .nan\nscope: 2026-99-99\n---\nx", "\ufeff---\ntype: note\n---\nx",
    ]  # fmt: skip


class NoteFormContract:
    """The promises of a form of notes."""

    @pytest.fixture
    def form(self) -> NoteForm:
        """Returns the form that is tested."""
        raise NotImplementedError

    def _type(self, form: NoteForm) -> str:
        front = front_of(form.template("a title"))
        assert front is not None, "a template begins with front matter"
        return str(front.fields["type"])

    def _missing(self, form: NoteForm) -> list[str]:
        """Returns the fields that an empty template has and that no common field is."""
        front = front_of(form.template())
        assert front is not None, "a template begins with front matter"
        return [name for name, value in front.fields.items() if value is None and name != "title"]

    def _filled(self, form: NoteForm) -> str:
        """Returns a sound note: of each field, the first of a few plain values that the form takes."""
        given: dict[str, Sequence[str]] = {}
        for name in self._missing(form):
            for value in ("a value", "1", "2026-11-30", *self._words_of(form, name)):
                text = form.template(_TITLE, fields={**given, name: [value]}, scope=_SCOPE, body="# What we know")
                if not any(f"`{name}`" in line for line in form.problems(text)):
                    given[name] = [value]
                    break
        return form.template(_TITLE, fields=given, scope=_SCOPE, body="# What we know")

    def _words_of(self, form: NoteForm, name: str) -> list[str]:
        """Returns the words of what the form says of a field that has a strange value."""
        text = form.template(_TITLE, fields={name: ["?"]}, body="x")
        said = " ".join(line for line in form.problems(text) if f"`{name}`" in line)
        return [*dict.fromkeys(re.findall(r"\w+", said))][:50]

    def test_an_empty_form_names_what_it_lacks(self, form: NoteForm) -> None:
        """Checks that each empty field of the template is named by a problem."""
        text = form.template()
        found = form.problems(text)
        assert found, "an empty form is no note"
        for name in ("title", *self._missing(form)):
            assert any(f"`{name}`" in line for line in found), f"no problem names `{name}`"

    def test_a_filled_form_is_sound(self, form: NoteForm) -> None:
        """Checks that the template of all required values has no problem, and holds them."""
        text = self._filled(form)
        assert [*form.problems(text)] == []
        front = front_of(text)
        assert front is not None
        assert front.body.strip() == "# What we know"
        assert front.fields["title"] == _TITLE
        assert front.fields.get("scope") == _SCOPE

    def test_a_wrong_scope_is_named(self, form: NoteForm) -> None:
        """Checks that an unknown scope is a problem which names it."""
        text = self._filled(form).replace("  tag:", "  tga:")
        assert any("tga" in line for line in form.problems(text))

    def test_another_type_is_a_problem(self, form: NoteForm) -> None:
        """Checks that a note of another type is not one of this form."""
        type_ = self._type(form)
        text = self._filled(form).replace(f"type: {type_}\n", "type: something_else\n", 1)
        assert any("`type`" in line for line in form.problems(text))

    def test_a_note_needs_a_text(self, form: NoteForm) -> None:
        """Checks that front matter alone is no note."""
        head = self._filled(form).partition("\n---\n")[0]
        assert form.problems(f"{head}\n---\n")

    def test_untrusted_text_raises_nothing_and_costs_little(self, form: NoteForm) -> None:
        """Checks that the form names a problem, soon, whatever the text is."""
        began = time.monotonic()
        for text in _hostile():
            assert form.problems(text), f"{text[:40]!r} is no note"
        assert time.monotonic() - began < _LIMIT_S

    def test_it_is_pure(self, form: NoteForm) -> None:
        """Checks that the same arguments give the same answer."""
        text = self._filled(form)
        assert text == self._filled(form)
        assert [*form.problems(text[:60])] == [*form.problems(text[:60])]
