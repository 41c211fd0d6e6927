"""Forms of notes: each keeps the contract, and `lab.memory.write` holds a note to the form of its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotFound, PluginError, UsageError
from perpetual.lab.context import Context
from perpetual_notes import forms, notes
from perpetual_notes.form import FieldsForm, FormField, NoteForm
from perpetual_notes.front import front_of
from perpetual_notes.testing import NoteFormContract

Given = Mapping[str, Sequence[str]] | None
TYPES: dict[str, dict[str, list[str]]] = {
    "purpose_contract": {"purpose": ["a small model"], "success": ["loss < 2"], "out_of_bounds": ["the test set"]},
    "user_preference": {"who": ["Ada"], "preference": ["short answers"], "strength": ["should"]},
    "skill_card": {"when": ["lr above 0.1"], "steps": ["warm up"], "evidence": ["h1"], "effect": ["+0.1 acc"]},
    "episodic_case": {"hypothesis": ["h1"], "verdict": ["refuted"], "effect": ["not measured"]},
    "failure_pattern": {"signature": ["oom"], "count": ["3"],
                        "first_seen": ["2026-11-01"], "last_seen": ["2026-11-02"]},
    "critic_calibration": {"critic": ["judge-1"], "accuracy": ["0.81"], "n": ["42"]},
    "tool_policy": {"tool": ["rm"], "rule": ["ask"], "reason": ["it cannot be undone"]},
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
class TestBundledForms(NoteFormContract):
    """The seven bundled forms keep the contract."""

    @pytest.fixture
    def form(self, name: str) -> NoteForm:
        """The form of that type."""
        build: Callable[[Mapping[str, object]], NoteForm] = getattr(forms, name)
        return build({})


class Foreign(FieldsForm):
    """Breaks one promise in each subclass."""

    type = "foreign"
    own = forms.tool_policy({}).own


class LosesScope(Foreign):
    def template(self, title: str = "", *, fields: Given = None, scope: Given = None, body: str = "") -> str:
        return super().template(title, fields=fields, body=body)


class FindsNothing(Foreign):
    def problems(self, text: str) -> list[str]:
        return []


class Raises(Foreign):
    def problems(self, text: str) -> list[str]:
        if "*a" in text:
            raise RuntimeError(text)
        return super().problems(text)


class TakesAnyType(Foreign):
    def problems(self, text: str) -> list[str]:
        return [line for line in super().problems(text) if "`type`" not in line]


class TakesAnyScope(Foreign):
    def problems(self, text: str) -> list[str]:
        return [line for line in super().problems(text) if "scope" not in line]


class TakesNoText(Foreign):
    def problems(self, text: str) -> list[str]:
        return [line for line in super().problems(text) if "no text below" not in line]


class NamesNoField(Foreign):
    def problems(self, text: str) -> list[str]:
        return ["something is missing"] if super().problems(text) else []


class Remembers(Foreign):
    calls = 0

    def template(self, title: str = "", *, fields: Given = None, scope: Given = None, body: str = "") -> str:
        self.calls += 1
        return (
            super()
            .template(title, fields=fields, scope=scope, body=body)
            .replace("---\n#", f"---\n\n<!--{self.calls}-->\n#")
        )


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (LosesScope, "test_a_filled_form_is_sound"),
        (FindsNothing, "test_an_empty_form_names_what_it_lacks"),
        (NamesNoField, "test_an_empty_form_names_what_it_lacks"),
        (TakesAnyScope, "test_a_wrong_scope_is_named"),
        (TakesAnyType, "test_another_type_is_a_problem"),
        (TakesNoText, "test_a_note_needs_a_text"),
        (Raises, "test_untrusted_text_raises_nothing_and_costs_little"),
        (Remembers, "test_it_is_pure"),
    ],
)
def test_the_contract_bites(broken: type[Foreign], test: str) -> None:
    getattr(NoteFormContract(), test)(Foreign())
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(NoteFormContract(), test)(broken())


@pytest.mark.parametrize("type_", TYPES)
def test_a_note_of_each_type_is_written(project: Path, type_: str) -> None:
    with Lab.open(project) as lab:
        answer = notes.new(
            lab, type_, title="What we know", fields=TYPES[type_], scope={"tag": ["lr"]}, body="# Why\nso"
        )
        note = lab.memory.get(answer["path"])
        assert (note.type, note.title, note.status) == (type_, "Why", "candidate")
        front = front_of(lab.memory.read(note.path))
        assert front is not None
        assert front.fields["scope"] == {"tag": ["lr"]}
        with pytest.raises(Conflict, match="already"):
            notes.new(lab, type_, title="What we know", fields=TYPES[type_])


@pytest.mark.parametrize("type_", TYPES)
def test_a_missing_field_is_named(project: Path, type_: str) -> None:
    with Lab.open(project) as lab:
        for name in TYPES[type_]:
            fields = {key: value for key, value in TYPES[type_].items() if key != name}
            with pytest.raises(UsageError, match=f"`{name}` is missing") as raised:
                notes.new(lab, type_, title="What we know", fields=fields)
            assert "perpetual memory new" in str(raised.value.hint)
        assert not lab.memory.list().items


@pytest.mark.parametrize(
    ("type_", "field", "value"),
    [
        ("tool_policy", "rule", "maybe"), ("user_preference", "strength", "very"), ("failure_pattern", "count", "0"),
        ("failure_pattern", "count", "many"), ("failure_pattern", "first_seen", "yesterday"),
        ("critic_calibration", "accuracy", "81"), ("critic_calibration", "accuracy", ".nan"),
        ("critic_calibration", "n", "1.5"), ("episodic_case", "verdict", "proven"),
        ("tool_policy", "expires", "soon"), ("tool_policy", "reason", "x" * 2_001),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named(project: Path, type_: str, field: str, value: str) -> None:
    with Lab.open(project) as lab, pytest.raises(UsageError, match=f"`{field}`"):
        notes.new(lab, type_, title="t", fields={**TYPES[type_], field: [value]})


def test_the_front_matter_says_the_type(project: Path) -> None:
    text = forms.tool_policy({}).template("no rm", fields=TYPES["tool_policy"])
    with Lab.open(project) as lab:
        lab.memory.write("policies/rm.md", text)
        assert lab.memory.get("policies/rm.md").type == "tool_policy"
        with pytest.raises(UsageError, match="type: tool_policy"):
            lab.memory.write("policies/rm.md", text, type="note")
        with pytest.raises(UsageError, match="unknown type of note"):
            lab.memory.write("policies/x.md", text.replace("tool_policy", "tool_polcy"))
        with pytest.raises(UsageError, match="`rule` is maybe"):
            lab.memory.write("policies/rm.md", text.replace("rule: ask", "rule: maybe"))
        assert lab.memory.read("policies/rm.md") == text


def test_a_plugin_adds_a_type(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held to its form, and like every type that is not plain it is shown once it is promoted."""
    own = FieldsForm.for_type("data-card", "data", [FormField("rows", "count", "how many rows it has")])
    parts = Context.parts
    foreign = ("acme/data-card", own)

    def more(self: Context, slot: str) -> list[tuple[str, object]]:
        return [*parts(self, slot), *([foreign] if slot == "note_form" else [])]

    monkeypatch.setattr(Context, "parts", more)
    with Lab.open(project) as lab:
        with pytest.raises(UsageError, match="`rows` is missing"):
            lab.memory.write("data/cats.md", "---\ntype: data-card\ntitle: Cats\n---\nCats.\n")
        notes.new(lab, "data-card", title="Cats", fields={"rows": ["3"]})
        with Lab.open(project, actor="agent:x") as agents, pytest.raises(NotFound):
            agents.memory.read("data/cats.md")
        lab.memory.promote("data/cats.md", "counted")
        with Lab.open(project, actor="agent:x") as agents:
            assert "rows: 3" in agents.memory.read("data/cats.md")


