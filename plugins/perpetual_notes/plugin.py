"""Entry point: writes what runs have shown to memory; imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Field, Provider, RecordKind, Slot, Suite, Template, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `note_form`: types of notes."""
    suite = Suite("perpetual_notes.testing:NoteFormContract", fixture="form")
    template = Template("perpetual memory new {0}", "what a data set is known for", folder="perpetual_templates:plugin")
    return [Slot("note_form", "perpetual_note_forms", "form of a note", "perpetual_notes.form:NoteForm", suite=suite,
                 template=template)]  # fmt: skip


@hookimpl
def perpetual_note_forms() -> list[Provider]:
    """Offers the forms of seven types."""
    meanings = {
        "purpose_contract": "what the research is for, and what is out of bounds",
        "user_preference": "how a person wants things done",
        "skill_card": "a recipe that was measured",
        "episodic_case": "what a decided claim has shown",
        "failure_pattern": "a crash that runs share",
        "critic_calibration": "how often a critic was right",
        "tool_policy": "whether agents may use a tool",
    }
    return [Provider("note_form", name, f"perpetual_notes.forms:{name}", text) for name, text in meanings.items()]


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual memory new` and `perpetual memory edit`."""
    return [
        Provider("command", "memory.new", "perpetual_notes.command:new", "Write a note by the form of its type."),
        Provider("command", "memory.edit", "perpetual_notes.command:edit", "Change a note in your editor."),
    ]


@hookimpl
def perpetual_kinds() -> list[RecordKind]:
    """Brings what is kept of the notes that are written from the record."""
    return [
        RecordKind("place", {"event": Field("int", "seq of the last event that notes were written of", required=True)},
                   exported=False),
        RecordKind("case", {
            "hypothesis": Field("str", "the decided hypothesis", required=True, references="hypothesis"),
            "path": Field("str", "path of its note", required=True),
        }, indexes=("hypothesis",)),
        RecordKind("crash", {
            "run": Field("str", "the run that crashed", required=True, references="run"),
            "signature": Field("str", "eight digits of the hash of what it crashed of", required=True),
        }, indexes=("run", "signature")),
        RecordKind("failure", {
            "signature": Field("str", "eight digits of the hash of the rest", required=True),
            "path": Field("str", "path of its note", required=True),
            "program": Field("str", "name of the program", required=True),
            "cause": Field("str", "kind of the symptom, or how the runs ended", required=True),
            "exception": Field("str", "type of the exception; empty where none is named", required=True),
            "line": Field("str", "the last error line, its numbers, paths and ids masked", required=True),
            "count": Field("int", "runs that crashed so", required=True),
            "first_run": Field("str", "the first of them", required=True, references="run"),
            "first_seen": Field("str", "when that one ended (ISO 8601, UTC)", required=True),
            "last_run": Field("str", "the newest of them", required=True, references="run"),
            "last_seen": Field("str", "when that one ended (ISO 8601, UTC)", required=True),
            "runs": Field("list", "ids of the newest 20", required=True),
        }, indexes=("signature",)),
    ]  # fmt: skip


@hookimpl
def perpetual_analysed(lab: Lab) -> None:
    """Writes the notes of verdicts and crashes that are new."""
    if lab.config.methodology["memory_write_on_completion"]:
        from perpetual_notes.writing import catch_up

        catch_up(lab)
