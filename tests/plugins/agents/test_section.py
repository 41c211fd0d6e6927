"""The section of the status and the check of the doctor: what agents need a person for."""

from __future__ import annotations

from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.operations import pause
from perpetual_agents.section import AgentsSection, InboxCheck
from tests.plugins.agents.support import Scripted, agent, say, work


def test_the_section_counts_and_names_what_needs_a_person(lab: Lab) -> None:
    """Nothing is said without agents; a reason is shown on one line."""
    assert AgentsSection().show(lab) is None
    agent(lab, "one")
    pause(lab, agent(lab, "two"), reason="lunch\nand more")
    Agents(lab).post("one", "hello")
    found = AgentsSection().show(lab)
    assert found is not None
    assert found.lines[0] == "1 running, 1 paused; 1 message to be answered"
    assert found.lines[1].startswith("a2 two is paused: lunch")
    assert "\n" not in found.lines[1]
    assert found.data["states"] == {"running": 1, "paused": 1}


def test_the_check_names_agents_that_nobody_works_on(lab: Lab) -> None:
    """It is a finding only while a message is due."""
    assert InboxCheck().examine(lab).ok is None
    id = agent(lab)
    assert InboxCheck().examine(lab).ok is True
    Agents(lab).post(id, "hello")
    found = InboxCheck().examine(lab)
    assert (found.ok, found.hint) == (False, "perpetual services start agents")
    assert id in found.detail
    work(lab, id, Scripted(say("hi")))
    assert InboxCheck().examine(lab).ok is True