def test_a_form_that_fails_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Foreign):
        def problems(self, text: str) -> list[str]:
            raise RuntimeError("no form")

    monkeypatch.setattr(Context, "parts", lambda *_: [("acme/foreign", Broken())])
    with Lab.open(project) as lab, pytest.raises(PluginError, match=r"acme/foreign.*no form"):
        lab.memory.write("x.md", "---\ntype: foreign\ntitle: x\n---\nx\n")


def test_a_text_without_front_matter_is_of_any_type(project: Path) -> None:
    with Lab.open(project) as lab:
        for type_ in (*TYPES, "note"):
            lab.memory.write(f"plain/{type_}.md", f"plain words of a {type_}", type=type_)
            assert lab.memory.get(f"plain/{type_}.md").type == type_
        lab.memory.write("plain/rule.md", "---\nbetween two rules\n---\n")
        assert lab.memory.get("plain/rule.md").type == "note"


def test_an_agent_is_shown_no_behaviour_before_promotion(project: Path) -> None:
    with Lab.open(project) as lab:
        for type_, fields in TYPES.items():
            notes.new(lab, type_, title="What we know", fields=fields)
    with Lab.open(project, actor="agent:x") as lab:
        shown = [note.type for note in lab.memory.list().items if note.title != note.path]
        assert sorted(shown) == ["episodic_case", "failure_pattern"]
