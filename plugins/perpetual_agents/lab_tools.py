"""Tools of agents on the lab and on their own goals: the functions behind the names `lab` and `goals`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from perpetual_agents.tools import AgentTool, ToolContext

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.data import Agent

__all__ = ["GoalTools", "LabTools", "build_goals", "build_lab"]


class LabTools(AgentTool):
    """Reads the lab, and proposes: what is proposed waits for its approval as every agent's does."""

    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        """Returns the functions."""
        return [lab_brief, lab_hypotheses, lab_experiment, lab_propose, lab_notes]


def lab_brief(context: ToolContext, tokens: int = 800) -> str:
    """Says where the research stands: goal, open hypotheses, last results, dead ends, what to do next."""
    return context.lab.brief(max(50, min(tokens, 4000)))


def lab_hypotheses(context: ToolContext, status: str | None = None) -> list[dict[str, object]]:
    """Lists hypotheses with their confidence; `status` is open, supported, refuted or parked."""
    found = context.lab.hypotheses.list(status=status, limit=50).items
    return [{"id": one.id, "statement": one.statement, "status": one.status, "confidence": one.confidence}
            for one in found]  # fmt: skip


def lab_experiment(context: ToolContext, id: str) -> dict[str, object]:
    """Shows an experiment: its command, its status, and the metrics of its runs."""
    one = context.lab.experiments.get(id)
    runs = context.lab.runs.list(experiment_id=one.id, limit=50).items
    return {"id": one.id, "title": one.title, "status": one.status, "command": one.command,
            "runs": [{"id": run.id, "status": run.status, "metrics": dict(run.metrics)} for run in runs]}  # fmt: skip


def lab_propose(context: ToolContext, hypothesis: str, command: str, title: str = "") -> dict[str, object]:
    """Proposes an experiment that tests a hypothesis; a person approves it, or the project's rule does."""
    made = context.lab.experiments.propose(
        hypothesis, command=command, title=title, idempotency_key=f"agents/{context.key}"
    )
    return {"id": made.id, "status": made.status}


def lab_notes(context: ToolContext, query: str, k: int = 5) -> list[dict[str, object]]:
    """Searches the notes of the project's memory."""
    found = context.lab.memory.search(query, limit=max(1, min(k, 20))).items
    return [{"path": hit.note.path, "text": hit.excerpt} for hit in found]


class GoalTools(AgentTool):
    """Reads and changes the agent's own goals."""

    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        """Returns the functions."""
        return [goals_list, goals_add, goals_update]


def goals_list(context: ToolContext) -> str:
    """Lists your goals with status and progress."""
    from perpetual_agents.agents import Agents

    return json.dumps(Agents(context.lab).get(context.agent.id).goals, ensure_ascii=False)


def goals_add(context: ToolContext, text: str) -> str:
    """Adds a goal of yours; answers its id."""
    from perpetual_agents.agents import Agents

    agents = Agents(context.lab)
    known = next((goal for goal in agents.get(context.agent.id).goals if goal["text"] == text), None)
    return (known or agents.add_goal(context.agent.id, text))["id"]


def goals_update(
    context: ToolContext, goal: str, status: Literal["open", "in_progress", "done", "failed", "dropped"] | None = None,
    progress: float | None = None,
) -> str:  # fmt: skip
    """Changes a goal's status or its progress from 0 to 1."""
    from perpetual_agents.agents import Agents

    return json.dumps(Agents(context.lab).update_goal(context.agent.id, goal, status=status, progress=progress))


def build_lab(options: Mapping[str, object]) -> LabTools:
    """Builds the tools on the lab."""
    return LabTools()


def build_goals(options: Mapping[str, object]) -> GoalTools:
    """Builds the tools on the agent's goals."""
    return GoalTools()
