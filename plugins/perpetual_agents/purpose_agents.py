"""Agents with a purpose, as objects of a program: plain ones, and one that leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

from perpetual.api import UsageError
from perpetual_agents import alignment
from perpetual_agents.agent import Options, PerpetualAgent
from perpetual_agents.alignment import Alignment, Decision

__all__ = ["GenericPurposeDrivenAgent", "LeadershipAgent", "PurposeDrivenAgent"]


class PurposeDrivenAgent(PerpetualAgent):
    """An agent with a purpose. Raises UsageError without one."""

    _is_plain = True

    def __init__(
        self, agent_id: str, purpose: str = "", adapter_name: str | None = None, **options: Unpack[Options]
    ) -> None:
        if not purpose.strip():
            purpose = self.default_purpose
        if not purpose.strip():
            raise UsageError(f"{agent_id} has no purpose", hint="purpose='...'")
        super().__init__(agent_id, adapter_name, purpose=purpose, **options)

    default_purpose: ClassVar[str] = ""


class GenericPurposeDrivenAgent(PurposeDrivenAgent):
    """A purpose-driven agent without anything of its own."""

    _is_plain = True


class LeadershipAgent(PurposeDrivenAgent):
    """You lead a team: you weigh options by what they bring to the purpose, decide, and say why."""

    default_purpose: ClassVar[str] = "Lead: weigh options by what they bring, decide, and say why."

    async def make_decision(self, context: object, stakeholders: Sequence[PerpetualAgent] = ()) -> Decision:
        """Returns the option that serves the purposes most: its own, and those of the stakeholders, each as much.

        Args:
            context: the options, as `make_purpose_driven_decision` takes them.
            stakeholders: agents that are asked for their alignment with each option.
        """
        options = alignment.options_of(context)
        asked = [self, *stakeholders]
        means: list[Alignment] = []
        for option in options:
            found = [await one.evaluate_purpose_alignment(option) for one in asked]
            methods = {one.method for one in found}
            reasons = [f"{agent.agent_id}: {one:.2f}; {one.reasons[0] if one.reasons else 'no reason given'}"
                       for agent, one in zip(asked, found, strict=True)]  # fmt: skip
            means.append(Alignment(sum(found) / len(found), reasons, methods.pop() if len(methods) == 1 else "mixed"))
        return alignment.decide(options, means)
