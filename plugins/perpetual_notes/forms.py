"""The seven bundled forms."""

from __future__ import annotations

from collections.abc import Mapping

from perpetual_notes.form import FieldsForm, FormField

__all__ = [
    "critic_calibration", "episodic_case", "failure_pattern", "purpose_contract", "skill_card", "tool_policy",
    "user_preference",
]  # fmt: skip


def purpose_contract(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of what the research is for."""
    return FieldsForm.for_type("purpose_contract", "purpose", (
        FormField("purpose", "text", "what the research is for, in one sentence"),
        FormField("success", "list", "what must be true when it is done, each measurable"),
        FormField("out_of_bounds", "list", "what is not to be done or touched"),
    ))  # fmt: skip


def user_preference(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of how a person wants things done."""
    return FieldsForm.for_type("user_preference", "preferences", (
        FormField("who", "text", "whose preference it is"),
        FormField("preference", "text", "what that person wants"),
        FormField("strength", "choice", "must, should or may", ("must", "should", "may")),
    ))  # fmt: skip


def skill_card(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of a recipe that was measured."""
    return FieldsForm.for_type("skill_card", "skills", (
        FormField("when", "text", "the conditions under which it was measured"),
        FormField("steps", "list", "what to do, in order"),
        FormField("evidence", "list", "ids of the records it rests on, such as h1, e2"),
        FormField("effect", "text", "the measured effect with its interval and its runs"),
    ))  # fmt: skip


def episodic_case(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of what a decided claim has shown."""
    return FieldsForm.for_type("episodic_case", "cases", (
        FormField("hypothesis", "text", "the id of the claim, such as h1"),
        FormField("verdict", "choice", "supported, refuted, open or parked",
                  ("supported", "refuted", "open", "parked")),
        FormField("effect", "text", "the measured effect with its interval and its runs, or `not measured`"),
    ))  # fmt: skip


def failure_pattern(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of a crash that runs share."""
    return FieldsForm.for_type("failure_pattern", "failures", (
        FormField("signature", "text", "what such crashes have in common: its hash, or its last line"),
        FormField("count", "count", "how many runs ended so"),
        FormField("first_seen", "date", "the day of the first"),
        FormField("last_seen", "date", "the day of the last"),
    ))  # fmt: skip


def critic_calibration(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of how often a critic was right."""
    return FieldsForm.for_type("critic_calibration", "critics", (
        FormField("critic", "text", "the judge or model whose opinions were held to measured verdicts"),
        FormField("accuracy", "share", "the share of its opinions that were right, from 0 to 1"),
        FormField("n", "count", "how many opinions were compared"),
    ))  # fmt: skip


def tool_policy(options: Mapping[str, object]) -> FieldsForm:
    """Builds the form of whether agents may use a tool."""
    return FieldsForm.for_type("tool_policy", "policies", (
        FormField("tool", "text", "the tool's name"),
        FormField("rule", "choice", "allow, ask or avoid", ("allow", "ask", "avoid")),
        FormField("reason", "text", "why"),
    ))  # fmt: skip
