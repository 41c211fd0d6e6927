"""The section of the status that says where the agents of a project stand, and the check that their messages move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, Finding, Section, StatusSection, line
from perpetual.toolkit.units import counted
from perpetual_agents.names import AGENT

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["AgentsSection", "InboxCheck", "build", "build_check"]

_MOST = 5  # agents that need a person, by name


class AgentsSection(StatusSection):
    """Counts agents by state, and names those that need a person."""

    def show(self, lab: Lab) -> Section | None:
        """Returns where the agents stand, None without any."""
        if not lab.records(AGENT).count(listed="yes"):
            return None
        from perpetual_agents.agents import Agents  # a project without agents does not pay for it

        agents = Agents(lab)
        counts = {state: number for state, number in agents.count().items() if number and state != "total"}
        states = Counter(str(message["state"]) for message in agents.open_messages())
        words = ", ".join(f"{number} {state}" for state, number in counts.items())
        lines = [f"{words}; {counted(sum(states.values()), 'message')} to be answered"]
        stuck = [*agents.list(state="error", limit=_MOST).items, *agents.list(state="paused", limit=_MOST).items]
        lines += [
            f"{one.id} {line(one.name)} is {one.state}: {line(one.reason)}" for one in stuck[:_MOST] if one.reason
        ]
        if states["waiting"]:
            lines.append(f"{states['waiting']} wait for a person: perpetual agent approvals")
        return Section("agents", lines, {"states": counts, "messages": dict(states)})


class InboxCheck(Check):
    """Says whether messages wait that no process works on."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what is there; changes nothing."""
        from perpetual_agents.agents import Agents
        from perpetual_agents.serving import is_busy
        from perpetual_agents.times import present_time

        agents = Agents(lab)
        running = {agent.id: agent for agent in agents.running()}
        if not running:
            return Finding(None, "no agent takes messages")
        now, served = present_time(), any(
            one["name"] == "agents" and one["state"] == "running" for one in lab.services.list())  # fmt: skip
        waits = {message["agent"] for message in agents.open_messages()
                 if message["agent"] in running and message["state"] != "waiting"
                 and (not message["due"] or message["due"] <= now)}  # fmt: skip
        left = sorted(id for id in waits if not served and not is_busy(lab, id))
        if left:
            return Finding(False, f"messages wait and no process works on them: {', '.join(left[:_MOST])}",
                           hint="perpetual services start agents")  # fmt: skip
        return Finding(True, f"{len(running)} agents take messages")


def build(options: Mapping[str, object]) -> AgentsSection:
    """Builds the section."""
    return AgentsSection()


def build_check(options: Mapping[str, object]) -> InboxCheck:
    """Builds the check."""
    return InboxCheck()
